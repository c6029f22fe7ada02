"""Splits of captions that have none of their own: lists in use, or a fixed draw by hash."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from .caption_files import read_json
from .caption_records import CaptionSet, some, split_role
from .errors import DataError
from .files import csv_rows, read_lines

_EXPECTED = "a CSV file with image,split or a JSON object from split to images"
_OFFICIAL = {"train": "*trainImages.txt", "val": "*devImages.txt", "test": "*testImages.txt"}
_SHARES = {"train": 80, "val": 90, "test": 100}


def apply_splits(captions: CaptionSet, root: Path, split_file: Path | None) -> None:
    """Give every image its split: from a list, or drawn if there is none and no image has any.

    Raises:
        DataError: a list that can't be read or names none of the images.
    """
    paths = [split_file] if split_file else _find(root)
    if paths:
        _apply(captions, paths)
    elif {image.split for image in captions.images} <= {"", "val"}:
        _draw(captions)


def _find(root: Path) -> list[Path]:
    table = root / "split.csv"
    if table.is_file():
        return [table]
    found = [sorted(root.glob(f"**/{pattern}")) for pattern in _OFFICIAL.values()]
    return [paths[0] for paths in found] if all(found) else []


def _apply(captions: CaptionSet, paths: list[Path]) -> None:
    splits: dict[str, str] = {}
    for path in paths:
        splits |= _read(path)
    # The original archive's lists name whole files; JSON lists often only ids.
    for image in captions.images:
        name = PurePosixPath(image.file_name).name
        image.split = splits.get(name) or splits.get(str(image.id)) or ""
    if not any(image.split for image in captions.images):
        raise DataError(f"{paths[0]} names none of the images of {captions.files[0]}.")
    outside = [image.id for image in captions.images if not image.split]
    if outside:
        captions.notes.append(
            f"{len(outside):,} images belong to no split and are not used, {some(outside)}"
        )
    captions.files += paths


def _read(path: Path) -> dict[str, str]:
    """Give the split of each image that a list names."""
    for role, pattern in _OFFICIAL.items():
        if path.match(pattern):
            return {line: role for line in read_lines(path) if line}
    if path.suffix.lower() == ".json":
        content = read_json(path, _EXPECTED)
        if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
            raise DataError(f"{path} is no list of splits; expected {_EXPECTED}.")
        rows = [(str(image), split) for split, images in content.items() for image in images]
    else:
        table = [row for _, row in csv_rows(path, read_lines(path))]
        if any(len(row) < 2 for row in table):
            raise DataError(f"{path} has a line without a split; expected {_EXPECTED}.")
        headed = split_role(table[0][1]) is None  # some lists have no heading
        rows = [(row[0].strip(), row[1]) for row in table[headed:]]
    return _roles(path, rows)


def _roles(path: Path, rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Turn the names of splits into ours; images of others stay out."""
    splits: dict[str, str] = {}
    for image, split in rows:
        role = split_role(split) or ""
        if role and splits.setdefault(image, role) != role:
            raise DataError(f"{path} puts {image} into {splits[image]} and {role}; give one split.")
    return splits


def _draw(captions: CaptionSet) -> None:
    for image in captions.images:
        place = int(hashlib.sha256(str(image.id).encode()).hexdigest(), 16) % 100
        image.split = next(name for name, end in _SHARES.items() if place < end)
    counts = Counter(image.split for image in captions.images)
    captions.notes.append(
        "no list of splits: drawn by the SHA-256 of the ids "
        f"({', '.join(f'{name} {counts[name]:,}' for name in _SHARES)}), so the results stand "
        "beside no published ones"
    )
