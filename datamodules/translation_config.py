"""What can be set about translation data. Loads neither torch nor a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class TranslationDataConfig(BaseModel):
    """Where translation data lie and how they are cut and batched.

    What `root` holds is detected by content: parallel text, a set saved by Hugging Face
    `datasets`, or a fairseq-preprocessed folder (which brings its own subwords and dictionaries,
    so that `subword`, `vocabulary_size` and `dictionary` have no effect on it).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dataset: str = Field("demo", description="name of the data set, as in `list datasets`")
    root: Path | None = Field(
        None, description="folder of the data; without one, `demo` writes a temporary folder"
    )
    cache: Path | None = Field(
        None, description="folder for encoded training text; without one it is kept in memory"
    )
    source_language: str = Field("en", description="translated from")
    target_language: str = Field("de", description="translated into")
    variant: str | None = Field(
        None, description="form of the text where there are several, e.g. tok.clean.bpe.32000"
    )
    reader: Literal["own", "fairseq"] = Field(
        "own", description="who reads fairseq-preprocessed folders; both give the same ids"
    )
    subword: str | Path = Field(
        "learn",
        description="learn (byte-level BPE on both sides of training), none (words), or the path "
        "of subword-nmt codes or of a sentencepiece .model",
    )
    vocabulary_size: int = Field(
        8000, ge=5, description="joint size; only for subword=learn and subword=none"
    )
    dictionary: Path | None = Field(
        None, description="fairseq dict.txt to use in place of one counted on the training text"
    )
    max_tokens: int = Field(
        4096, ge=1, description="padded tokens a batch: longest source or target times sentences"
    )
    max_sentences: int | None = Field(None, ge=1, description="most sentences a batch")
    max_length: int = Field(
        256, ge=2, description="longest source or target in training, in tokens with </s>"
    )
    max_ratio: float | None = Field(
        None, ge=1, description="largest ratio of source to target tokens in training, either way"
    )
    train_lines: int | None = Field(None, ge=1, description="use only the first training pairs")
    eval_lines: int | None = Field(None, ge=1, description="use only the first pairs of a test")
    test_split: str | None = Field(
        None, description="name of the test split where there are several"
    )
    seed: int = Field(1, ge=0, description="seed of the batches' order")

    @field_validator("subword")
    @classmethod
    def _path_as_path(cls, given: str | Path) -> str | Path:
        # As a path, it counts by its file name alone wherever configs are compared.
        return given if given in ("learn", "none") else Path(given)

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        if self.source_language == self.target_language:
            raise ValueError(
                f"source_language and target_language are both {self.source_language!r}; "
                "give two different languages"
            )
        return self

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_language, self.target_language
