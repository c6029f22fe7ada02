"""E3 alone in O(N H D): one distribution over the keys for all queries, without projected cells.

Zhu et al. (ICCV 2019), equations 1 and 2, with beta = 0010: the weights don't depend on the query,
so that the sums can be taken before the projections, which are linear::

    E3 = u_m^T (V_m x_k) = (V_m^T u_m)^T x_k,    sum_k A_m(k) W'_m x_k = W'_m sum_k A_m(k) x_k

Exact, value and gradient. On paper (and on the explicit path) every cell is projected three times.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .terms import TermsAttention


def attend_by_keys_only(
    attention: TermsAttention, memory_BKD: Tensor, valid_BK: Tensor | None, dropout: float = 0.0
) -> Tensor:
    """What every query gets, (B, 1, D), after the output projection.

    Args:
        attention: a module with the term E3 and no other.
        memory_BKD: the elements that are read.
        valid_BK: True where one is real; without any, the context is the projection's bias.
        dropout: probability of dropping a weight.
    """
    u_HE, key, value = attention.content_bias_HE, attention.key_proj, attention.value_proj
    assert u_HE is not None and key is not None
    u_HE = u_HE * attention.scale
    asking_HD = (u_HE[:, None] @ key.weight.unflatten(0, u_HE.shape)).squeeze(1)
    bias_H = None if key.bias is None else (u_HE * key.bias.unflatten(0, u_HE.shape)).sum(-1)
    scores_BHK = F.linear(memory_BKD, asking_HD, bias_H).transpose(1, 2)
    some_B11 = None
    if valid_BK is not None:
        some_B11 = valid_BK.any(1)[:, None, None]
        scores_BHK = scores_BHK.masked_fill(~(valid_BK[:, None] | ~some_B11), float("-inf"))
    weights_BHK = F.dropout(scores_BHK.softmax(-1), dropout)
    pooled_BHD = weights_BHK @ memory_BKD
    values_HED = value.weight.unflatten(0, u_HE.shape)
    context_BHE = torch.einsum("bhd,hed->bhe", pooled_BHD, values_HED)
    if value.bias is not None:
        bias_HE = value.bias.unflatten(0, u_HE.shape)
        context_BHE = context_BHE + weights_BHK.sum(-1, keepdim=True) * bias_HE
    if some_B11 is not None:
        context_BHE = context_BHE * some_B11
    return attention.out_proj(context_BHE.flatten(1)[:, None])
