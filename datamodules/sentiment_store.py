"""Sentiment data ready for batches: the real steps of all items in flat arrays, nothing padded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from .sentiment_records import Kind

FORMAT = "attnbench sentiment 1"
Side = Literal["left", "right", "none"]


class StreamHeader(BaseModel):
    """What was found in one modality of one part.

    Attributes:
        dim: features of a step.
        steps: length T of the padded arrays in the file.
        side: where they are padded: rows of zeros in front, behind, or nowhere.
        rows: real steps of all items.
        cleaned: values that became 0, by what they were: ``-inf``, ``inf``, ``nan``.
        empty: items without any real step.
        empty_ids: the first of them.
        other_end: items that have zeros at the end that is not padded; they count as real steps.
        left_out: items with values behind the length that the file gives; those are not used.
    """

    model_config = ConfigDict(extra="forbid")

    dim: int
    steps: int
    side: Side
    rows: int
    cleaned: dict[str, int]
    empty: int
    empty_ids: list[str]
    other_end: int
    left_out: int


class StoreHeader(BaseModel):
    """What a store says about itself.

    Attributes:
        format: name and version of the format.
        layout: the published layout that it was read from.
        kind: what the labels are.
        emotions: name of each column of the labels, where they are emotions.
        files: SHA-256 of each file read, by its path below the data set's folder.
        parts: what was found, by part and modality.
        notes: what the reader found and counted.
        sha256: hashes of the store's own files, where it lies on disk.
    """

    model_config = ConfigDict(extra="forbid")

    format: str
    layout: str
    kind: Kind
    emotions: tuple[str, ...]
    files: dict[str, str]
    parts: dict[str, dict[str, StreamHeader]]
    notes: list[str]
    sha256: dict[str, str] = {}


@dataclass(frozen=True)
class Padded:
    """One modality of B items.

    Attributes:
        features_BTF: float32, zeros in padding.
        valid_BT: True at real steps.
        read_at_B: the step that stands for each item, -1 where it has none.
    """

    features_BTF: np.ndarray
    valid_BT: np.ndarray
    read_at_B: np.ndarray


@dataclass(frozen=True)
class StreamStore:
    """One modality of N items.

    Attributes:
        rows_RF: real steps of all items one after the other, float32; may be memory-mapped.
        lengths_N: real steps of each item.
        before_N: padding in front of them in the file.
        read_at_N: the step that stands for the item, counted from its first real one; -1: none.
        steps: length T of the padded array in the file.
    """

    rows_RF: np.ndarray
    lengths_N: np.ndarray
    before_N: np.ndarray
    read_at_N: np.ndarray
    steps: int

    def __len__(self) -> int:
        """Give the number of items."""
        return len(self.lengths_N)

    @property
    def dim(self) -> int:
        """Features of a step."""
        return self.rows_RF.shape[1]

    @cached_property
    def starts_N(self) -> np.ndarray:
        """First row of each item."""
        return np.cumsum(self.lengths_N) - self.lengths_N

    def of(self, number: int) -> np.ndarray:
        """Give the real steps of one item (T, F) without copying."""
        start = self.starts_N[number]
        return self.rows_RF[start : start + self.lengths_N[number]]

    def gather(self, numbers: np.ndarray, *, as_in_file: bool = False) -> Padded:
        """Give B items, by number, side by side.

        Args:
            numbers: which items.
            as_in_file: padded to the length and on the side of the file; otherwise on the right,
                up to the longest of them (at least one step).
        """
        length_B = self.lengths_N[numbers]
        before_B = self.before_N[numbers] if as_in_file else np.zeros_like(length_B)
        steps = self.steps if as_in_file else max(1, int(length_B.max(initial=0)))
        features_BTF = np.zeros((len(numbers), steps, self.dim), np.float32)
        for place, number in enumerate(numbers.tolist()):
            first = int(before_B[place])
            features_BTF[place, first : first + int(length_B[place])] = self.of(number)
        time_T = np.arange(steps)
        valid_BT = (time_T >= before_B[:, None]) & (time_T < (before_B + length_B)[:, None])
        read_B = self.read_at_N[numbers]
        return Padded(features_BTF, valid_BT, np.where(read_B < 0, -1, read_B + before_B))

    def mean(self, numbers: np.ndarray) -> np.ndarray:
        """Give the mean of each item's real steps, float32 (B, F); 0 where it has none."""
        out_BF = np.zeros((len(numbers), self.dim), np.float32)
        for place, number in enumerate(numbers.tolist()):
            if self.lengths_N[number]:
                out_BF[place] = self.of(number).mean(0, dtype=np.float64)
        return out_BF


@dataclass(frozen=True)
class StoredPart:
    """One part of the files: N items.

    Attributes:
        ids: their names.
        groups: the video of each.
        texts: transcripts, where there are some.
        labels: float32 (N, 1), or int64 (N, 4) for emotions.
        streams: the features by modality.
    """

    ids: list[str]
    groups: list[str]
    texts: list[str] | None
    labels: np.ndarray
    streams: dict[str, StreamStore]

    def __len__(self) -> int:
        """Give the number of items."""
        return len(self.ids)


@dataclass(frozen=True)
class SentimentStore:
    """A whole data set.

    Attributes:
        header: what it is.
        parts: of ``train``, ``val`` and ``test`` those that the files have.
        folder: where it lies; None: in memory.
    """

    header: StoreHeader
    parts: dict[str, StoredPart]
    folder: Path | None = None

    @property
    def dims(self) -> dict[str, int]:
        """Features of a step by modality."""
        return {name: stream.dim for name, stream in self._first.streams.items()}

    @property
    def label_count(self) -> int:
        """Columns of the labels."""
        return self._first.labels.shape[1]

    @property
    def _first(self) -> StoredPart:
        return next(iter(self.parts.values()))
