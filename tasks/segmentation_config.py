"""Every setting of the segmentation task, on one level: ``key=value`` sets it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from ..datamodules.segmentation_config import SegmentationDataConfig
from ..models.image_config import SEGMENTER_SITES, SegmenterConfig, SegmenterSettings
from .image_config import ImageConfig

SEGMENTATION_SITES = SEGMENTER_SITES


class SegmentationConfig(ImageConfig, SegmentationDataConfig, SegmenterSettings):
    """Data, model, training and inference; the defaults are CCNet's recipe on Cityscapes.

    "CCNet: Criss-Cross Attention for Semantic Segmentation" (Huang et al., ICCV 2019), which "An
    Empirical Study of Spatial Attention Mechanisms in Deep Networks" (Zhu et al., ICCV 2019) trains
    with. What the papers leave open is as in the former's public code, and a comment says so. Data
    settings are those of ``SegmentationDataConfig``, the model's those of ``SegmenterSettings``,
    those of the trainer and the machine ``TrainingConfig``'s.
    """

    # Training. An update is one batch of `batch_size` crops, `accumulate` times.
    # 60,000 in the code's instructions, 40,000 its default.
    max_steps: int = Field(60_000, ge=1, le=10**9, description="updates")
    optimiser: Literal["sgd", "adamw"] = Field("sgd", description="adamw suits small sets")
    learning_rate: float = Field(1e-2, gt=0, description="at its peak")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="AdamW's decay of the mean gradient")
    adam_beta2: float = Field(
        0.999, ge=0, lt=1, description="AdamW's decay of the mean squared gradient"
    )
    adam_epsilon: float = Field(1e-8, gt=0, description="added to AdamW's denominator")
    # 5e-4 in the code's scripts and by default, 1e-4 in the command of its instructions.
    weight_decay: float = Field(
        5e-4, ge=0, description="L2 penalty in sgd; taken off the weights in adamw"
    )
    schedule: Literal["poly", "linear", "cosine", "constant"] = Field(
        "poly", description="how the rate falls to 0 at max_steps; poly: by `power`"
    )
    power: float = Field(0.9, gt=0, description="of schedule=poly")
    warmup_steps: int = Field(0, ge=0, description="updates up to the peak")
    clip_value: float = Field(0.0, ge=0, description="largest gradient value; 0 does not clip")
    auxiliary_weight: float = Field(
        0.4, ge=0, description="of the loss of the classifier behind conv4, where there is one"
    )
    class_balance: float = Field(
        0.0,
        ge=0,
        le=1,
        description="power of median frequency / frequency of its class that weighs a pixel in "
        "training; 1 is SegNet's balancing, 0 none",
    )
    ohem: bool = Field(
        False,
        description="online hard example mining: the main loss counts only hard pixels",
    )
    ohem_threshold: float = Field(
        0.7, gt=0, le=1, description="hard: the true class has at most this probability"
    )
    ohem_min_kept: int = Field(
        100_000, ge=0, description="pixels of a batch that count at least, the hardest first"
    )

    # Checkpoints.
    check_every: int = Field(1_000, ge=1, description="updates between checkpoints")
    validate_every: int | None = Field(
        None, ge=1, description="updates between validations; null: at each checkpoint"
    )
    average_last: int = Field(1, ge=1, description="checkpoints averaged at the end")

    # Inference, always of one image at its stored size.
    inference: Literal["whole", "sliding"] = Field(
        "sliding",
        description="whole image, or overlapping windows whose logits are averaged; the two can be "
        "points of mIoU apart",
    )
    window_height: int | None = Field(
        None, ge=1, le=32_768, description="of a sliding window; null: as high as training crops"
    )
    window_width: int | None = Field(
        None, ge=1, le=32_768, description="of a sliding window; null: as wide as training crops"
    )
    overlap: float = Field(
        1 / 3, ge=0, lt=1, description="share of a window that the next one covers again"
    )
    flip: bool = Field(False, description="average with what is said of the mirrored image")

    @field_validator("output_stride", mode="before")
    @classmethod
    def _whole_number(cls, stride: Any) -> Any:
        return int(stride) if isinstance(stride, str) and stride.isdecimal() else stride

    def network(self, classes: int) -> SegmenterConfig:
        """As in ``ImageConfig``."""
        own: dict[str, Any] = {name: getattr(self, name) for name in SegmenterSettings.model_fields}
        return SegmenterConfig(classes=classes, **own)

    @property
    def window(self) -> tuple[int, int]:
        """Height and width of a sliding window."""
        return self.window_height or self.crop_height, self.window_width or self.crop_width

    @property
    def signature(self) -> str:
        """How images are seen in evaluation, for records."""
        height, width = self.window
        how = f"sliding {height}x{width}|overlap:{self.overlap:.3g}"
        return (how if self.inference == "sliding" else "whole") + "|flip" * self.flip
