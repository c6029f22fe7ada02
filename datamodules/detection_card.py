"""The data card of detection: what was found on disk and what a run will see of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict
from rich.table import Table
from rich.text import Text

from .card import Card, counted
from .detection_records import DetectionImage, DetectionSplit
from .prefetch import ahead


class DetectionSplitCard(BaseModel):
    """One split.

    Attributes:
        name: its name on disk.
        images: images that are used.
        without_boxes: of these, those without a box, or with crowds alone.
        missing: annotated images without a file, left out.
        not_trained: images without boxes that training leaves out.
        boxes: boxes that are used, crowds not counted.
        crowds: boxes around many things, for evaluation alone.
        classes: boxes by class, crowds not counted.
        widths, heights: smallest and largest, in pixels.
        counts: what was left out or changed while reading the whole split, by reason.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    images: int
    without_boxes: int
    missing: int
    not_trained: int
    boxes: int
    crowds: int
    classes: dict[str, int]
    widths: tuple[int, int]
    heights: tuple[int, int]
    counts: dict[str, int]


class DetectionCard(Card):
    """What was found of a detection data set.

    Attributes, beside those of `Card`:
        classes: their names.
        category_ids: their ids in the files.
        splits: by role.
        files: SHA-256 of each annotation file, or of several together; and of the names and sizes
            in bytes of a split's images.
    """

    classes: tuple[str, ...]
    category_ids: tuple[int, ...]
    splits: dict[str, DetectionSplitCard]

    def facts(self) -> dict[str, str]:
        """As in `Card`."""
        ids = self.category_ids
        return {
            "classes": f"{len(self.classes)}, with ids from {min(ids)} to {max(ids)} in the files",
            "hashes of": "annotation files, and names and sizes in bytes of images",
        }

    def tables(self) -> list[Table]:
        """As in `Card`."""
        return [self._split_table(), self._class_table()]

    def _split_table(self) -> Table:
        table = Table(title="splits (sizes in pixels)", title_justify="left")
        table.add_column("split")
        headings = ("images", "without box", "missing", "boxes", "crowds", "width", "height")
        for heading in headings:
            table.add_column(heading, justify="right")
        for role, split in self.splits.items():
            numbers = (split.images, split.without_boxes, split.missing, split.boxes, split.crowds)
            table.add_row(
                role if role == split.name else f"{role} ({split.name})",
                *(f"{number:,}" for number in numbers),
                _span(split.widths),
                _span(split.heights),
            )
        return table

    def _class_table(self) -> Table:
        """Give the boxes of each class, up to 20 classes."""
        table = Table(title="boxes by class", title_justify="left")
        table.add_column("class")
        for role in self.splits:
            table.add_column(role, justify="right")
        for name in self.classes[:20]:
            table.add_row(Text(name), *(f"{s.classes[name]:,}" for s in self.splits.values()))
        if len(self.classes) > 20:
            rest = self.classes[20:]
            sums = [sum(split.classes[name] for name in rest) for split in self.splits.values()]
            table.add_row(f"{len(rest)} more", *(f"{number:,}" for number in sums))
        return table

    def changes(self) -> list[str]:
        """As in `Card`."""
        left_out = [
            f"{role}: {split.not_trained:,} images without boxes are not trained on"
            for role, split in self.splits.items()
            if split.not_trained
        ]
        return [*left_out, *counted({role: split.counts for role, split in self.splits.items()})]


def describe_split(
    name: str,
    split: DetectionSplit,
    used: Sequence[DetectionImage],
    classes: Sequence[str],
    not_trained: int,
) -> DetectionSplitCard:
    """Describe a split.

    Args:
        name: its name on disk.
        split: as read.
        used: the images that a run sees.
        classes: names of the classes.
        not_trained: images without boxes that training leaves out.
    """
    labels = np.concatenate([image.labels_N[~image.crowd_N] for image in used])
    numbers = np.bincount(labels, minlength=len(classes) + 1)[1:]
    sizes = np.array([image.size for image in used])
    return DetectionSplitCard(
        name=name,
        images=len(used),
        without_boxes=sum(bool(image.crowd_N.all()) for image in used),
        missing=sum(image.file is None for image in split.images),
        not_trained=not_trained,
        boxes=len(labels),
        crowds=sum(int(image.crowd_N.sum()) for image in used),
        classes=dict(zip(classes, map(int, numbers), strict=True)),
        widths=(int(sizes[:, 0].min()), int(sizes[:, 0].max())),
        heights=(int(sizes[:, 1].min()), int(sizes[:, 1].max())),
        counts=dict(split.counts),
    )


def _span(ends: tuple[int, int]) -> str:
    return f"{ends[0]}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def check_detection(dataset: str, root: Path | None, **settings: Any) -> DetectionCard:
    """Read a data set as training and evaluation would, every image of it, and describe it.

    Args:
        dataset: its name.
        root: its folder.
        settings: further keys of `DetectionDataConfig`.

    Raises:
        DataError: anything in it that can't be read, a split that is missing, or an image of
            another size than annotated.
    """
    from .detection import SPLITS, DetectionData
    from .detection_config import DetectionDataConfig
    from .detection_loader import read_pixels

    data = DetectionData(DetectionDataConfig(dataset=dataset, root=root, **settings))
    images = {image.file: image for split in SPLITS for image in data.images(split)}
    workers = max(data.config.workers, 2)
    for _ in ahead(lambda i: read_pixels(i).shape, images.values(), workers=workers, depth=16):
        pass
    return data.card()
