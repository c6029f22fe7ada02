"""What can be set about captioning data. Loads neither torch nor a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CaptionDataConfig(BaseModel):
    """Where captions and image features lie and how they are cut and batched.

    What `root` holds is detected by content: Karpathy's dataset JSON, COCO captions JSON, the
    Flickr8k ``captions.txt`` of Kaggle, or the cocotalk files of self-critical training; and
    features as a packed store or in any of the public layouts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field(default="demo", description="name of the data set, as in `list datasets`")
    root: Path | None = Field(
        default=None,
        description="folder of the data; without one, `demo` writes a temporary folder",
    )
    cache: Path | None = Field(
        default=None,
        description="folder for packed features; without one a temporary folder is used",
    )
    captions: Path | None = Field(
        default=None, description="annotation file, where root holds several (relative to root)"
    )
    features: Path | None = Field(
        default=None, description="features, packed or in a public layout; None: found under root"
    )
    extract: str | None = Field(
        default=None,
        description="backbone that makes grid features from the images where root has no "
        "features: efficientnet-lite0, timm:NAME or torchvision:NAME",
    )
    weights: Path | None = Field(
        default=None, description="weights file of a timm or torchvision backbone"
    )
    split_file: Path | None = Field(
        default=None,
        description="list of splits (CSV image,split or JSON), where the captions have none",
    )
    vocabulary: Path | None = Field(
        default=None, description="cocotalk.json whose words are used instead of counted ones"
    )
    min_count: int = Field(
        default=5, ge=0, description="a word is kept if it occurs more often than this"
    )
    count_splits: Literal["all", "train"] = Field(
        default="all",
        description="where words are counted: the published sizes count validation and test too",
    )
    max_length: int = Field(default=16, ge=1, description="words of a caption; the rest is cut off")
    captions_per_image: int = Field(
        default=5, ge=1, description="captions of each image in a batch"
    )
    batch_size: int = Field(default=10, ge=1, description="images a batch")
    max_regions: int | None = Field(
        default=None, ge=1, description="most regions of an image, first ones"
    )
    missing_features: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="what to do with images that have no features"
    )
    train_images: int | None = Field(
        default=None, ge=1, description="use only the first training images"
    )
    eval_images: int | None = Field(
        default=None, ge=1, description="use only the first images of a test"
    )
    seed: int = Field(
        default=1, ge=0, description="seed of the order and of the choice of captions"
    )
