"""The settings that every model with an attended backbone has."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .resnet import RESNETS, STAGES


class BackboneSettings(BaseModel):
    """The attended ResNet of a detector or segmenter; tasks inherit these."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    backbone: str = Field(
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
