"""What every reader of a segmentation set gives: where its files lie and what label values mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .errors import DataError
from .images import read_labels

IGNORED = 255
"""Class of pixels that are neither trained on nor scored."""

_UNKNOWN = 254
_VALUES = 1 << 16
_NAMED = 5


@dataclass(frozen=True)
class LabelCode:
    """What the values in a set's label files mean.

    Attributes:
        name: what the files are called, for messages, such as ``labelIds``.
        classes: class, from 0, by value in the file.
        void: values that are ignored.
        hint: what to do about a file with other values, for messages.
    """

    name: str
    classes: Mapping[int, int]
    void: frozenset[int]
    hint: str

    def __post_init__(self) -> None:
        table = np.full(_VALUES, _UNKNOWN, np.uint8)
        table[sorted(self.void)] = IGNORED
        for value, number in self.classes.items():
            table[value] = number
        object.__setattr__(self, "_table", table)

    def read(self, path: Path) -> np.ndarray:
        """Read a label file as classes, uint8 (H, W), with 255 where nothing counts.

        Raises:
            DataError: no label file, or values that mean nothing.
        """
        values_HW = read_labels(path)
        if values_HW.min() < 0 or values_HW.max() >= _VALUES:
            raise DataError(f"{path} has values beyond 0 to 65,535; {self.hint}.")
        labels_HW = self._table[values_HW]  # type: ignore[attr-defined]
        unknown_HW = labels_HW == _UNKNOWN
        if unknown_HW.any():
            raise DataError(self._refusal(path, values_HW[unknown_HW]))
        return labels_HW

    def _refusal(self, path: Path, wrong: np.ndarray) -> str:
        values, counts = np.unique(wrong, return_counts=True)
        said = [f"{value} in {n:,}" for value, n in zip(values, counts, strict=True)][:_NAMED]
        more = f" and {len(values) - _NAMED} further values" * (len(values) > _NAMED)
        plural = "" if len(values) == 1 and counts[0] == 1 else "s"
        return (
            f"{path} has label {', '.join(said)} pixel{plural}{more}, which is none of "
            f"{self.name}; {self.hint}."
        )


@dataclass(frozen=True)
class LabelledImage:
    """An image of a set.

    Attributes:
        name: how its prediction is named; unlike any other of its split.
        image: the file.
        labels: the label file, None where there is none.
    """

    name: str
    image: Path
    labels: Path | None


@dataclass(frozen=True)
class SegmentationSet:
    """A data set as it lies on disk; no image has been read yet.

    Attributes:
        format: the layout that was found, for the card.
        classes: their names.
        palette: red, green and blue of each class, for pictures.
        label_ids: the value that stands for each class in the set's own label files.
        code: what the values in the label files mean.
        splits: images by split, in order; none is empty.
        unlabelled: why a split has no labels, by split.
        dropped: what was left out, and how often, by split.
        notes: remarks for the card.
    """

    format: str
    classes: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...]
    label_ids: tuple[int, ...]
    code: LabelCode
    splits: Mapping[str, tuple[LabelledImage, ...]]
    unlabelled: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def pair(
    split: str,
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    *,
    leave_out: bool,
    folder: Path,
    ending: str,
) -> tuple[tuple[LabelledImage, ...], dict[str, int]]:
    """Put images and labels of a split together by name, in the order of the names given.

    Args:
        split: its name, for messages.
        images: by name.
        labels: by the name of their image.
        leave_out: leave out, and count, what has no partner, rather than refuse it.
        folder: where label files should be, for messages.
        ending: of their names.

    Raises:
        DataError: something has no partner (with how many and the first of them), or all of it.
    """
    alone = [name for name in images if name not in labels]
    orphans = [path for name, path in labels.items() if name not in images]
    if alone and not leave_out:
        raise DataError(
            f"{len(alone):,} of {len(images):,} images of {split} have no labels, the first is "
            f"{images[alone[0]]} (expected {folder / alone[0]}{ending}); add them, or set "
            "missing=leave_out."
        )
    if orphans and not leave_out:
        raise DataError(
            f"{len(orphans):,} label files of {split} have no image, the first is {orphans[0]}; "
            "add the images, remove the files, or set missing=leave_out."
        )
    found = tuple(
        LabelledImage(name, path, labels[name]) for name, path in images.items() if name in labels
    )
    if not found:
        raise DataError(
            f"None of the {len(images):,} images of {split} has labels, such as "
            f"{folder / next(iter(images))}{ending}; give a folder that has both."
        )
    dropped = {"image without labels": len(alone), "labels without an image": len(orphans)}
    return found, {reason: number for reason, number in dropped.items() if number}


def colours(count: int) -> tuple[tuple[int, int, int], ...]:
    """Make colours that can be told apart: each bit of a class's number goes to another channel.

    This is the colour map of the PASCAL VOC development kit, from its second colour on.
    """
    made = []
    for number in range(1, count + 1):
        red = green = blue = 0
        for bit in range(8):
            part = number >> 3 * bit
            red |= (part & 1) << 7 - bit
            green |= (part >> 1 & 1) << 7 - bit
            blue |= (part >> 2 & 1) << 7 - bit
        made.append((red, green, blue))
    return tuple(made)
