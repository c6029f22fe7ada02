"""The data card of a sentiment data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict
from rich.table import Table

from .card import Card
from .sentiment_records import MODALITIES, Kind
from .sentiment_store import SentimentStore, StoreHeader


class StreamCard(BaseModel):
    """One modality.

    Attributes:
        dim: features of a step.
        steps: length of the padded arrays in the files; several where the parts differ.
        side: where the files are padded: ``left``, ``right`` or ``none``.
        shortest: fewest real steps of an item.
        mean: mean real steps of an item.
        longest: most real steps of an item.
        cleaned: values that became 0, by what they were.
    """

    model_config = ConfigDict(extra="forbid")

    dim: int
    steps: list[int]
    side: str
    shortest: int
    mean: float
    longest: int
    cleaned: dict[str, int]


class SentimentSplitCard(BaseModel):
    """One split.

    Attributes:
        part: the part of the files it is cut from.
        items: items used.
        videos: videos they are of.
        labels: frequencies and moments of the labels, by name.
    """

    model_config = ConfigDict(extra="forbid")

    part: str
    items: int
    videos: int
    labels: dict[str, float]


class SentimentCard(Card):
    """What was found of a sentiment data set.

    Attributes, beside those of `Card`:
        labels: what the labels are.
        emotions: name of each column of the labels, where they are emotions.
        streams: the modalities.
        splits: by name.
        files: SHA-256 of each file, by its path below the folder.
    """

    labels: Kind
    emotions: tuple[str, ...]
    streams: dict[str, StreamCard]
    splits: dict[str, SentimentSplitCard]

    def facts(self) -> dict[str, str]:
        """As in `Card`."""
        return {"labels": ", ".join(self.emotions) or self.labels}

    def tables(self) -> list[Table]:
        """As in `Card`."""
        return [self._stream_table(), self._split_table()]

    def _stream_table(self) -> Table:
        table = Table(title="streams (lengths in real steps)", title_justify="left")
        table.add_column("stream")
        for heading in ("features", "steps in file", "shortest", "mean", "longest"):
            table.add_column(heading, justify="right")
        table.add_column("padding")
        table.add_column("made 0")
        for name, stream in self.streams.items():
            cleaned = ", ".join(f"{number:,} {kind}" for kind, number in stream.cleaned.items())
            table.add_row(
                name,
                f"{stream.dim:,}",
                ", ".join(f"{steps:,}" for steps in stream.steps),
                f"{stream.shortest:,}",
                f"{stream.mean:.1f}",
                f"{stream.longest:,}",
                stream.side,
                cleaned or "none",
            )
        return table

    def _split_table(self) -> Table:
        table = Table(title="splits", title_justify="left")
        table.add_column("split")
        table.add_column("part")
        for heading in ("items", "videos"):
            table.add_column(heading, justify="right")
        headings = list(dict.fromkeys(name for s in self.splits.values() for name in s.labels))
        for heading in headings:
            table.add_column(heading, justify="right")
        for name, split in self.splits.items():
            numbers = [f"{split.labels[heading]:.3g}" for heading in headings]
            table.add_row(name, split.part, f"{split.items:,}", f"{split.videos:,}", *numbers)
        return table


def describe_streams(store: SentimentStore) -> dict[str, StreamCard]:
    """Describe each modality over all parts."""
    cards: dict[str, StreamCard] = {}
    for name in MODALITIES:
        headers = [streams[name] for streams in store.header.parts.values()]
        lengths = np.concatenate([part.streams[name].lengths_N for part in store.parts.values()])
        cleaned: dict[str, int] = {}
        for header in headers:
            for kind, number in header.cleaned.items():
                cleaned[kind] = cleaned.get(kind, 0) + number
        cards[name] = StreamCard(
            dim=headers[0].dim,
            steps=sorted({header.steps for header in headers}),
            side=headers[0].side,
            shortest=int(lengths.min()),
            mean=float(lengths.mean()),
            longest=int(lengths.max()),
            cleaned=cleaned,
        )
    return cards


def describe_split(name: str, store: SentimentStore, rows: np.ndarray) -> SentimentSplitCard:
    """Describe some items of one part, given by its name."""
    part = store.parts[name]
    return SentimentSplitCard(
        part=name,
        items=len(rows),
        videos=len({part.groups[row] for row in rows}),
        labels=_label_facts(part.labels[rows], store.header),
    )


def _label_facts(labels_NL: np.ndarray, header: StoreHeader) -> dict[str, float]:
    if header.kind == "emotions":
        shares = labels_NL.mean(0).tolist()
        return {
            f"{name} %": 100 * share for name, share in zip(header.emotions, shares, strict=True)
        }
    facts = {"positive %": 100 * float((labels_NL > 0).mean())}
    if header.kind == "binary":
        return facts
    return {
        **facts,
        "zero %": 100 * float((labels_NL == 0).mean()),
        "mean": float(labels_NL.mean()),
        "deviation": float(labels_NL.std()),
    }


def remarks(store: SentimentStore, constant: dict[str, int]) -> list[str]:
    """Say what was counted while the data were read, and what can't be computed on them.

    Args:
        store: the data.
        constant: channels that never change in training, by modality, where features are scaled.
    """
    notes: list[str] = []
    for part, streams in store.header.parts.items():
        for name, header in streams.items():
            where = f"{part}, {name}"
            if header.cleaned:
                said = ", ".join(f"{n:,} values {kind}" for kind, n in header.cleaned.items())
                notes.append(f"{where}: {said} became 0")
            if header.empty:
                some = ", ".join(header.empty_ids)
                notes.append(f"{where}: {header.empty:,} items have no real step, such as {some}")
            if header.other_end:
                notes.append(
                    f"{where}: {header.other_end:,} items have zeros at the end that isn't padded; "
                    "they count as real steps"
                )
            if header.left_out:
                notes.append(
                    f"{where}: {header.left_out:,} items have values outside of the length that "
                    "the file gives; they are not used"
                )
    notes += [
        f"{name}: {number:,} channels never change in training; they are not scaled"
        for name, number in constant.items()
        if number
    ]
    return notes + _constant_labels(store)


def _constant_labels(store: SentimentStore) -> list[str]:
    notes: list[str] = []
    names = store.header.emotions or ("",)
    for part, stored in store.parts.items():
        for name, column in zip(names, stored.labels.T, strict=True):
            if len(column) > 1 and (column == column[0]).all():
                what = f"label {name}" if name else "label"
                without = "; correlation is undefined" if store.header.kind == "regression" else ""
                notes.append(f"{part}: the {what} is {column[0]:g} for every item{without}")
    return notes


def check_sentiment(dataset: str, root: Path | None, **settings: Any) -> SentimentCard:
    """Read a data set as training would, all of it, and describe it.

    Args:
        dataset: its name.
        root: its folder.
        settings: further keys of `SentimentDataConfig`.

    Raises:
        DataError: anything in it that can't be read, or a split that is missing.
    """
    from .sentiment import SentimentData
    from .sentiment_config import SentimentDataConfig

    data = SentimentData(SentimentDataConfig(dataset=dataset, root=root, **settings))
    data.verify()
    return data.card()
