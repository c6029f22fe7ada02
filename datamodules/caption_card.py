"""The data card of a captioning data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


class CaptionSplitCard(BaseModel):
    """One split.

    Attributes:
        images: images that are used.
        captions: their captions.
        dropped: images left out, by reason.
        mean: mean words of a caption, after cutting.
        longest: most words of a caption, before cutting.
        cut: captions cut at the longest length.
        unknown: words that became UNK.
    """

    model_config = ConfigDict(extra="forbid")

    images: int
    captions: int
    dropped: dict[str, int]
    mean: float
    longest: int
    cut: int
    unknown: int


class CaptionCard(BaseModel):
    """All that must be equal for two results to be comparable, and what explains the rest.

    Attributes:
        dataset: name of the data set.
        title: what it is.
        format: layout of the captions found on disk.
        vocabulary_size: ids, 0 included.
        vocabulary_rule: which words have an id of their own.
        vocabulary_sha256: hash of the words in order.
        features: layout, type, width, regions, whether there are boxes, hash.
        splits: by name.
        files: SHA-256 of each annotation file, by its path below the folder.
        notes: remarks and counted warnings.
    """

    model_config = ConfigDict(extra="forbid")

    dataset: str
    title: str
    format: str
    vocabulary_size: int
    vocabulary_rule: str
    vocabulary_sha256: str
    features: dict[str, Any]
    splits: dict[str, CaptionSplitCard]
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
        found = self.features
        rows = {
            "data set": f"{self.dataset}: {self.title}",
            "captions": self.format,
            "vocabulary": f"{self.vocabulary_size:,} ids with 0, {self.vocabulary_rule}, "
            f"sha256 {self.vocabulary_sha256[:16]}",
            "features": f"{found['layout']}: {found['images']:,} images, {found['regions']} "
            f"regions of {found['dim']:,} ({found['dtype']}), "
            f"{'with' if found['boxes'] else 'without'} boxes, sha256 {found['sha256'][:16]}",
        }
        for name, value in rows.items():
            table.add_row(Text(name, style="bold"), Text(value))
        return table

    def _split_table(self) -> Table:
        table = Table(title="splits (lengths in words)", title_justify="left")
        table.add_column("split")
        for heading in ("images", "captions", "mean", "longest", "cut", "unknown"):
            table.add_column(heading, justify="right")
        for name, split in self.splits.items():
            numbers = (split.images, split.captions, split.longest, split.cut, split.unknown)
            images, captions, longest, cut, unknown = (f"{number:,}" for number in numbers)
            table.add_row(name, images, captions, f"{split.mean:.1f}", longest, cut, unknown)
        return table

    def _remarks(self) -> list[str]:
        dropped = [
            f"{name}: {number:,} images left out, {reason}"
            for name, split in self.splits.items()
            for reason, number in split.dropped.items()
        ]
        hashes = [f"sha256 {digest}  {name}" for name, digest in self.files.items()]
        return [*dropped, *self.notes, *hashes]


def check_captions(dataset: str, root: Path | None, **settings: Any) -> CaptionCard:
    """Read a data set as training would, all of it, and describe it.

    Args:
        dataset: its name.
        root: its folder.
        settings: further keys of `CaptionDataConfig`.

    Raises:
        DataError: anything in it that can't be read, a split that is missing, or a store whose
            hashes don't fit.
    """
    from .caption_config import CaptionDataConfig
    from .captions import SPLITS, CaptionData

    data = CaptionData(CaptionDataConfig(dataset=dataset, root=root, **settings))
    for split in SPLITS:
        data.image_ids(split)
    data.store.verify()
    return data.card()
