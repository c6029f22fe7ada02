"""What every reader of boxes gives: images with boxes, by split, and what was wrong with them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from .caption_records import split_role
from .errors import DataError
from .files import reading

MIN_SIDE = 0.01
"""Sides below this many pixels, of a box or its part inside of the image, count as none."""

NO_SIZE = "boxes of zero or negative size left out"
OUTSIDE = "boxes outside of their image left out"
OVER_THE_EDGE = "boxes that reach over the edge, clipped in training, as annotated in evaluation"
STRAY = "boxes of images that are not listed left out"
SAME_ID = "boxes with the id of another one, kept"


@dataclass(frozen=True)
class DetectionImage:
    """One image and its N boxes, which may reach over its edge.

    Attributes:
        id: the data set's own, as result files need it.
        name: the image file as the annotations name it.
        file: where it lies; None if it isn't there.
        size: width and height in pixels.
        boxes_N4: x1, y1, x2, y2 in pixels, x2 and y2 the first ones outside; float64.
        labels_N: number of each class from 1; int64.
        area_N: as annotated, else the box's, in square pixels; float64.
        crowd_N: True where a box is drawn around many things of a class.
    """

    id: int | str
    name: str
    file: Path | None
    size: tuple[int, int]
    boxes_N4: np.ndarray
    labels_N: np.ndarray
    area_N: np.ndarray
    crowd_N: np.ndarray


@dataclass
class DetectionSplit:
    """Images of a split in the order of the files.

    Attributes:
        images: the images.
        files: annotation files and lists read.
        counts: what was left out or changed, by reason.
    """

    images: list[DetectionImage]
    files: list[Path]
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class DetectionSet:
    """A data set as read from disk.

    Attributes:
        format: the layout found.
        classes: names; class i has label i + 1.
        category_ids: each class's id in the files, for results.
        splits: by the name they have on disk.
        files: files that all splits share.
        notes: what is worth knowing.
    """

    format: str
    classes: tuple[str, ...]
    category_ids: tuple[int, ...]
    splits: dict[str, DetectionSplit]
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class RawBox:
    """A box as annotated: corners and what else is known of it."""

    corners: tuple[float, float, float, float]
    label: int
    area: float | None = None
    crowd: bool = False


def make_image(
    ident: int | str,
    name: str,
    file: Path | None,
    size: tuple[int, int],
    boxes: Sequence[RawBox],
    counts: Counter[str],
) -> DetectionImage:
    """Put an image together; boxes that can't be seen are left out and counted."""
    corners_N4 = np.array([box.corners for box in boxes], np.float64).reshape(-1, 4)
    width, height = size
    x1, y1, x2, y2 = corners_N4.T
    seen_N4 = corners_N4.clip(0, [width, height, width, height])
    some = np.minimum(x2 - x1, y2 - y1) >= MIN_SIDE
    inside = some & ((seen_N4[:, 2:] - seen_N4[:, :2]).min(1) >= MIN_SIDE)
    over = inside & ((x1 < 0) | (y1 < 0) | (x2 > width) | (y2 > height))
    for reason, number in {
        NO_SIZE: len(boxes) - some.sum(),
        OUTSIDE: some.sum() - inside.sum(),
        OVER_THE_EDGE: over.sum(),
    }.items():
        if number:
            counts[reason] += int(number)
    kept = [box for box, keep in zip(boxes, inside, strict=True) if keep]
    boxes_N4 = corners_N4[inside]
    own_N = (boxes_N4[:, 2:] - boxes_N4[:, :2]).prod(1)
    areas = [own if box.area is None else box.area for box, own in zip(kept, own_N, strict=True)]
    return DetectionImage(
        id=ident,
        name=name,
        file=file,
        size=size,
        boxes_N4=boxes_N4,
        labels_N=np.array([box.label for box in kept], np.int64),
        area_N=np.array(areas, np.float64),
        crowd_N=np.array([box.crowd for box in kept], bool),
    )


class ImageFinder:
    """Finds image files in some folders, each of which is listed only once.

    Args:
        folders: where to look, in this order.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(dict.fromkeys(folders))
        self._listed: dict[Path, frozenset[str]] = {}

    def find(self, name: str) -> Path | None:
        """Give the file of a name that may have folders in it, or None."""
        for folder in self.folders:
            path = folder / name
            if path.name in self._names(path.parent):
                return path
        return None

    def find_stem(self, stem: str, endings: Sequence[str]) -> Path | None:
        """Give the first file of that name with one of the endings, small or capital letters."""
        for ending in endings:
            for name in (stem + ending, stem + ending.upper()):
                if (path := self.find(name)) is not None:
                    return path
        return None

    def _names(self, folder: Path) -> frozenset[str]:
        if folder not in self._listed:
            with reading(folder):
                names = os.listdir(folder) if folder.is_dir() else []
            self._listed[folder] = frozenset(names)
        return self._listed[folder]


def safe_name(name: str, where: str) -> str:
    """Refuse a file name that leads out of its folder.

    Args:
        name: as the annotations have it; folders are separated by ``/``.
        where: file and place, for the error.

    Raises:
        DataError: it is empty, absolute, or has ``..``, a backslash or a control character.
    """
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/" or re.search(r"[\\\x00-\x1f]|^\w:", name):
        raise DataError(
            f"{where} names the file {name!a}; expected a name below the folder of the images, "
            "without .. and backslashes: correct it."
        )
    return name


def role_of(name: str) -> str | None:
    """Give ``train``, ``val`` or ``test`` for names like train2017 or cells_valid; None for others.

    A name that has two of them (``train_val``) is none of them.
    """
    roles = {role for part in re.split(r"[^a-z]+", name.lower()) if (role := split_role(part))}
    return roles.pop() if len(roles) == 1 else None
