"""The data card of a translation data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from .card import Card, counted


class SideCard(BaseModel):
    """One language of a split; lengths in tokens with ``</s>``.

    Attributes:
        mean: mean length.
        longest: largest length.
        unknown: ``<unk>`` tokens in all.
    """

    model_config = ConfigDict(extra="forbid")

    mean: float
    longest: int
    unknown: int


class TranslationSplitCard(BaseModel):
    """One split.

    Attributes:
        name: its name on disk.
        pairs: pairs that are used.
        dropped: pairs left out, by reason; none is ever left out of an evaluated split.
        empty: used pairs with an empty source or target.
        source: lengths of the source side.
        target: lengths of the target side.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    pairs: int
    dropped: dict[str, int]
    empty: int
    source: SideCard
    target: SideCard


class TranslationCard(Card):
    """What was found of a parallel corpus.

    Attributes, beside those of `Card`:
        languages: source and target.
        text: ``raw`` or ``moses``.
        text_evidence: what was counted to tell.
        subword: how words are cut.
        vocabulary_size: ids of the target vocabulary, special ones included.
        vocabulary_sha256: hash of its symbols in order.
        source_vocabulary_size: the same of the source, where it is another one; else None.
        source_vocabulary_sha256: the same of the source, where it is another one; else None.
        splits: by role (``train``, ``val``) or name (test splits).
        files: SHA-256 of each file, by its path below the folder.
    """

    languages: tuple[str, str]
    text: str
    text_evidence: str
    subword: str
    vocabulary_size: int
    vocabulary_sha256: str
    source_vocabulary_size: int | None = None
    source_vocabulary_sha256: str | None = None
    splits: dict[str, TranslationSplitCard]

    def facts(self) -> dict[str, str]:
        """As in `Card`."""
        joint = self.source_vocabulary_size is None
        rows = {
            "languages": f"{self.languages[0]} to {self.languages[1]}",
            "text": f"{self.text} ({self.text_evidence})",
            "subword": self.subword,
            "vocabulary": f"{self.vocabulary_size:,} symbols, {'joint' if joint else 'target'}, "
            f"sha256 {self.vocabulary_sha256[:16]}",
        }
        if not joint:
            rows["source vocabulary"] = (
                f"{self.source_vocabulary_size:,} symbols, "
                f"sha256 {(self.source_vocabulary_sha256 or '')[:16]}"
            )
        return rows

    def tables(self) -> list[Table]:
        """As in `Card`."""
        return [self._split_table()]

    def _split_table(self) -> Table:
        table = Table(title="splits (lengths in tokens with </s>)", title_justify="left")
        table.add_column("split")
        for heading in ("pairs", "dropped", "empty", "source", "max", "target", "max", "unknown"):
            table.add_column(heading, justify="right")
        for role, split in self.splits.items():
            label = role if role == split.name else f"{role} ({split.name})"
            table.add_row(
                label,
                f"{split.pairs:,}",
                f"{sum(split.dropped.values()):,}",
                f"{split.empty:,}",
                f"{split.source.mean:.1f}",
                str(split.source.longest),
                f"{split.target.mean:.1f}",
                str(split.target.longest),
                f"{split.source.unknown + split.target.unknown:,}",
            )
        return table

    def changes(self) -> list[str]:
        """As in `Card`."""
        return counted(
            {name: split.dropped for name, split in self.splits.items()}, "pairs dropped, "
        )


def check_translation(dataset: str, root: Path | None, **settings: Any) -> TranslationCard:
    """Read a data set as training would, all of it, and describe it.

    Args:
        dataset: its name.
        root: its folder.
        settings: further keys of `TranslationDataConfig`.

    Raises:
        DataError: anything in it that can't be read, no training, validation or test split, or
            a line in one of the latter that is longer than ``max_tokens``.
    """
    from .translation import TranslationData
    from .translation_config import TranslationDataConfig

    data = TranslationData(TranslationDataConfig(dataset=dataset, root=root, **settings))
    for split in ("train", "val", "test"):
        data.find(split)
    card = data.card()
    data.train_dataloader()
    data.val_dataloader()
    data.test_dataloader()
    return card
