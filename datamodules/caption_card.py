"""The data card of a captioning data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from .card import Card, counted


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


class CaptionCard(Card):
    """What was found of a captioning data set.

    Attributes, beside those of `Card`:
        vocabulary_size: ids, 0 included.
        vocabulary_rule: which words have an id of their own.
        vocabulary_sha256: hash of the words in order.
        features: layout, type, width, regions, whether there are boxes, hash.
        splits: by name.
        files: SHA-256 of each annotation file, by its path below the folder.
    """

    vocabulary_size: int
    vocabulary_rule: str
    vocabulary_sha256: str
    features: dict[str, Any]
    splits: dict[str, CaptionSplitCard]

    def facts(self) -> dict[str, str]:
        """As in `Card`."""
        found = self.features
        return {
            "vocabulary": f"{self.vocabulary_size:,} ids with 0, {self.vocabulary_rule}, "
            f"sha256 {self.vocabulary_sha256[:16]}",
            "features": f"{found['layout']}: {found['images']:,} images, {found['regions']} "
            f"regions of {found['dim']:,} ({found['dtype']}), "
            f"{'with' if found['boxes'] else 'without'} boxes, sha256 {found['sha256'][:16]}",
        }

    def tables(self) -> list[Table]:
        """As in `Card`."""
        return [self._split_table()]

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

    def changes(self) -> list[str]:
        """As in `Card`."""
        return counted(
            {name: split.dropped for name, split in self.splits.items()}, "images left out, "
        )


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
