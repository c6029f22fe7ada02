"""Deformable convolution of feature maps: each tap samples where the input tells it to.

"Deformable Convolutional Networks" (Dai et al., ICCV 2017, arXiv 1703.06211), equations 2 to 4,
and, with ``modulated=True``, "Deformable ConvNets v2" (Zhu et al., CVPR 2019, arXiv 1811.11168),
equation 1::

    y_q = sum_m W_m (a_m(q) x(q + p_m + d_m(q))) + b,
    x(s) = sum_k max(0, 1 - |s_y - k_y|) max(0, 1 - |s_x - k_x|) x_k

with offsets d (and v2's modulation a; 1 in v1) from a convolution of the same taps. What lies
outside of the map counts as 0. Sampling is torchvision's operator ``deform_conv2d``, which says
how offsets are laid out; on CPUs, where it is slow, ``sampling.py`` computes the same.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .contract import Attention, AttentionOutput, AttentionState, SiteError
from .deformable import OFFSET_LEARNING_RATE
from .dynamic import NO_MEMORY
from .geometry import Geometry
from .grid import Grid2D
from .masks import AttentionMask
from .registry import register_attention
from .sampling import gathered_convolution
from .traits import Traits

NO_ORDER = "it is a convolution of a feature map, where no cell comes before another"
NO_STRIDE = "it is a convolution over all cells of a map: set key_stride and query_stride to 1"


class DeformableConv2d(nn.Module):
    """2-D deformable convolution, version 1 or modulated version 2, with "same" padding.

    The branch that predicts offsets starts at zero, so that training begins from an ordinary
    convolution, and learns at a tenth of the rate (``lr_scale``; Dai et al., section 3.1). A named
    fact about version 2: its modulation is a sigmoid, 0.5 at the start, so that it begins from
    half an ordinary convolution.

    Args:
        in_channels, out_channels: numbers of channels.
        kernel: side of the kernel K, odd.
        stride: output cells are this many input cells apart; ceil(size / stride) of them.
        dilation: distance of neighbouring taps, in cells.
        bias: add a learnt bias.
        modulated: version 2.
        groups: groups of channels with offsets (and modulation) of their own; the convolution
            itself has one group.

    Attributes:
        weight: (out, in, K, K), named as in ``nn.Conv2d``, so that its trained weights load.
        offset_conv: predicts ``2 * groups * K * K`` offsets (dy then dx for each group and tap,
            row by row), then ``groups * K * K`` modulations before their sigmoid.
        offset_abs_mean: mean absolute offset of the last forward pass, in cells; None before.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        dilation: int = 1,
        bias: bool = False,
        modulated: bool = False,
        groups: int = 1,
    ) -> None:
        super().__init__()
        _check_options(kernel, groups)
        if in_channels % groups:
            raise ValueError(
                f"{groups} groups of offsets don't divide {in_channels} channels; choose a divisor"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel = kernel
        self.stride = stride
        self.dilation = dilation
        self.padding = dilation * (kernel // 2)
        self.modulated = modulated
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.offset_conv = nn.Conv2d(
            in_channels,
            (3 if modulated else 2) * groups * kernel**2,
            kernel,
            stride=stride,
            padding=self.padding,
            dilation=dilation,
        )
        for parameter in self.offset_conv.parameters():
            parameter.lr_scale = OFFSET_LEARNING_RATE  # pyright: ignore[reportAttributeAccessIssue]
        self.offset_abs_mean: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as ``nn.Conv2d`` does, with offsets of zero."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_channels * self.kernel**2)
            nn.init.uniform_(self.bias, -bound, bound)
        for parameter in self.offset_conv.parameters():
            nn.init.zeros_(parameter)

    def offsets(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor | None]:
        """Offsets (B, 2 groups K K, H', W') in cells and modulations (B, groups K K, H', W')."""
        predicted = self.offset_conv(x_BCHW)
        if not self.modulated:
            return predicted, None
        taps = self.groups * self.kernel**2
        offset, modulation = predicted.split([2 * taps, taps], 1)
        return offset, modulation.sigmoid()

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """(B, out, ceil(H / stride), ceil(W / stride)), of the type of the input."""
        offset, modulation = self.offsets(x_BCHW)
        self.offset_abs_mean = offset.detach().abs().mean()
        return self.convolve(x_BCHW, offset, modulation)

    def convolve(self, x_BCHW: Tensor, offset: Tensor, modulation: Tensor | None) -> Tensor:
        """``forward`` with given offsets and modulations, laid out as ``offsets`` has them."""
        # Half precision can't count far: at 300 a step of bfloat16 is 2.
        kind = torch.promote_types(x_BCHW.dtype, torch.float32)
        bias = None if self.bias is None else self.bias.to(kind)
        modulation = None if modulation is None else modulation.to(kind)
        tensors = (x_BCHW.to(kind), offset.to(kind), self.weight.to(kind), bias)
        with _without_autocast(x_BCHW):
            if x_BCHW.is_cpu:
                y_BCHW = gathered_convolution(
                    *tensors,
                    modulation,
                    stride=self.stride,
                    padding=self.padding,
                    dilation=self.dilation,
                )
            else:
                from torchvision.ops import deform_conv2d  # slow to load

                y_BCHW = deform_conv2d(
                    *tensors,
                    stride=(self.stride, self.stride),
                    padding=(self.padding, self.padding),
                    dilation=(self.dilation, self.dilation),
                    mask=modulation,
                )
        return y_BCHW.to(x_BCHW.dtype)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        version = 2 if self.modulated else 1
        return (
            f"{self.in_channels}, {self.out_channels}, kernel={self.kernel}, stride={self.stride}, "
            f"dilation={self.dilation}, groups={self.groups}, version={version}"
        )


def cells_of(
    name: str, memory_BKD: Tensor | None, geometry: Geometry | None, causal: bool
) -> Grid2D:
    """The map that a convolution is called on.

    Raises:
        SiteError: it is not called on a whole feature map.
    """
    if memory_BKD is not None:
        raise SiteError(f"{name} can't attend to a memory: {NO_MEMORY}")
    if causal:
        raise SiteError(f"{name} can't hide the future: {NO_ORDER}")
    if not isinstance(geometry, Grid2D):
        raise SiteError(f"{name} on feature maps needs a Grid2D geometry")
    if geometry.queries != geometry.keys or geometry.queries != geometry.height * geometry.width:
        raise SiteError(f"{name} can't skip cells: {NO_STRIDE}")
    return geometry


@register_attention(
    "deformable",
    examples=("deformable", "deformable(kernel=5,modulated=true)", "deformable(groups=2)"),
    axes=2,
)
class DeformableGrid(Attention):
    """2-D deformable convolution, v1 (Dai et al., ICCV 2017) or modulated v2 (Zhu et al., 2019).

    In a residual block it takes the place of the 3x3 convolution (``split_convolution``); on its
    own it is a convolution D -> D. Padding cells count as 0.

    Args:
        dim: model width D.
        heads: not used.
        dropout: not used; there are no attention weights.
        kernel: side of the kernel, odd.
        modulated: version 2.
        groups: groups of channels with offsets of their own; must divide D.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        kernel: int = 3,
        modulated: bool = False,
        groups: int = 1,
    ) -> None:
        super().__init__(dim, heads)
        self.convolution = DeformableConv2d(
            dim, dim, kernel, bias=True, modulated=modulated, groups=groups
        )

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        _check_options(options.get("kernel", 3), options.get("groups", 1))
        return Traits(
            family="sampling",
            weights="none",
            geometry=frozenset({"Grid2D"}),
            lacks={"causal": NO_ORDER, "incremental": NO_ORDER, "cross": NO_MEMORY},
            convolution=True,
        )

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
        """As in ``Attention.forward``; no weights. ``aux["offset_abs_mean"]`` is in cells."""
        hides = state is not None or (mask is not None and mask.causal)
        grid = cells_of("deformable", memory_BKD, geometry, hides)
        if mask is not None and mask.keys_BK is not None:
            query_BQD = query_BQD.masked_fill(~mask.keys_BK[..., None], 0)
        x_BDHW = query_BQD.transpose(1, 2).unflatten(2, (grid.height, grid.width))
        context_BQD = self.convolution(x_BDHW).flatten(2).transpose(1, 2)
        moved = self.convolution.offset_abs_mean
        return AttentionOutput(context_BQD, aux={} if moved is None else {"offset_abs_mean": moved})


def _check_options(kernel: int, groups: int) -> None:
    if kernel < 1 or kernel % 2 == 0:
        raise ValueError(f"kernel is an odd number of cells, not {kernel}")
    if groups < 1:
        raise ValueError(f"groups is 1 or more, not {groups}")


def _without_autocast(like: Tensor) -> AbstractContextManager[object]:
    """torchvision's operator has no half precision on CPUs, and no good one on GPUs."""
    kind = like.device.type
    if not torch.amp.is_autocast_available(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)
