"""Dynamic convolution: a depth-wise convolution whose kernel each position predicts.

"Pay Less Attention with Lightweight and Dynamic Convolutions" (Wu et al., ICLR 2019, arXiv
1901.10430), equations 3 to 5, as compared in Table 3 of Zhu et al. (ICCV 2019): a linear layer
with GLU, a kernel that is a linear map of the position's own input, shared by the D / groups
channels of a group and normalised over its taps, then a point-wise linear layer.

The softmax always runs over all K taps and elements outside of the sequence count as 0, in a
whole sequence as in step-by-step decoding. (fairseq's class for CPUs normalises over the taps
inside the sequence when that is shorter than the kernel, but in decoding over all.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .bands import dynamic_convolution
from .contract import Attention, AttentionOutput, AttentionState, SiteError
from .geometry import Geometry
from .kernels import forced_path
from .masks import AttentionMask
from .registry import register_attention
from .traits import Traits

NO_MEMORY = "it is a convolution over its own input, so it can't read another sequence"


class InputState(AttentionState):
    """The last inputs of a convolution; ``keep`` of them, or all."""

    def __init__(self, keep: int | None = None) -> None:
        self.keep = keep
        self.inputs_BTD: Tensor | None = None

    def append(self, inputs_BTD: Tensor) -> Tensor:
        """Add the inputs of the new positions; returns the kept ones followed by the new."""
        if self.inputs_BTD is not None:
            inputs_BTD = torch.cat([self.inputs_BTD, inputs_BTD], 1)
        first = 0 if self.keep is None else max(inputs_BTD.shape[1] - self.keep, 0)
        self.inputs_BTD = inputs_BTD[:, first:].clone() if first else inputs_BTD
        return inputs_BTD

    def select(self, index_N: Tensor) -> None:
        """As in ``AttentionState.select``."""
        if self.inputs_BTD is not None:
            self.inputs_BTD = self.inputs_BTD.index_select(0, index_N)

    def tensors(self) -> Sequence[Tensor]:
        """As in ``AttentionState.tensors``."""
        return [] if self.inputs_BTD is None else [self.inputs_BTD]


class PredictedKernels(Attention):
    """The projections of a dynamic convolution, over sequences or maps.

    Args:
        taps: number of taps of a kernel; the rest is as of ``DynamicConvolution``.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        dropout: float,
        taps: int,
        groups: int,
        glu: bool,
        softmax: bool,
    ) -> None:
        super().__init__(dim, heads)
        if dim % groups:
            raise ValueError(f"{groups} groups don't divide the width {dim}; choose a divisor")
        self.groups = groups
        self.glu = glu
        self.softmax = softmax
        self.dropout = dropout
        self.in_proj = nn.Linear(dim, 2 * dim if glu else dim)
        self.kernel_proj = nn.Linear(dim, groups * taps, bias=False)
        self.out_proj = nn.Linear(dim, dim)
        for module in (self.in_proj, self.kernel_proj, self.out_proj):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def gated(self, query_BQD: Tensor, valid_BQ: Tensor | None) -> Tensor:
        """What is convolved, (B, Q, D): 0 where an element isn't real."""
        input_BQD = self.in_proj(query_BQD)
        if self.glu:
            input_BQD = F.glu(input_BQD, -1)
        return input_BQD if valid_BQ is None else input_BQD.masked_fill(~valid_BQ[..., None], 0)

    def predict(self, input_BQD: Tensor) -> Tensor:
        """The kernel of every element and group, (B, Q, G, K), from the gated input."""
        kernel_BQGK = self.kernel_proj(input_BQD).unflatten(-1, (self.groups, -1))
        return kernel_BQGK.softmax(-1) if self.softmax else kernel_BQGK


@register_attention(
    "dynamic",
    examples=("dynamic", "dynamic(kernel=3,groups=2)", "dynamic(glu=false,groups=2,kernel=4)"),
)
class DynamicConvolution(PredictedKernels):
    """Dynamic convolution with GLU (Wu et al., ICLR 2019): each position predicts its kernel.

    Args:
        dim: model width D.
        heads: not used; a convolution has groups.
        dropout: dropout on the kernels after their softmax (DropConnect in Wu et al.).
        kernel: number of taps K. Centred on the position (an even kernel reaches one further
            ahead than back), or the last K positions where the future is hidden.
        groups: number of groups G that share a kernel (16 in Zhu et al.); must divide D.
        glu: project D -> 2 D and gate; false projects D -> D.
        softmax: normalise the kernel over its taps.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        kernel: int = 31,
        groups: int = 16,
        glu: bool = True,
        softmax: bool = True,
    ) -> None:
        self.traits(kernel=kernel, groups=groups)
        super().__init__(
            dim,
            heads,
            dropout=dropout,
            taps=kernel,
            groups=groups,
            glu=glu,
            softmax=softmax,
        )
        self.kernel = kernel

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        for name in ("kernel", "groups"):
            if options.get(name, 1) < 1:
                raise ValueError(f"{name} is 1 or more, not {options[name]}")
        return Traits(family="sampling", weights="kernel", lacks={"cross": NO_MEMORY})

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
        """As in ``Attention.forward``; the weights are the kernels, (B, G, Q, K taps)."""
        if memory_BKD is not None:
            raise SiteError(f"dynamic can't attend to a memory: {NO_MEMORY}")
        valid_BQ = None
        if mask is not None and mask.keys_BK is not None:
            valid_BQ = mask.keys_BK[:, -query_BQD.shape[1] :]
        input_BQD = self.gated(query_BQD, valid_BQ)
        kernel_BQGK = self.predict(input_BQD)
        source_BSD, back = input_BQD, (self.kernel - 1) // 2
        if isinstance(state, InputState):
            source_BSD = state.append(input_BQD)
            back = self.kernel - 1 - (source_BSD.shape[1] - input_BQD.shape[1])
        elif mask is not None and mask.causal:
            back = self.kernel - 1
        mixed_BQD = dynamic_convolution(
            source_BSD,
            F.dropout(kernel_BQGK, self.dropout, self.training),
            back,
            unfold=forced_path() == "explicit",
        )
        weights = kernel_BQGK.transpose(1, 2) if need_weights else None
        return AttentionOutput(self.out_proj(mixed_BQD), weights, state)

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """As in ``Attention.begin``."""
        if memory_BKD is not None:
            raise SiteError(f"dynamic can't attend to a memory: {NO_MEMORY}")
        return InputState(self.kernel - 1)
