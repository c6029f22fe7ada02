"""ResNets with attention in their residual blocks, and deformable convolutions.

"An Empirical Study of Spatial Attention Mechanisms in Deep Networks" (Zhu et al., ICCV 2019,
section 4.1): an attended residual block is 1x1, 3x3 (regular or deformable), attention, 1x1, in
all blocks of conv4 and conv5: 6 + 3 modules in ResNet-50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

from torch import Tensor, nn
from torchvision.models import get_model, resnet
from torchvision.ops import FrozenBatchNorm2d

from ..attention import Spec, split_convolution
from ..attention.deformable_grid import DeformableConv2d
from ..image_config import RESNETS, STAGES
from ..layers.spatial import Gate, Grids, Padding, SpatialAttention, build_spatial, drawn_apart
from .block import AttendedBlock, deform, dilate
from .weights import is_inserted, load_weights

Norm = Literal["batch", "frozen", "sync"]

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "frozen": FrozenBatchNorm2d,
    "sync": nn.SyncBatchNorm,
}


class AttendedResNet(nn.Module):
    """A ResNet of torchvision without its classifier, with attention in chosen stages.

    Args:
        name: ``resnet18`` … ``wide_resnet101_2``.
        attention: attention spec; a ``deformable`` part takes the place of the 3x3 convolution
            before the site, in the same stages.
        heads, dropout: of the attention.
        stages: stages with attention; 4 and 5 are conv4 and conv5.
        key_stride, query_stride, gate: see ``SpatialAttention``.
        output_stride: 16 turns the stride of conv5 into a dilation of 2, 8 those of conv4 and
            conv5 into 2 and 4. The convolution whose stride is taken away keeps the dilation it
            had, as in torchvision: it reads the same cells as before, so that the dense map
            holds the strided one. (CCNet's public code gives it the new dilation.)
        deep_stem: three 3x3 convolutions (64, 64, 128) for the 7x7, as in CCNet's public code
            and under the names it uses.
        norm: ``batch``, ``frozen`` (statistics and affine of the weights file, not trained) or
            ``sync`` (over all processes).
        weights: file of torchvision's state dict (.pth, .safetensors); its ``fc`` is left out.

    Attributes:
        channels: number of channels of ``c2`` … ``c5``.

    Raises:
        SpecError, SiteError: from the attention spec.
        WeightsError: the file can't be read or does not fit.
    """

    conv1: nn.Module
    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(
        self,
        name: str = "resnet50",
        attention: str | Spec = "none",
        *,
        heads: int = 8,
        stages: Sequence[int] = (4, 5),
        key_stride: int = 1,
        query_stride: int = 1,
        gate: Gate = "zero",
        dropout: float = 0.0,
        output_stride: int = 32,
        deep_stem: bool = False,
        norm: Norm = "batch",
        weights: Path | str | None = None,
    ) -> None:
        super().__init__()
        self._still: list[nn.Module] = []
        self.deep_stem = deep_stem
        if name not in RESNETS:
            raise ValueError(f"resnet {name!r} is unknown: choose one of {', '.join(RESNETS)}")
        if not set(stages) <= set(STAGES):
            raise ValueError(f"stages are among 2, 3, 4 and 5, not {tuple(stages)}")
        self._take_over(name, NORMS[norm])
        if deep_stem:
            self._deepen_stem(NORMS[norm])
        dilate([self.layer3, self.layer4], output_stride)
        self.output_stride = output_stride
        self.grids = Grids()
        rest, convolution = split_convolution(attention)
        build = partial(
            build_spatial,
            rest,
            heads=heads,
            dropout=dropout,
            key_stride=key_stride,
            query_stride=query_stride,
            gate=gate,
        )
        with drawn_apart():
            for stage in sorted(set(stages)):
                for block in self.stage(stage):
                    assert isinstance(block, AttendedBlock)
                    block.attention = build(block.spatial.out_channels)
                    if convolution is not None:
                        deform(block, convolution, name)
        if weights is not None:
            load_weights(self, Path(weights))

    def _take_over(self, name: str, norm: Callable[[int], nn.Module]) -> None:
        """Build torchvision's network and keep all but its classifier."""
        original = cast(resnet.ResNet, get_model(name, weights=None, norm_layer=norm))
        self.conv1, self.bn1 = original.conv1, original.bn1
        self.relu, self.maxpool = original.relu, original.maxpool
        self.channels: dict[str, int] = {}
        for stage in STAGES:
            blocks = getattr(original, f"layer{stage - 1}")
            attended = [AttendedBlock(block) for block in blocks]
            self.add_module(f"layer{stage - 1}", nn.Sequential(*attended))
            last = blocks[-1]
            final = last.conv3 if isinstance(last, resnet.Bottleneck) else last.conv2
            self.channels[f"c{stage}"] = final.out_channels

    def _deepen_stem(self, norm: Callable[[int], nn.Module]) -> None:
        """Three 3x3 convolutions; the first block then reads 128 channels."""
        self.conv1, self.bn1 = _convolution(3, 64, 3, stride=2), norm(64)
        self.conv2, self.bn2 = _convolution(64, 64, 3), norm(64)
        self.conv3, self.bn3 = _convolution(64, 128, 3), norm(128)
        first = cast(AttendedBlock, self.layer1[0])
        size = cast(tuple[int, ...], cast(nn.Conv2d, first.conv1).kernel_size)[0]
        first.conv1 = _convolution(128, cast(nn.Conv2d, first.conv1).out_channels, size)
        width = self.channels["c2"]
        first.downsample = nn.Sequential(_convolution(128, width, 1), norm(width))

    def stage(self, number: int) -> nn.Sequential:
        """The blocks of conv2 … conv5."""
        return getattr(self, f"layer{number - 1}")

    def freeze(self, parts: int) -> None:
        """Stop the first ``parts`` of stem, conv2, …, conv5 from learning; norms included.

        Inserted attention and offsets learn anyway: no file of weights has values for them.
        """
        stem = [self.conv1, self.bn1]
        if self.deep_stem:
            stem += [self.conv2, self.bn2, self.conv3, self.bn3]
        frozen = [nn.ModuleList(stem), *map(self.stage, STAGES)][:parts]
        for part in frozen:
            for name, parameter in part.named_parameters():
                if not is_inserted(name):
                    parameter.requires_grad_(False)
        self._still = [
            module
            for part in frozen
            for module in part.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm)
        ]
        self.train(self.training)

    def train(self, mode: bool = True) -> AttendedResNet:
        """As ``nn.Module.train``; the statistics of frozen parts stay as they are."""
        super().train(mode)
        for module in self._still:
            module.eval()
        return self

    @property
    def attended(self) -> list[SpatialAttention]:
        """The inserted attention modules, from the image on."""
        return [module for module in self.modules() if isinstance(module, SpatialAttention)]

    @property
    def deformable(self) -> list[DeformableConv2d]:
        """The inserted deformable convolutions, from the image on."""
        return [module for module in self.modules() if isinstance(module, DeformableConv2d)]

    def forward(
        self, image_B3HW: Tensor, sizes: Sequence[tuple[int, int]] | None = None
    ) -> dict[str, Tensor]:
        """Maps ``c2`` … ``c5`` of normalised images, (B, C, ceil(H / stride), ceil(W / stride)).

        Args:
            image_B3HW: images, of any size from 1 x 1 pixel on.
            sizes: height and width of each image without padding; its padding cells are then
                hidden from attention. None: attention reads all cells.
        """
        height, width = image_B3HW.shape[-2:]
        padding = None if sizes is None else Padding(sizes, height, width)
        x_BCHW = self.relu(self.bn1(self.conv1(image_B3HW)))
        if self.deep_stem:
            x_BCHW = self.relu(self.bn2(self.conv2(x_BCHW)))
            x_BCHW = self.relu(self.bn3(self.conv3(x_BCHW)))
        x_BCHW = self.maxpool(x_BCHW)
        maps = {}
        for stage in STAGES:
            for block in self.stage(stage):
                x_BCHW = block(x_BCHW, self.grids, padding)
            maps[f"c{stage}"] = x_BCHW
        return maps


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Without bias, "same" padding, initialised as torchvision does."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution
