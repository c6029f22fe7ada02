"""The data card of a segmentation data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Table
from rich.text import Text

from .card import Card, counted


class SegmentationSplitCard(BaseModel):
    """One split.

    Attributes:
        images: images that are used.
        dropped: what was left out, by reason.
        sizes: number of images by size, ``widthxheight``, the most frequent ones first.
        labelled: whether it has labels.
        void: share of its pixels that are ignored.
        shares: share of each class among the other pixels, in the order of the classes.
    """

    model_config = ConfigDict(extra="forbid")

    images: int
    dropped: dict[str, int]
    sizes: dict[str, int]
    labelled: bool
    void: float
    shares: list[float]


class SegmentationCard(Card):
    """What was found of a segmentation data set.

    Attributes, beside those of `Card`:
        format: layout found on disk, and which label files are read.
        classes: their names, in order.
        label_ids: the value of each in the label files.
        splits: by name on disk.
        tested: the split that is tested on.
        files: hashes of each split's images and labels, and of the list of classes.
        hashed: what the hashes are made from.
    """

    classes: list[str]
    label_ids: list[int]
    splits: dict[str, SegmentationSplitCard]
    tested: str
    hashed: str

    def facts(self) -> dict[str, str]:
        """As in `Card`."""
        return {
            "classes": f"{len(self.classes)}",
            "tested on": self.tested,
            "hashes of": self.hashed,
        }

    def tables(self) -> list[Table]:
        """As in `Card`."""
        return [self._split_table(), self._class_table()]

    def _split_table(self) -> Table:
        table = Table(title="splits", title_justify="left")
        table.add_column("split")
        table.add_column("images", justify="right")
        table.add_column("sizes")
        table.add_column("void pixels", justify="right")
        for name, split in self.splits.items():
            sizes = [f"{size} ({number:,})" for size, number in list(split.sizes.items())[:3]]
            more = [f"{len(split.sizes) - 3} more"] * (len(split.sizes) > 3)
            void = f"{split.void:.2%}" if split.labelled else "no labels"
            table.add_row(name, f"{split.images:,}", ", ".join([*sizes, *more]), void)
        return table

    def _class_table(self) -> Table:
        labelled = {name: split for name, split in self.splits.items() if split.labelled}
        table = Table(title="share of each class among the pixels that count", title_justify="left")
        table.add_column("class")
        table.add_column("label", justify="right")
        for name in labelled:
            table.add_column(name, justify="right")
        for number, (name, value) in enumerate(zip(self.classes, self.label_ids, strict=True)):
            shares = [f"{split.shares[number]:.2%}" for split in labelled.values()]
            table.add_row(Text(name), str(value), *shares)
        return table

    def changes(self) -> list[str]:
        """As in `Card`."""
        return counted({name: split.dropped for name, split in self.splits.items()}, "left out, ")


def check_segmentation(dataset: str, root: Path | None, **settings: Any) -> SegmentationCard:
    """Read a data set as training would, all of it, and describe it.

    Args:
        dataset: its name.
        root: its folder.
        settings: further keys of `SegmentationDataConfig`.

    Raises:
        DataError: anything in it that can't be read, or a split that is missing.
    """
    from .segmentation import SegmentationData
    from .segmentation_config import SegmentationDataConfig

    data = SegmentationData(SegmentationDataConfig(dataset=dataset, root=root, **settings))
    data.verify()
    return data.card()
