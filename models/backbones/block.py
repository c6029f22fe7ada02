"""A residual block with a place for attention, dilation and deformable convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torchvision.models import resnet

from ..attention import SpecError
from ..attention.deformable_grid import DeformableConv2d
from ..layers.spatial import Grids, Padding, SpatialAttention


class AttendedBlock(nn.Module):
    """A residual block with a place for attention between its last two convolutions.

    That is after the 3x3 convolution of a bottleneck, its norm and ReLU, as in the paper. The
    basic block of ResNet-18 and -34 isn't in the paper: attention stands between its two 3x3
    convolutions. The submodules keep torchvision's names.

    Args:
        block: torchvision's block, whose submodules are taken over.
    """

    relu: nn.ReLU

    def __init__(self, block: resnet.BasicBlock | resnet.Bottleneck) -> None:
        super().__init__()
        self.downsample: nn.Module | None = None
        for name, child in block.named_children():
            setattr(self, name, child)
        self.convolutions = 3 if isinstance(block, resnet.Bottleneck) else 2
        self.attention: SpatialAttention | None = None

    @property
    def spatial_name(self) -> str:
        """Name of the 3x3 convolution before the attention site, which also holds the stride."""
        return f"conv{self.convolutions - 1}"

    @property
    def spatial(self) -> nn.Conv2d:
        """The regular 3x3 convolution before the attention site."""
        return cast(nn.Conv2d, getattr(self, self.spatial_name))

    def forward(self, x_BCHW: Tensor, grids: Grids, padding: Padding | None = None) -> Tensor:
        """As torchvision's block, with attention before the last convolution."""
        y_BCHW = x_BCHW
        for number in range(1, self.convolutions):
            y_BCHW = self.relu(self._normalised(number, y_BCHW))
        if self.attention is not None:
            y_BCHW = self.attention(y_BCHW, grids, padding)
        y_BCHW = self._normalised(self.convolutions, y_BCHW)
        y_BCHW += x_BCHW if self.downsample is None else self.downsample(x_BCHW)
        return self.relu(y_BCHW)

    def _normalised(self, number: int, x_BCHW: Tensor) -> Tensor:
        return getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(x_BCHW))


def dilate(stages: list[nn.Sequential], output_stride: int) -> None:
    """Turn the strides of conv4 and conv5 into dilations where the map would get too small."""
    if output_stride not in (8, 16, 32):
        raise ValueError(f"output_stride is 8, 16 or 32, not {output_stride}")
    dilation = 1
    for stage, stride in zip(stages, (16, 32), strict=True):
        if stride <= output_stride:
            continue
        for block in stage:
            for module in block.modules():
                if isinstance(module, nn.Conv2d):
                    dilation_here = dilation if module.stride == (2, 2) else 2 * dilation
                    module.stride = (1, 1)
                    if module.kernel_size == (3, 3):
                        module.dilation = module.padding = (dilation_here, dilation_here)
        dilation *= 2


def deform(block: AttendedBlock, options: dict[str, object], name: str) -> None:
    """Put a deformable convolution with the same weights in place of the 3x3 convolution."""
    regular = block.spatial
    if regular.groups > 1:
        raise SpecError(
            f"{name} has grouped 3x3 convolutions, and a deformable one has a single group: "
            "choose a resnet or wide_resnet"
        )
    make = cast(Callable[..., DeformableConv2d], DeformableConv2d)
    try:
        deformable = make(
            regular.in_channels,
            regular.out_channels,
            stride=regular.stride[0],
            dilation=regular.dilation[0],
            **options,
        )
    except ValueError as error:
        raise SpecError(f"attention spec 'deformable': {error}") from error
    if deformable.weight.shape == regular.weight.shape:
        with torch.no_grad():
            deformable.weight.copy_(regular.weight)
    else:
        nn.init.kaiming_normal_(deformable.weight, mode="fan_out", nonlinearity="relu")
    setattr(block, block.spatial_name, deformable)
