"""The data card: what was found on disk and what training will see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


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


class SplitCard(BaseModel):
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


class DataCard(BaseModel):
    """All that must be equal for two results to be comparable, and what explains the rest.

    Attributes:
        dataset: name of the data set.
        title: what it is.
        format: layout found on disk.
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
        notes: remarks.
    """

    model_config = ConfigDict(extra="forbid")

    dataset: str
    title: str
    format: str
    languages: tuple[str, str]
    text: str
    text_evidence: str
    subword: str
    vocabulary_size: int
    vocabulary_sha256: str
    source_vocabulary_size: int | None = None
    source_vocabulary_sha256: str | None = None
    splits: dict[str, SplitCard]
    files: dict[str, str]
    notes: list[str]

    def __rich__(self) -> Group:
        """Render for `rich.print`."""
        return Group(self._facts(), self._split_table(), *map(Text, self._remarks()))

    def render(self, width: int = 100) -> str:
        """Render as plain text."""
        console = Console(width=width, no_color=True, force_terminal=False, legacy_windows=False)
        with console.capture() as capture:
            console.print(self)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"

    def _facts(self) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        joint = self.source_vocabulary_size is None
        rows = {
            "data set": f"{self.dataset}: {self.title}",
            "format": self.format,
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
        for name, value in rows.items():
            table.add_row(Text(name, style="bold"), Text(value))
        return table

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

    def _remarks(self) -> list[str]:
        dropped = [
            f"{role}: {number:,} pairs dropped, {reason}"
            for role, split in self.splits.items()
            for reason, number in split.dropped.items()
        ]
        hashes = [f"sha256 {digest}  {name}" for name, digest in self.files.items()]
        return [*dropped, *self.notes, *hashes]


def check(dataset: str, root: Path | None, **settings: Any) -> DataCard:
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
