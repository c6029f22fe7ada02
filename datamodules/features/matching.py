"""Which name an image has among the features."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath

from ..caption_records import CaptionImage


def _stem(image: CaptionImage) -> str:
    return PurePosixPath(image.file_name).stem


def _number(image: CaptionImage) -> str:
    """Give the COCO id in ``COCO_val2014_000000391895.jpg``."""
    match = re.search(r"(\d+)$", _stem(image))
    return str(int(match[1])) if match else ""


def _flickr_id(image: CaptionImage) -> str:
    """Give the first number of ``1000268201_693b08cb0e.jpg``."""
    return _stem(image).partition("_")[0]


SCHEMES: dict[str, Callable[[CaptionImage], str]] = {
    "id": lambda image: str(image.id),
    "file name without ending": _stem,
    "file name": lambda image: PurePosixPath(image.file_name).name,
    "number in the file name": _number,
    "Flickr id": _flickr_id,
}


def possible_names(images: Sequence[CaptionImage]) -> frozenset[str]:
    """Give every name that features of the images may have."""
    return frozenset(scheme(image) for image in images for scheme in SCHEMES.values()) - {""}


def match_names(images: Sequence[CaptionImage], known: Collection[str]) -> tuple[str, list[str]]:
    """Name the images by the one scheme that finds most of them.

    Returns:
        The scheme, and the name of each image by it, known or not.
    """
    names = {label: [scheme(image) for image in images] for label, scheme in SCHEMES.items()}
    hits = {label: sum(name in known for name in found) for label, found in names.items()}
    best = max(hits, key=hits.__getitem__)  # the first of equals
    return best, names[best]
