"""COCO's own captions JSON: ``captions_{train,val}{2014,2017}.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

from .caption_files import member, read_json
from .caption_records import CaptionImage, CaptionSet, finish, pixel_size, simple_tokens
from .errors import DataError

_EXPECTED = "COCO captions JSON with images (id) and annotations (image_id, caption)"


def read_coco(path: Path, split: str = "") -> CaptionSet:
    """Read one file; every image gets the given split.

    Raises:
        DataError: no such file, or something in it is missing, with the number of the entry.
    """
    content = read_json(path, _EXPECTED)
    images: dict[int, CaptionImage] = {}
    for number, entry in enumerate(member(path, content, "images", list, _EXPECTED)):
        image = _image(path, number, entry, split)
        if image.id in images:
            raise DataError(f"{path} has image {image.id} more than once; remove one of them.")
        images[int(image.id)] = image
    strays = 0
    for number, entry in enumerate(member(path, content, "annotations", list, _EXPECTED)):
        text = entry.get("caption") if isinstance(entry, dict) else None
        if not isinstance(text, str):
            raise DataError(
                f"{path}, annotation number {number}, has no caption; expected {_EXPECTED}."
            )
        ident = entry.get("image_id")
        if not _is_id(ident):
            raise DataError(
                f"{path}, annotation number {number}, has no image_id that is a whole number; "
                f"expected {_EXPECTED}."
            )
        image = images.get(ident)
        if image is None:
            strays += 1
            continue
        text = " ".join(text.split())
        image.tokens.append(simple_tokens(text))
        image.raw.append(text)
    notes = [f"{strays:,} captions of images that the file doesn't list left out"] if strays else []
    return finish(path, "COCO captions JSON", images.values(), notes)


def _image(path: Path, number: int, entry: Any, split: str) -> CaptionImage:
    if not isinstance(entry, dict) or not _is_id(entry.get("id")):
        raise DataError(
            f"{path}, image number {number}, has no id that is a whole number; expected "
            f"{_EXPECTED}."
        )
    size = pixel_size(entry.get("width"), entry.get("height"))
    return CaptionImage(entry["id"], split, str(entry.get("file_name") or ""), [], [], size)


def _is_id(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
