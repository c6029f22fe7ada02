"""Deformable convolution in one dimension: each tap samples where the input tells it to.

"Deformable Convolutional Networks" (Dai et al., ICCV 2017, arXiv 1703.06211), equations 2 to 4,
which Zhu et al. (ICCV 2019, section 3.2) read as attention with one key content term::

    y_q = sum_m W_m x(q + p_m + d_m(q)) + b,    x(s) = sum_k max(0, 1 - |s - k|) x_k

d is a convolution of the same taps, zero at the start, so that training begins from an ordinary
convolution. Version 1: no modulation of the taps. Elements outside of the sequence count as 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .contract import Attention, AttentionOutput, AttentionState, SiteError
from .dynamic import NO_MEMORY, InputState
from .geometry import Geometry
from .masks import AttentionMask
from .registry import register_attention
from .traits import Traits

OFFSET_LEARNING_RATE = 0.1
"""Scale of the learning rate of the offsets (Dai et al., section 3.1)."""


def sample_linear(x_BTD: Tensor, place_BN: Tensor, *, from_left: bool = False) -> Tensor:
    """Values (B, N, D) at fractional positions, by linear interpolation, 0 outside.

    Differentiable in both arguments. Only the two neighbours of a place are read.

    Args:
        x_BTD: values at the positions 0..T-1.
        place_BN: positions, in tokens, float32 or wider.
        from_left: a place that is a whole number t is read from t - 1 and t, so that nothing
            after t is touched in the backward pass either; else from t and t + 1, as
            torchvision does.
    """
    batch, length, width = x_BTD.shape
    place_BN = place_BN.clamp(-1, length)
    low_BN = place_BN.detach().ceil() - 1 if from_left else place_BN.detach().floor()
    share_BN = place_BN - low_BN
    # One flat table of rows, with 2 zeros on either side of each item.
    rows = F.pad(x_BTD, (0, 0, 2, 2)).flatten(0, 1)
    first_B1 = torch.arange(batch, device=x_BTD.device)[:, None] * (length + 4)
    index = (low_BN.long().clamp(-2, length) + 2 + first_B1).flatten()
    values = F.embedding_bag(
        torch.stack([index, index + 1], -1),
        rows,
        mode="sum",
        per_sample_weights=torch.stack([1 - share_BN, share_BN], -1).flatten(0, 1).to(rows.dtype),
    )
    return values.unflatten(0, place_BN.shape)


@register_attention("deformable", examples=("deformable", "deformable(kernel=5)"))
class DeformableConvolution(Attention):
    """1-D deformable convolution, version 1 (Dai et al., ICCV 2017); alone or in front.

    Where the future is hidden the taps are the last K positions, the offsets are predicted from
    those, and a tap never samples beyond its query: its place is clamped there.

    Args:
        dim: model width D.
        heads: not used.
        dropout: not used; there are no attention weights.
        kernel: number of taps K, odd (3 in Zhu et al.).
    """

    def __init__(self, dim: int, heads: int = 8, *, dropout: float = 0.0, kernel: int = 3) -> None:
        super().__init__(dim, heads)
        self.traits(kernel=kernel)
        self.kernel = kernel
        self.weight_DDK = nn.Parameter(torch.empty(dim, dim, kernel))
        self.bias_D = nn.Parameter(torch.empty(dim))
        self.offset_weight_KDK = nn.Parameter(torch.zeros(kernel, dim, kernel))
        self.offset_bias_K = nn.Parameter(torch.zeros(kernel))
        for parameter in (self.offset_weight_KDK, self.offset_bias_K):
            parameter.lr_scale = OFFSET_LEARNING_RATE  # pyright: ignore[reportAttributeAccessIssue]
        nn.init.kaiming_uniform_(self.weight_DDK, a=math.sqrt(5))  # as nn.Conv1d
        bound = 1 / math.sqrt(dim * kernel)
        nn.init.uniform_(self.bias_D, -bound, bound)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        kernel = options.get("kernel", 3)
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel is an odd number of taps, not {kernel}")
        return Traits(family="sampling", weights="none", lacks={"cross": NO_MEMORY})

    def forward(
        self,
        query_BQD: Tensor,
        memory_BKD: Tensor | None = None,
        *,
        geometry: Geometry | None = None,
        mask: AttentionMask | None = None,
        state: AttentionState | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """As in ``Attention.forward``; no weights. ``aux["offset_abs_mean"]`` is in tokens."""
        if memory_BKD is not None:
            raise SiteError(f"deformable can't attend to a memory: {NO_MEMORY}")
        queries = query_BQD.shape[1]
        if mask is not None and mask.keys_BK is not None:
            query_BQD = query_BQD.masked_fill(~mask.keys_BK[:, -queries:, None], 0)
        causal = isinstance(state, InputState) or (mask is not None and mask.causal)
        input_BTD = state.append(query_BQD) if isinstance(state, InputState) else query_BQD
        offset_BQK = self.offsets(input_BTD, queries, causal)
        taps_BQKD = sample_linear(
            input_BTD, self.places(offset_BQK, input_BTD.shape[1], causal), from_left=causal
        ).unflatten(1, (queries, self.kernel))
        context_BQD = F.linear(
            taps_BQKD.flatten(2), self.weight_DDK.transpose(1, 2).flatten(1), self.bias_D
        )
        return AttentionOutput(
            context_BQD, state=state, aux={"offset_abs_mean": offset_BQK.detach().abs().mean()}
        )

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """Holds all inputs so far: an offset may reach back to any of them."""
        if memory_BKD is not None:
            raise SiteError(f"deformable can't attend to a memory: {NO_MEMORY}")
        return InputState()

    def offsets(self, input_BTD: Tensor, queries: int, causal: bool) -> Tensor:
        """Offsets d_m of the last ``queries`` positions, in tokens: (B, Q, K)."""
        reach = (self.kernel - 1, 0) if causal else (self.kernel // 2, self.kernel // 2)
        first = input_BTD.shape[1] - queries - reach[0]
        near_BTD = F.pad(input_BTD[:, max(first, 0) :], (0, 0, max(-first, 0), reach[1]))
        offset_BKQ = F.conv1d(near_BTD.transpose(1, 2), self.offset_weight_KDK, self.offset_bias_K)
        return offset_BKQ.transpose(1, 2)

    def places(self, offset_BQK: Tensor, length: int, causal: bool) -> Tensor:
        """Where the taps of the last Q positions sample, (B, Q * K), in tokens."""
        # Half precision can't count far: at 300 a step of bfloat16 is 2.
        kind = torch.promote_types(offset_BQK.dtype, torch.float32)
        queries = offset_BQK.shape[1]
        query_Q1 = torch.arange(length - queries, length, device=offset_BQK.device, dtype=kind)[
            :, None
        ]
        tap_K = torch.arange(self.kernel, device=offset_BQK.device, dtype=kind)
        first_tap = self.kernel - 1 if causal else self.kernel // 2
        place_BQK = query_Q1 + tap_K - first_tap + offset_BQK.to(kind)
        if causal:
            place_BQK = torch.minimum(place_BQK, query_Q1)
        return place_BQK.flatten(1)
