"""Every setting of the detection task, on one level: ``key=value`` sets it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ..datamodules.detection_config import DetectionDataConfig
from ..models.image_config import DETECTOR_SITES, DetectorConfig, DetectorSettings
from .image_config import ImageConfig

DETECTION_SITES = DETECTOR_SITES


class DetectionConfig(ImageConfig, DetectionDataConfig, DetectorSettings):
    """Data, model and training; the defaults are Faster R-CNN with FPN, the "1x" schedule.

    "Feature Pyramid Networks for Object Detection" (Lin et al., CVPR 2017), whose hyper-parameters
    "An Empirical Study of Spatial Attention Mechanisms in Deep Networks" (Zhu et al., ICCV 2019)
    takes over; epochs and rates are those that public detection code calls 1x. Data settings are
    those of ``DetectionDataConfig``, the model's are those of ``DetectorSettings``, the trainer's
    and the machine's ``TrainingConfig``'s.
    """

    # Training. An update is one batch of `batch_size` images, `accumulate` times.
    # 117,266 training images of COCO have boxes; 16 an update make 7,330 updates an epoch.
    max_steps: int = Field(
        87_960, ge=1, le=10**9, description="updates; 12 epochs of COCO, which is called 1x"
    )
    optimiser: Literal["sgd", "adamw"] = Field("sgd", description="adamw suits small sets")
    learning_rate: float = Field(0.02, gt=0, description="at its peak; 0.02 is for 16 images")
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="AdamW's decay of the mean gradient")
    adam_beta2: float = Field(
        0.999, ge=0, lt=1, description="AdamW's decay of the mean squared gradient"
    )
    adam_epsilon: float = Field(1e-8, gt=0, description="added to AdamW's denominator")
    weight_decay: float = Field(
        1e-4, ge=0, description="L2 penalty in sgd; taken off the weights in adamw"
    )
    schedule: Literal["steps", "linear", "cosine", "constant"] = Field(
        "steps", description="steps: lower at each milestone; linear and cosine fall to 0"
    )
    # After epochs 8 and 11 of 12; 16 and 22 of 24 (2x) are the same shares.
    milestones: tuple[float, ...] = Field(
        (2 / 3, 11 / 12), description="of schedule=steps: shares of max_steps, rising"
    )
    milestone_factor: float = Field(
        0.1, gt=0, le=1, description="what the rate is multiplied with at each milestone"
    )
    warmup_steps: int = Field(500, ge=0, description="updates up to the peak")
    warmup_start: float = Field(
        1e-3, ge=0, le=1, description="share of the peak that the first update has"
    )
    clip_value: float = Field(0.0, ge=0, description="largest gradient value; 0 does not clip")

    # Checkpoints.
    check_every: int = Field(7_330, ge=1, description="updates between checkpoints")
    validate_every: int | None = Field(
        None, ge=1, description="updates between validations; null: at each checkpoint"
    )
    average_last: int = Field(1, ge=1, description="checkpoints averaged at the end")

    @field_validator("milestones")
    @classmethod
    def _rising(cls, milestones: tuple[float, ...]) -> tuple[float, ...]:
        if list(milestones) != sorted(set(milestones)) or not all(0 < m < 1 for m in milestones):
            raise ValueError("milestones must be shares of max_steps between 0 and 1 that rise")
        return milestones

    def network(self, classes: int) -> DetectorConfig:
        """As in ``ImageConfig``."""
        names = DetectorSettings.model_fields
        return DetectorConfig(classes=classes, **{name: getattr(self, name) for name in names})
