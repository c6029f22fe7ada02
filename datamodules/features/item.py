"""Features of one image on their way into a store, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..caption_records import MAX_SIDE
from ..errors import DataError


@dataclass(frozen=True)
class FeatureItem:
    """One image.

    Attributes:
        id: the name it has in its source, as text.
        features_NF: one row a region or grid cell.
        boxes_N4: x1, y1, x2, y2 in pixels of the image; None without boxes.
        size: width and height of the image in pixels; None if it isn't known.
    """

    id: str
    features_NF: np.ndarray
    boxes_N4: np.ndarray | None = None
    size: tuple[int, int] | None = None


class Source(Protocol):
    """Features in one of the public layouts.

    Attributes:
        layout: what it is, for people.
    """

    layout: str

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image, only the wanted ones, never all in memory where avoidable."""
        ...


def checked(place: str, item: FeatureItem) -> FeatureItem:
    """Refuse features or boxes that can't be used.

    Args:
        place: the file or source, for the error.
        item: what was read.

    Raises:
        DataError: wrong number of dimensions, no row, NaN or infinity, boxes that don't fit, a size
            that no image has.
    """
    features = item.features_NF
    if features.ndim != 2 or not features.size or features.dtype.kind not in "fiu":
        raise DataError(
            f"{place}, image {item.id}: features of shape {features.shape} and type "
            f"{features.dtype}; expected one row of numbers for each region."
        )
    bad = int(features.size - np.isfinite(features).sum())
    if bad:
        raise DataError(
            f"{place}, image {item.id}: {bad:,} of {features.size:,} values are NaN or infinite; "
            "make its features again."
        )
    if item.size is not None and not all(0 <= side < MAX_SIDE for side in item.size):
        raise DataError(
            f"{place}, image {item.id}: a size of {item.size[0]} x {item.size[1]} pixels; correct "
            "it, or give none."
        )
    boxes = item.boxes_N4
    if boxes is None:
        return item
    if boxes.dtype.kind not in "fiu":
        raise DataError(f"{place}, image {item.id}: boxes of type {boxes.dtype}; expected numbers.")
    if boxes.shape != (len(features), 4):
        raise DataError(
            f"{place}, image {item.id}: boxes of shape {boxes.shape} for {len(features)} regions; "
            f"expected ({len(features)}, 4)."
        )
    if not (np.abs(boxes.astype(np.float64)) < MAX_SIDE).all():
        raise DataError(
            f"{place}, image {item.id}: a box is NaN, infinite or larger than any image; make it "
            "again."
        )
    return item
