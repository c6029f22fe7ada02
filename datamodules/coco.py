"""COCO's instances JSON: ``annotations/instances_train2017.json`` and files made like it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from .caption_files import member, refuse_html
from .caption_records import MAX_SIDE, pixel_size
from .class_names import class_name
from .detection_records import SAME_ID, STRAY, DetectionImage, RawBox, make_image, safe_name
from .errors import DataError
from .files import reading
from .images import size_of_annotated

EXPECTED = (
    "COCO instances JSON with images (id, file_name, width, height), annotations (image_id, "
    "category_id, bbox) and categories (id, name)"
)
_LOOK = 1 << 16
_LARGEST_ID = 2**31 - 1
"""Of a category: the evaluation counts with 32 bits."""


@dataclass
class CocoFile:
    """What one file says.

    Attributes:
        categories: names by id, in id order; ids may have gaps.
        images: in the order of the file; the first category has label 1.
        splits: the split each image names, or an empty text.
        counts: what was left out or changed.
    """

    categories: dict[int, str]
    images: list[DetectionImage]
    splits: list[str]
    counts: Counter[str]


def is_instances(path: Path) -> bool:
    """Tell instances JSON by name or by its first and last bytes; keypoints are something else."""
    with reading(path), path.open("rb") as stream:
        head = stream.read(_LOOK)
        stream.seek(max(0, path.stat().st_size - _LOOK))
        both = head + stream.read(_LOOK)
    if path.name.startswith("instances_") and not path.stem.endswith("_results"):
        return True
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    other = (b'"keypoints"', b'"segments_info"', b'"caption"')
    return b'"categories"' in both and b'"bbox"' in both and not any(o in both for o in other)


def read_instances(path: Path, find: Callable[[str], Path | None] = lambda _: None) -> CocoFile:
    """Read one file. Outlines are not read; ids keep the values of the file.

    Args:
        path: the JSON file.
        find: gives the place of an image file by its name, or None.

    Raises:
        DataError: no such file, no JSON, or an entry that can't be used, with its number.
    """
    content = _load(path)
    categories = _categories(path, content)
    labels = {ident: label for label, ident in enumerate(categories, start=1)}
    entries: dict[int | str, dict[str, Any]] = {}
    for number, entry in enumerate(member(path, content, "images", list, EXPECTED)):
        ident = entry.get("id") if isinstance(entry, dict) else None
        if not _is_id(ident):
            raise DataError(f"{path}, image number {number}, has no id; expected {EXPECTED}.")
        if ident in entries:
            raise DataError(f"{path} has image {ident} more than once; remove one of the entries.")
        entries[ident] = entry
    counts: Counter[str] = Counter()
    boxes: dict[int | str, list[RawBox]] = {ident: [] for ident in entries}
    seen: set[int | str] = set()
    for number, entry in enumerate(member(path, content, "annotations", list, EXPECTED)):
        where = f"{path}, annotation number {number}"
        if not isinstance(entry, dict) or not _is_id(entry.get("image_id")):
            raise DataError(f"{where}, has no image_id; expected {EXPECTED}.")
        if _is_id(ident := entry.get("id")):
            counts.update([SAME_ID] if ident in seen else [])
            seen.add(ident)
        box = _box(where, entry, labels)
        if entry["image_id"] in boxes:
            boxes[entry["image_id"]].append(box)
        else:
            counts[STRAY] += 1
    return CocoFile(
        categories=categories,
        images=[
            _image(path, number, ident, entry, boxes[ident], find, counts)
            for number, (ident, entry) in enumerate(entries.items())
        ],
        splits=[str(entry.get("split") or "") for entry in entries.values()],
        counts=counts,
    )


def _load(path: Path) -> Any:
    """Read the JSON, without outlines: they are most of it, and nothing here needs them."""
    with reading(path):
        content = path.read_bytes()
    refuse_html(path, content[:512], EXPECTED)
    try:
        return json.loads(content, object_hook=_without_outline)
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(
            f"{path} is not complete JSON{place}; expected {EXPECTED}: copy it again."
        ) from error


def _without_outline(entry: dict[str, Any]) -> dict[str, Any]:
    entry.pop("segmentation", None)
    return entry


def _categories(path: Path, content: Any) -> dict[int, str]:
    categories: dict[int, str] = {}
    for number, entry in enumerate(member(path, content, "categories", list, EXPECTED)):
        where = f"{path}, category number {number}"
        ident, name = (entry.get("id"), entry.get("name")) if isinstance(entry, dict) else (0, 0)
        if not isinstance(ident, int) or isinstance(ident, bool) or not isinstance(name, str):
            raise DataError(
                f"{where}, has no id that is a whole number, or no name; expected {EXPECTED}."
            )
        if abs(ident) > _LARGEST_ID:
            raise DataError(
                f"{where}, has the id {_short(ident)}; expected a whole number up to "
                f"{_LARGEST_ID:,}: give the categories other ids."
            )
        if ident in categories or name in categories.values():
            raise DataError(f"{where}, has the id or name of another one; correct it.")
        categories[ident] = class_name(name, f"{where},")
    if not categories:
        raise DataError(f"{path} has no categories; expected {EXPECTED}.")
    return dict(sorted(categories.items()))


def _box(where: str, entry: dict[str, Any], labels: dict[int, int]) -> RawBox:
    category = entry.get("category_id")
    label = labels.get(category) if isinstance(category, int) else None
    if label is None:
        known = ", ".join(map(str, list(labels)[:5])) + ", ..." * (len(labels) > 5)
        raise DataError(
            f"{where}, has category_id {_short(category)}, which is none of the file's categories "
            f"({known}); add it to them or remove the annotation."
        )
    values = entry.get("bbox")
    numbers = [_number(value) for value in values] if isinstance(values, list) else []
    box = [value for value in numbers if value is not None]
    if len(box) != 4 or len(numbers) != 4 or max(map(abs, box)) > MAX_SIDE:
        raise DataError(
            f"{where}, has the bbox {_short(values)}; expected four numbers of pixels, x, y, width "
            "and height: correct or remove it."
        )
    crowd = entry.get("iscrowd", 0)
    if crowd not in (0, 1):
        raise DataError(f"{where}, has iscrowd {_short(crowd)}; expected 0 or 1.")
    area = _number(entry.get("area"))
    x, y, width, height = box
    return RawBox(
        corners=(x, y, x + width, y + height),
        label=label,
        area=area if area is not None and area >= 0 else None,
        crowd=bool(crowd),
    )


def _image(
    path: Path,
    number: int,
    ident: int | str,
    entry: dict[str, Any],
    boxes: list[RawBox],
    find: Callable[[str], Path | None],
    counts: Counter[str],
) -> DetectionImage:
    name = entry.get("file_name")
    if not isinstance(name, str):
        raise DataError(f"{path}, image number {number}, has no file_name; expected {EXPECTED}.")
    file = find(safe_name(name, f"{path}, image number {number},"))
    size = pixel_size(entry.get("width"), entry.get("height"))
    if size is None and file is not None and "width" not in entry:
        size = size_of_annotated(file)
    if size is None:
        raise DataError(
            f"{path}, image {ident}, has the size {_short(entry.get('width'))} x "
            f"{_short(entry.get('height'))}; expected whole numbers above 0: correct them."
        )
    return make_image(ident, name, file, size, boxes, counts)


def _number(value: Any) -> float | None:
    """Give a finite number, or None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_id(value: Any) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        text = "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."
