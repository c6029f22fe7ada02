"""What can be set about detection data. Loads neither torch nor a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DetectionDataConfig(BaseModel):
    """Where images and boxes lie and how they are batched.

    What `root` holds is detected by content: COCO instances JSON, Pascal VOC XML, or YOLO text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field(default="demo", description="name of the data set, as in `list datasets`")
    root: Path | None = Field(
        default=None,
        description="folder of the data; without one, `demo` writes a temporary folder",
    )
    # Text, so that its folders count in records and hashes: fold1/all.json is not fold2/all.json.
    annotations: str | None = Field(
        default=None,
        description="COCO JSON or folder of annotations, where root holds several (relative to "
        "root)",
    )
    batch_size: int = Field(default=16, ge=1, description="images a batch")
    horizontal_flip: float = Field(
        default=0.5, ge=0, le=1, description="probability of mirroring a training image"
    )
    vertical_flip: float = Field(
        default=0.0, ge=0, le=1, description="probability of turning a training image over"
    )
    jitter: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="brightness, contrast and saturation of a training image change by up to this",
    )
    group_by_aspect: bool = Field(
        default=True, description="wide and tall training images in batches of their own"
    )
    workers: int = Field(
        default=0, ge=0, description="threads that read images ahead of use; 0: none"
    )
    train_images: int | None = Field(
        default=None, ge=1, description="use only the first training images"
    )
    eval_images: int | None = Field(
        default=None, ge=1, description="use only the first images of a test"
    )
    missing: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="what to do with annotated images that have no file"
    )
    empty_images: bool = Field(
        default=False, description="train on images without boxes too, as background"
    )
    seed: int = Field(default=1, ge=0, description="seed of the order and of augmentation")
