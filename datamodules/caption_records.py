"""What every reader of captions gives: images with their captions, splits and where it stands."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import DataError

_SPLITS = {
    "train": "train",
    "restval": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
MAX_SIDE = 1 << 24
"""No image has a side of so many pixels."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass
class CaptionImage:
    """One image and what is said about it.

    Attributes:
        id: COCO id, Karpathy's ``imgid``, or the file name without its ending.
        split: ``train``, ``val``, ``test``, or empty if no list names it.
        file_name: the image file, maybe with a folder; empty if it isn't known.
        tokens: words of each caption; none is empty.
        raw: the captions as they were written, for evaluation.
        size: width and height in pixels, if known.
    """

    id: int | str
    split: str
    file_name: str
    tokens: list[list[str]]
    raw: list[str]
    size: tuple[int, int] | None = None


@dataclass
class CaptionSet:
    """All images of a data set as read from disk.

    Attributes:
        format: the layout found.
        images: in the order of the file.
        files: the files read.
        vocabulary: words in id order, where the files fix them.
        notes: what is worth knowing, with counts.
    """

    format: str
    images: list[CaptionImage]
    files: list[Path]
    vocabulary: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)


def simple_tokens(text: str) -> list[str]:
    """Lower case, ASCII punctuation deleted, split at white space: the rule of Karpathy's files."""
    return text.lower().translate(_PUNCTUATION).split()


def split_role(name: str) -> str | None:
    """Give ``train``, ``val`` or ``test`` for the names in use; None for others."""
    return _SPLITS.get(name.strip().lower())


def pixel_size(width: Any, height: Any) -> tuple[int, int] | None:
    """Give an image's size as annotations have it; None unless both are usable whole numbers."""
    try:
        size = int(width), int(height)
    except (TypeError, ValueError, OverflowError):
        return None
    return size if all(0 < side < MAX_SIDE for side in size) else None


def finish(
    path: Path, layout: str, images: Iterable[CaptionImage], notes: Sequence[str] = ()
) -> CaptionSet:
    """Refuse duplicate ids, leave out empty captions and images without any, and count those.

    Raises:
        DataError: the same image twice, or nothing left.
    """
    kept: list[CaptionImage] = []
    seen: set[int | str] = set()
    bare: list[str] = []
    empty = 0
    for image in images:
        if image.id in seen:
            raise DataError(
                f"{path} has image {image.id} more than once; remove one of the entries."
            )
        seen.add(image.id)
        full = [number for number, tokens in enumerate(image.tokens) if tokens]
        empty += len(image.tokens) - len(full)
        if not full:
            bare.append(f"{image.id}")
            continue
        image.tokens = [image.tokens[number] for number in full]
        image.raw = [image.raw[number] for number in full]
        kept.append(image)
    if not kept:
        raise DataError(f"{path} has no image with a caption; expected {layout}.")
    found = list(notes)
    if empty:
        found.append(f"{empty:,} captions without a word left out")
    if bare:
        found.append(f"{len(bare):,} images without captions left out, {some(bare)}")
    numbers = Counter(len(image.tokens) for image in kept)
    if len(numbers) > 1:
        found.append(f"captions an image: {min(numbers)} to {max(numbers)}")
    return CaptionSet(layout, kept, [path], notes=found)


def some(names: Sequence[object], most: int = 3) -> str:
    """Name the first few of many: `such as 1, 2, 3`."""
    return f"such as {', '.join(map(str, names[:most]))}"
