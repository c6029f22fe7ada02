"""What every reader of sentiment data gives: parts with padded streams, labels and ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

MODALITIES = ("text", "audio", "vision")
"""The names of the streams, in the order in which they are listed and concatenated."""

PARTS: tuple[str, ...] = ("train", "val", "test")
"""The names of the parts; what files call ``valid`` is ``val`` here."""

EMOTIONS = ("neutral", "happy", "sad", "angry")
"""The emotions of IEMOCAP in the order of MulT's labels."""

Kind = Literal["regression", "binary", "emotions"]


@dataclass(frozen=True)
class RawPart:
    """One part of a data set as it lies in the files: N items, nothing cleaned.

    Attributes:
        ids: (N,) unique names; made from the place in the file where it has none.
        groups: (N,) the video of each item, for holding out whole videos; the item's own id where
            the video isn't known.
        features: (N, T, F) float32 by modality, padded as in the file, which may hold infinities
            and NaN; T and F differ between modalities.
        lengths: (N,) int64 real steps by modality, where the file says so; a modality that isn't
            there has its padding still to be found.
        labels: (N, 1) float32, a sentiment in [-3, 3] or 0 and 1; or (N, 4) int64 for emotions, 1
            where the emotion is there.
        read_at: (N,) int64 by modality: the step that stands for the item; None: the last real one.
        texts: (N,) transcripts, where the files have them.
    """

    ids: list[str]
    groups: list[str]
    features: dict[str, np.ndarray]
    lengths: dict[str, np.ndarray]
    labels: np.ndarray
    read_at: dict[str, np.ndarray] | None = None
    texts: list[str] | None = None

    def __len__(self) -> int:
        """Give the number of items N."""
        return len(self.ids)


@dataclass(frozen=True)
class RawSentiment:
    """A data set as read from disk.

    Attributes:
        format: the layout found, such as ``MulT pickle, unaligned``.
        files: the files read.
        parts: of ``train``, ``val`` and ``test`` those that the files have, in this order.
        kind: what the labels are.
        emotions: name of each column of the labels, where they are emotions.
        notes: what was found and counted: sizes, widths, frequencies of labels, polarity.
    """

    format: str
    files: list[Path]
    parts: dict[str, RawPart]
    kind: Kind
    emotions: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
