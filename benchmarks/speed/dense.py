"""The four terms written down as the formula has them, with relative encodings held in full.

A reader's own first implementation of Zhu et al. (ICCV 2019), equations 1 and 2: vectorised torch
without a loop, but every pair of query and key has its own encoding R_{k-q}, so that tensors of
Q x K x D elements are made. It takes the weights of a ``TermsAttention``, and gives its values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...models.attention.geometry import sinusoid
from ...models.attention.terms import TermsAttention


def dense_terms(attention: TermsAttention, x_BLD: Tensor, *, project_first: bool = False) -> Tensor:
    """Self-attention with all four terms, (B, L, D) to (B, L, D).

    Args:
        attention: ``terms(1111)``; its weights are used.
        x_BLD: input without padding.
        project_first: project the 2 L - 1 different encodings and spread them to Q x K x D
            afterwards, which saves most of the multiplications and none of the memory.
    """
    assert attention.query_proj is not None and attention.key_proj is not None
    assert attention.content_bias_HE is not None and attention.relative_bias_HE is not None
    shape = (attention.heads, attention.head_dim)
    q_BQHE = attention.query_proj(x_BLD).unflatten(-1, shape) * attention.scale
    k_BKHE = attention.key_proj(x_BLD).unflatten(-1, shape)
    v_BKHE = attention.value_proj(x_BLD).unflatten(-1, shape)
    r_QKHE = relative_encodings(attention, x_BLD, project_first).unflatten(-1, shape)
    u_HE = attention.content_bias_HE * attention.scale
    v_HE = attention.relative_bias_HE * attention.scale
    energy_BHQK = (
        torch.einsum("bqhe,bkhe->bhqk", q_BQHE, k_BKHE)
        + torch.einsum("bqhe,qkhe->bhqk", q_BQHE, r_QKHE)
        + torch.einsum("he,bkhe->bhk", u_HE, k_BKHE)[:, :, None, :]
        + torch.einsum("he,qkhe->hqk", v_HE, r_QKHE)
    )
    context_BQHE = torch.einsum("bhqk,bkhe->bqhe", energy_BHQK.softmax(-1), v_BKHE)
    return attention.out_proj(context_BQHE.flatten(2))


def relative_encodings(attention: TermsAttention, x_BLD: Tensor, project_first: bool) -> Tensor:
    """V^R R_{k-q} for every query and key, (Q, K, D)."""
    assert attention.relative_proj is not None
    length = x_BLD.shape[1]
    place = torch.arange(length, device=x_BLD.device)
    offset_QK = place[None, :] - place[:, None] + (length - 1)
    table_PD = sinusoid(1 - length, length - 1, attention.dim, attention.base, x_BLD)
    if project_first:
        return attention.relative_proj(table_PD)[offset_QK]
    return attention.relative_proj(table_PD[offset_QK])
