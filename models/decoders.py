"""Decoders of segmentation models: from the maps of a backbone to a map of class scores."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import FeaturePyramidNetwork

from .attention import SiteError, split_convolution
from .attention.deformable_grid import DeformableConv2d
from .layers.spatial import Grids, SpatialAttention, build_spatial, drawn_apart

Norm = Callable[[int], nn.Module]


class CrissCrossFreeHead(nn.Module):
    """CCNet's head (RCCA module in its public code) with any attention, or none, in the middle.

    3x3 convolution c5 -> channels, attention, 3x3 convolution, a 3x3 convolution of that beside
    c5, and the classifier; each 3x3 convolution with norm and ReLU. A ``deformable`` part of the
    spec makes the first convolution deformable.

    Args:
        channels: of the backbone's maps, by name.
        width: channels of the decoder.
        classes: number of classes K.
        attention: attention spec.
        norm: makes a norm for a number of channels.
        head_dropout: on whole channels before the classifier.
        options: for ``build_spatial``.
    """

    def __init__(
        self,
        channels: Mapping[str, int],
        width: int,
        classes: int,
        *,
        attention: str,
        norm: Norm,
        head_dropout: float,
        **options: Any,
    ) -> None:
        super().__init__()
        rest, convolution = split_convolution(attention)
        inputs = channels["c5"]
        with drawn_apart():
            self.reduce = conv_norm_relu(inputs, width, norm, convolution)
            self.attention = build_spatial(rest, width, **options)
        self.refine = conv_norm_relu(width, width, norm)
        self.join = conv_norm_relu(inputs + width, width, norm)
        self.dropout = nn.Dropout2d(head_dropout)
        self.classifier = nn.Conv2d(width, classes, 1)

    def forward(self, maps: Mapping[str, Tensor], grids: Grids) -> Tensor:
        """Class scores at c5's resolution, (B, K, h, w)."""
        x_BCHW = self.reduce(maps["c5"])
        if self.attention is not None:
            x_BCHW = self.attention(x_BCHW, grids)
        x_BCHW = self.join(torch.cat([maps["c5"], self.refine(x_BCHW)], 1))
        return self.classifier(self.dropout(x_BCHW))


class PyramidHead(nn.Module):
    """The semantic branch of "Panoptic Feature Pyramid Networks" (Kirillov et al., CVPR 2019).

    Each level of a feature pyramid goes through one 3x3 convolution with norm and ReLU, is scaled
    up to c2's resolution at once (the paper does so by factors of 2, with a convolution before
    each) and all are added up for the classifier. Attention reads c5's map after its projection.

    Args: as for ``CrissCrossFreeHead``; a ``deformable`` part has no 3x3 convolution to replace.
    """

    def __init__(
        self,
        channels: Mapping[str, int],
        width: int,
        classes: int,
        *,
        attention: str,
        norm: Norm,
        head_dropout: float,
        **options: Any,
    ) -> None:
        super().__init__()
        rest, convolution = split_convolution(attention)
        if convolution is not None:
            raise SiteError(
                f"head={attention!r} can't stand in the decoder fpn, which has no 3x3 convolution "
                "before it: put deformable into backbone, or choose decoder=ccnet"
            )
        with drawn_apart():
            attention_module = build_spatial(rest, width, **options)
        self.fpn = AttendedPyramid(list(channels.values()), width, attention_module)
        self.levels = nn.ModuleList(conv_norm_relu(width, width, norm) for _ in channels)
        self.dropout = nn.Dropout2d(head_dropout)
        self.classifier = nn.Conv2d(width, classes, 1)

    def forward(self, maps: Mapping[str, Tensor], grids: Grids) -> Tensor:
        """Class scores at c2's resolution, (B, K, h, w)."""
        self.fpn.grids = grids
        pyramid = self.fpn(OrderedDict(maps))
        size = maps["c2"].shape[-2:]
        up = [
            F.interpolate(level(x), size, mode="bilinear", align_corners=True)
            for level, x in zip(self.levels, pyramid.values(), strict=True)
        ]
        return self.classifier(self.dropout(sum(up[1:], start=up[0])))


class AttendedPyramid(FeaturePyramidNetwork):
    """torchvision's feature pyramid with attention on its top map, after the projection."""

    def __init__(self, channels: list[int], width: int, attention: SpatialAttention | None) -> None:
        super().__init__(channels, width)
        self.attention = attention
        self.grids = Grids()

    def get_result_from_inner_blocks(self, x: Tensor, idx: int) -> Tensor:
        """The projection of level ``idx``; -1 is the top, where the pyramid starts."""
        y = super().get_result_from_inner_blocks(x, idx)
        return self.attention(y, self.grids) if idx == -1 and self.attention is not None else y


def conv_norm_relu(
    inputs: int, outputs: int, norm: Norm, deformable: dict[str, Any] | None = None
) -> nn.Sequential:
    """3x3 convolution (deformable with these options, if given), norm and ReLU."""
    if deformable is None:
        convolution: nn.Module = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    else:
        convolution = DeformableConv2d(inputs, outputs, **deformable)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, norm(outputs), nn.ReLU(inplace=True))
