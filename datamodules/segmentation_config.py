"""What can be set about segmentation data. Loads neither torch nor a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LEAST_STEP = 1e-3


class SegmentationDataConfig(BaseModel):
    """Where images and label images lie and how training crops are cut from them.

    The defaults are those of CCNet's public code on Cityscapes. Evaluation always sees whole images
    at their stored size.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field(default="demo", description="name of the data set, as in `list datasets`")
    root: Path | None = Field(
        default=None,
        description="folder of the data; without one, `demo` writes a temporary folder",
    )
    # Text, so that its folders count in records and hashes.
    classes_file: str | None = Field(
        default=None,
        description="classes of image and label folders: a name a line, or value,name[,r,g,b] "
        "(relative to root)",
    )
    void_values: tuple[Annotated[int, Field(ge=0, le=65_535)], ...] = Field(
        default=(255,),
        description="label values that are ignored, where classes_file lists the classes",
    )
    missing: Literal["refuse", "leave_out"] = Field(
        default="refuse",
        description="what to do with images without labels, and labels without an image",
    )
    test_split: str | None = Field(
        default=None, description="split that is tested on; None: the data set's usual one"
    )
    batch_size: int = Field(default=8, ge=1, description="crops a batch")
    crop_height: int = Field(
        default=769, ge=1, le=32_768, description="height of a training crop in pixels"
    )
    crop_width: int = Field(
        default=769, ge=1, le=32_768, description="width of a training crop in pixels"
    )
    scale_min: float = Field(default=0.7, gt=0, le=16, description="smallest random scale")
    scale_max: float = Field(default=2.1, gt=0, le=16, description="largest random scale")
    scale_step: float = Field(
        default=0.1, ge=0, description="distance of the random scales; 0: any scale between"
    )
    mirror: float = Field(
        default=0.5, ge=0, le=1, description="share of the crops that are mirrored, left to right"
    )
    jitter: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="largest relative change of brightness, contrast and saturation, each",
    )
    normalisation: Literal["imagenet", "caffe"] = Field(
        default="imagenet",
        description="imagenet: RGB by mean and deviation, as torchvision's weights want; caffe: "
        "BGR from 0 to 255 less the mean, as CCNet's weights want",
    )
    workers: int = Field(
        default=0, ge=0, le=64, description="threads that read images ahead of their use"
    )
    memory_mib: int = Field(
        default=256,
        ge=0,
        description="a split whose decoded images take less than this stays in memory",
    )
    train_images: int | None = Field(
        default=None, ge=1, description="use only the first training images"
    )
    eval_images: int | None = Field(
        default=None, ge=1, description="use only the first images of a test"
    )
    seed: int = Field(
        default=1, ge=0, description="seed of the order and of scales, crops, mirroring and jitter"
    )

    @model_validator(mode="after")
    def _scales_make_sense(self) -> SegmentationDataConfig:
        if self.scale_max < self.scale_min:
            raise ValueError(
                f"scale_max={self.scale_max:g} is below scale_min={self.scale_min:g}; set both"
            )
        if 0 < self.scale_step < _LEAST_STEP:
            raise ValueError(
                f"scale_step={self.scale_step:g} is below {_LEAST_STEP:g}; set it to 0 for any "
                "scale between the two ends"
            )
        return self
