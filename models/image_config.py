"""Sizes and choices of the detector and the segmenter, and their attention sites. Light to load."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .attention import Grid2D, Site, SpecText

RESNETS = (
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "wide_resnet50_2",
    "wide_resnet101_2",
)
"""Names of torchvision's ResNets."""

STAGES = (2, 3, 4, 5)
"""conv2 to conv5 of the papers, layer1 to layer4 in torchvision."""

DETECTOR_SITES: dict[str, Site] = {
    "backbone": Site("backbone", geometry=frozenset({Grid2D.name}), axes=2)
}

LEVELS = 5
"""Levels of the pyramid: c2 to c5, and a last one pooled from c5's."""

SEGMENTER_SITES: dict[str, Site] = {
    name: Site(name, geometry=frozenset({Grid2D.name}), axes=2) for name in ("backbone", "head")
}


class BackboneSettings(BaseModel):
    """The attended ResNet of a detector or segmenter; tasks inherit these."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    backbone: SpecText = Field(
        default="none",
        description="attention in the residual blocks, and deformable as their 3x3 convolution",
    )
    resnet: str = Field(default="resnet50", description="any ResNet of torchvision")
    weights: Path | None = Field(
        default=None,
        description="state dict of the ResNet (.pth or .safetensors); none: from scratch",
    )
    heads: int = Field(default=8, ge=1, description="attention heads")
    attended_stages: tuple[int, ...] = Field(
        default=(4, 5),
        min_length=1,
        description="stages with attention and deformable convolution, 2 to 5",
    )
    # 2 in the authors' public code; the costs the paper prints are those of 1.
    key_stride: int = Field(
        default=1, ge=1, description="attention reads every n-th row and column"
    )
    query_stride: int = Field(
        default=1, ge=1, description="attention is computed at every n-th row and column"
    )
    gate: Literal["zero", "one", "none"] = Field(
        default="zero",
        description="where the gate of attention's residual starts; none: no residual, as in the "
        "paper's formula",
    )
    attention_dropout: float = Field(default=0.0, ge=0, lt=1, description="on attention weights")

    @field_validator("attended_stages")
    @classmethod
    def _are_stages(cls, stages: tuple[int, ...]) -> tuple[int, ...]:
        if not set(stages) <= set(STAGES):
            raise ValueError(f"stages are among 2, 3, 4 and 5, not {list(stages)}")
        return tuple(sorted(set(stages)))

    @field_validator("resnet")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in RESNETS:
            raise ValueError(f"resnet={name} is unknown: choose one of {', '.join(RESNETS)}")
        return name


class DetectorSettings(BackboneSettings):
    """Sizes and choices of a ``Detector``; the defaults are the FPN recipe on COCO."""

    batch_norm: Literal["frozen", "batch", "sync"] = Field(
        default="frozen",
        description="norms of the backbone; frozen: as in the weights file, so it suits only "
        "training from one",
    )
    trainable_stages: int = Field(
        default=3,
        ge=0,
        le=5,
        description="last stages of the backbone that learn, of stem and conv2 to conv5; from "
        "scratch all do",
    )
    mask_padding: bool = Field(
        default=False,
        description="hide the padding of a batch from attention; the public code attends to it",
    )
    fpn_channels: int = Field(default=256, ge=1, description="channels of the feature pyramid")
    box_head_dim: int = Field(default=1024, ge=1, description="width of the box head's two layers")
    min_size: int = Field(
        default=800, ge=1, le=32_768, description="shorter side that images are scaled to"
    )
    max_size: int = Field(
        default=1333, ge=1, description="longer side that images are scaled to at most"
    )
    anchor_sizes: tuple[int, ...] = Field(
        default=(32, 64, 128, 256, 512), description="side of the anchors of each level, in pixels"
    )
    rpn_train_proposals: int = Field(
        default=2000, ge=1, description="proposals an image in training"
    )
    rpn_test_proposals: int = Field(
        default=1000, ge=1, description="proposals an image in inference"
    )
    rpn_samples: int = Field(
        default=256, ge=1, description="anchors an image in the loss of proposals"
    )
    box_samples: int = Field(
        default=512, ge=1, description="proposals an image in the loss of boxes"
    )
    score_threshold: float = Field(
        default=0.05, ge=0, lt=1, description="least score of a detection"
    )
    nms_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="overlap above which the better detection of a class stays",
    )
    detections_per_image: int = Field(default=100, ge=1, description="most detections of an image")

    @model_validator(mode="after")
    def _anchors_fit(self) -> DetectorSettings:
        if len(self.anchor_sizes) != LEVELS or min(self.anchor_sizes) < 1:
            raise ValueError(
                f"anchor_sizes has one size of a pixel or more for each of the {LEVELS} levels of "
                f"the pyramid, not {list(self.anchor_sizes)}"
            )
        return self


class DetectorConfig(DetectorSettings):
    """``DetectorSettings`` and what the data say."""

    classes: int = Field(default=80, ge=1, description="classes, without the background")


class SegmenterSettings(BackboneSettings):
    """Sizes and choices of a ``Segmenter``; the defaults are CCNet's on Cityscapes."""

    head: SpecText = Field(
        default="none", description="attention in one more module after the backbone"
    )
    batch_norm: Literal["sync", "batch", "frozen"] = Field(
        default="batch",
        description="norms: sync is over all processes; frozen, for the backbone alone, as in "
        "the weights file",
    )
    output_stride: Literal[8, 16, 32] = Field(
        default=8, description="pixels a cell of conv5's map; below 32 strides become dilations"
    )
    deep_stem: bool = Field(
        default=False,
        description="three 3x3 convolutions for the 7x7 stem, as in CCNet's public code",
    )
    decoder: Literal["ccnet", "fpn"] = Field(
        default="ccnet", description="fpn: Panoptic FPN's semantic branch, which suits small sets"
    )
    decoder_channels: int = Field(default=512, ge=1, description="channels of the decoder")
    head_dropout: float = Field(
        default=0.1, ge=0, lt=1, description="on channels before the classifiers"
    )
    auxiliary: bool = Field(
        default=True, description="a second classifier, of conv4's map, in training"
    )


class SegmenterConfig(SegmenterSettings):
    """``SegmenterSettings`` and what the data say."""

    classes: int = Field(default=19, ge=1, description="classes")
