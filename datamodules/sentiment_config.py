"""What can be set about multimodal sentiment data. Loads neither torch nor a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HELD_OUT = "held-out"


class SentimentDataConfig(BaseModel):
    """Where streams of text, audio and vision lie and how they are cut and batched.

    What `root` holds is detected by content: the pickles of MulT (aligned or not), those of MMSA,
    CMU-MOSI by utterance (CSV folder, Python-2 pickles or an npz by video), or CMU-MOSEI by video.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field(default="demo", description="name of the data set, as in `list datasets`")
    root: Path | None = Field(
        default=None,
        description="folder of the data; without one, `demo` writes a temporary folder",
    )
    cache: Path | None = Field(
        default=None,
        description="folder for converted features; without one they are kept in memory",
    )
    file: Path | None = Field(
        default=None, description="data file, where root holds several (relative to root)"
    )
    alignment: Literal["aligned", "unaligned"] = Field(
        default="unaligned",
        description="which of the files: streams averaged over each word, or at their own rates",
    )
    context: int | None = Field(
        default=None,
        ge=0,
        description="data by utterance: neighbours on each side that an utterance is seen with; "
        "None: its whole video",
    )
    train_part: Literal["train", "val", "test"] = Field(
        default="train", description="part of the files that is trained on"
    )
    val_part: Literal["train", "val", "test", "held-out"] = Field(
        default="val",
        description="part that is validated on; held-out: whole videos kept out of training, which "
        "is also done where the files have no part val",
    )
    test_part: Literal["train", "val", "test"] = Field(
        default="test", description="part that is tested on"
    )
    hold_out: float = Field(
        default=0.15, gt=0, lt=1, description="share of the training videos that is held out"
    )
    split_seed: int = Field(default=0, ge=0, description="seed of the choice of held-out videos")
    batch_size: int = Field(default=24, ge=1, description="items a batch")
    bucket: Literal["random", "length"] = Field(
        default="random",
        description="training batches: items as they come in the shuffled order, or of similar "
        "length, so that there is less padding",
    )
    padding: Literal["trim", "file"] = Field(
        default="trim",
        description="trim: padding on the right, up to the longest stream of a batch; file: the "
        "length and the side of padding of the files, as the reference code reads them",
    )
    scale: Literal["none", "standard"] = Field(
        default="none",
        description="standard: each channel has mean 0 and deviation 1 over the real steps of the "
        "training part",
    )
    positive: Literal["auto", "0", "1"] = Field(
        default="auto",
        description="IEMOCAP: which of an emotion's two places means that it is there; auto: the "
        "rarer one",
    )
    train_items: int | None = Field(
        default=None, ge=1, description="use only the first training items"
    )
    eval_items: int | None = Field(
        default=None, ge=1, description="use only the first items of a test"
    )
    seed: int = Field(default=1, ge=0, description="seed of the order of the training items")
