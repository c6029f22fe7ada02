"""The sentiment DataModule: from a folder in a published layout to batches, labels and texts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from .demo.sentiment import write_sentiment_demo
from .errors import DataError
from .module import ResumableDataModule
from .registry import dataset_entry
from .sentiment_cache import cached_store, verify_store
from .sentiment_card import SentimentCard, describe_split, describe_streams, remarks
from .sentiment_config import SentimentDataConfig
from .sentiment_convert import convert
from .sentiment_loader import (
    Scale,
    SentimentLoader,
    SentimentPlan,
    SentimentSplit,
    StatefulSentimentLoader,
    measure_scale,
)
from .sentiment_open import open_sentiment
from .sentiment_records import Kind
from .sentiment_splits import SPLITS, Splits, make_splits
from .sentiment_store import SentimentStore


class SentimentData(ResumableDataModule):
    """Items with streams of text, audio and vision, read when they are first asked for.

    Values that are no numbers (-inf, inf, NaN) become 0 and are counted in the card, as are items
    without any real step, which stay: nothing is left out.

    Batches depend on the config's seed and the epoch alone; in distributed training each rank takes
    its own share of the items.

    Args:
        config: where the data are and how they are cut and batched.
    """

    def __init__(self, config: SentimentDataConfig) -> None:
        super().__init__(config.dataset, config.root)
        self.config = config

    def write_demo(self, root: Path) -> Path:
        """Write the sentiment demo into a folder."""
        return write_sentiment_demo(root)

    @cached_property
    def store(self) -> SentimentStore:
        """All parts of the files, without padding and cleaned."""
        root = self.root
        if not root.is_dir():
            raise DataError(
                f"{root} is no folder; give the folder of {self.config.dataset} as root."
            )
        aligned = self.config.alignment == "aligned"

        def make() -> SentimentStore:
            return convert(open_sentiment(self.config, root), root, aligned=aligned)

        return cached_store(self.config, root, make)

    @cached_property
    def splits(self) -> Splits:
        """Which items train, validate and test."""
        return make_splits(self.config, self.store)

    @property
    def dims(self) -> dict[str, int]:
        """Features of a step by modality."""
        return self.store.dims

    @property
    def kind(self) -> Kind:
        """What the labels are: ``regression``, ``binary`` or ``emotions``."""
        return self.store.header.kind

    @property
    def emotions(self) -> tuple[str, ...]:
        """Name of each column of the labels, where they are emotions."""
        return self.store.header.emotions

    @property
    def label_count(self) -> int:
        """Columns L of the labels."""
        return self.store.label_count

    def setup(self, stage: str | None = None) -> None:
        """Read what a stage needs, so that bad data stop it before it starts."""
        for split in {"fit": ("train", "val"), "validate": ("val",)}.get(stage or "fit", ("test",)):
            self._split(split)

    def verify(self) -> None:
        """Read all splits, and all of the cache.

        Raises:
            DataError: one is missing, or a file of the cache isn't what it was when it was made.
        """
        for split in SPLITS:
            self._split(split)
        verify_store(self.store)

    @cached_property
    def _scale(self) -> dict[str, Scale]:
        if self.config.scale == "none":
            return {}
        split = self.splits.of("train", self.root)
        streams = self.store.parts[split.part].streams
        return {name: measure_scale(stream, split.rows) for name, stream in streams.items()}

    def _split(self, name: str) -> SentimentSplit:
        split = self.splits.of(name, self.root)
        part = self.store.parts[split.part]
        return SentimentSplit(
            streams=part.streams,
            rows=split.rows,
            labels=part.labels[split.rows],
            scale=self._scale,
            as_in_file=self.config.padding == "file",
        )

    def train_dataloader(self) -> StatefulSentimentLoader:
        """Give the training batches, going on where a loaded state stopped."""
        return self.resumed(StatefulSentimentLoader(self._split("train"), self._plan(True)))

    def val_dataloader(self) -> SentimentLoader:
        """Give the validation batches."""
        return self.predict_dataloader("val")

    def test_dataloader(self) -> SentimentLoader:
        """Give the batches of the test split."""
        return self.predict_dataloader("test")

    def predict_dataloader(self, split: str = "test") -> SentimentLoader:
        """Give any split's batches in the order of the file."""
        return SentimentLoader(self._split(split), self._plan(False))

    def _plan(self, shuffle: bool) -> SentimentPlan:
        config = self.config
        return SentimentPlan(
            batch_size=config.batch_size,
            seed=config.seed,
            shuffle=shuffle,
            bucket=config.bucket,
            **self.share,
        )

    def labels(self, split: str) -> np.ndarray:
        """Give the labels of a split in order: float32 (N, 1), or int64 (N, 4) for emotions."""
        return self._split(split).labels

    def ids(self, split: str) -> list[str]:
        """Give the names of a split's items, in order."""
        return self._named(split, "ids") or []

    def groups(self, split: str) -> list[str]:
        """Give the video of each of a split's items, in order."""
        return self._named(split, "groups") or []

    def texts(self, split: str) -> list[str] | None:
        """Give the transcripts of a split's items, in order; None where the files have none."""
        return self._named(split, "texts")

    def _named(self, split: str, what: str) -> list[str] | None:
        found = self.splits.of(split, self.root)
        values: list[str] | None = getattr(self.store.parts[found.part], what)
        return None if values is None else [values[row] for row in found.rows]

    def pooled(self, split: str) -> np.ndarray:
        """Give the mean of each item's real steps, modalities side by side, (N, sum of F).

        Scaled as the batches are; 0 where an item has no step. Of data by utterance it is the mean
        over an utterance and its neighbours; with ``context=0`` it is the utterance itself.
        """
        return self._split(split).pooled()

    def train_pooled(self) -> np.ndarray:
        """Give `pooled` of the training split."""
        return self.pooled("train")

    def fingerprint(self) -> dict[str, str]:
        """Give the SHA-256 of each file read, by its path below the folder, or its name."""
        return {
            Path(name).name if Path(name).is_absolute() else name: digest
            for name, digest in self.store.header.files.items()
        }

    def training_fingerprint(self) -> dict[str, str]:
        """Give the part of the hashes that training depends on: all, as splits share files."""
        return self.fingerprint()

    def card(self) -> SentimentCard:
        """Describe all splits that are there."""
        entry, header = dataset_entry(self.config.dataset), self.store.header
        splits = {
            name: describe_split(split.part, self.store, split.rows)
            for name, split in self.splits.found.items()
        }
        constant = {name: scale.constant for name, scale in self._scale.items()}
        return SentimentCard(
            dataset=entry.name,
            title=entry.title,
            format=header.layout,
            labels=header.kind,
            emotions=header.emotions,
            streams=describe_streams(self.store),
            splits=splits,
            files=self.fingerprint(),
            notes=[*header.notes, *remarks(self.store, constant), *self.splits.notes],
        )
