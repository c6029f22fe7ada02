"""Semantic segmentation: CCNet's recipe without criss-cross, on an attended ResNet.

"CCNet: Criss-Cross Attention for Semantic Segmentation" (Huang et al., ICCV 2019) with its
criss-cross modules left out, as "An Empirical Study of Spatial Attention Mechanisms in Deep
Networks" (Zhu et al., ICCV 2019) has it: attention in the residual blocks of conv4 and conv5, and
one module more after the backbone.
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from .backbones import AttendedResNet
from .decoders import CrissCrossFreeHead, PyramidHead, conv_norm_relu
from .image_config import SegmenterConfig


class Segmenter(nn.Module):
    """A class for every pixel; built from a ``SegmenterConfig``.

    Raises:
        SpecError, SiteError: from the attention specs.
        WeightsError: from the file of weights.
    """

    def __init__(self, config: SegmenterConfig) -> None:
        super().__init__()
        self.config = config
        common = {
            "heads": config.heads,
            "key_stride": config.key_stride,
            "query_stride": config.query_stride,
            "gate": config.gate,
            "dropout": config.attention_dropout,
        }
        self.body = AttendedResNet(
            config.resnet,
            config.backbone,
            stages=config.attended_stages,
            output_stride=config.output_stride,
            deep_stem=config.deep_stem,
            norm=config.batch_norm,
            weights=config.weights,
            **common,
        )
        norm = nn.SyncBatchNorm if config.batch_norm == "sync" else nn.BatchNorm2d
        make = CrissCrossFreeHead if config.decoder == "ccnet" else PyramidHead
        self.decoder = make(
            self.body.channels,
            config.decoder_channels,
            config.classes,
            attention=config.head,
            norm=norm,
            head_dropout=config.head_dropout,
            **common,
        )
        self.auxiliary = None
        if config.auxiliary:
            self.auxiliary = nn.Sequential(
                conv_norm_relu(self.body.channels["c4"], config.decoder_channels, norm),
                nn.Dropout2d(config.head_dropout),
                nn.Conv2d(config.decoder_channels, config.classes, 1),
            )

    def forward(self, image_B3HW: Tensor) -> dict[str, Tensor]:
        """Logits (B, K, H, W) of normalised images (B, 3, H, W), of any size.

        ``out`` always, ``aux`` in training where there is an auxiliary classifier. They are
        scaled up bilinearly with corners aligned, as in CCNet's public code: cell i of a map of
        stride s is centred at pixel s i, so the corners are what stays in place.
        """
        maps = self.body(image_B3HW)
        up = partial(F.interpolate, size=image_B3HW.shape[-2:], mode="bilinear", align_corners=True)
        logits = {"out": up(self.decoder(maps, self.body.grids))}
        if self.auxiliary is not None and self.training:
            logits["aux"] = up(self.auxiliary(maps["c4"]))
        return logits
