"""YOLO text: a file an image with a line a box, ``class cx cy width height`` in parts of the image.

Folders are ``images/{train,val,test}`` with ``labels/{train,val,test}`` beside them, or
``{train,valid,test}/images`` with ``.../labels``. An image without a label file has no boxes.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from .caption_records import some
from .class_names import class_name
from .detection_records import (
    DetectionSet,
    DetectionSplit,
    RawBox,
    make_image,
    role_of,
)
from .errors import DataError
from .files import read_lines, reading
from .image_files import ENDINGS, visible
from .images import size_of_annotated

_EXPECTED = "lines of `class cx cy width height`, the last four between 0 and 1"
_PIXELS = 2.0
"""A value above this is no part of an image but a number of pixels."""

NO_LABELS = "images without a label file, taken as images without boxes"
NO_IMAGE = "label files without an image left out"


def is_yolo(root: Path) -> bool:
    """Tell whether a folder has label texts beside folders of images."""
    return any(
        next(labels.rglob("*.txt"), None) is not None
        for images in _image_folders(root).values()
        if (labels := _labels_of(images)).is_dir()
    )


def read_yolo(root: Path) -> DetectionSet:
    """Read a folder; class names come from ``data.yaml`` (or another YAML file) or ``classes.txt``.

    Ids of the classes count from 0, as in the label files; an image's id is its name without
    ending.

    Raises:
        DataError: no class names, or a line that can't be used, with its number.
    """
    classes, source = _class_names(root)
    splits = {
        name: _read_split(images, len(classes)) for name, images in _image_folders(root).items()
    }
    return DetectionSet("YOLO text", classes, tuple(range(len(classes))), splits, [source])


def _image_folders(root: Path) -> dict[str, Path]:
    """Give the folder of each split's images by the name of the split on disk."""
    found = {}
    for folder in sorted(path for path in root.glob("images/*") if path.is_dir()):
        found[folder.name] = folder
    for folder in sorted(path for path in root.glob("*/images") if path.is_dir()):
        found[folder.parent.name] = folder
    return {name: folder for name, folder in found.items() if role_of(name)}


def _labels_of(images: Path) -> Path:
    if images.name == "images":
        return images.with_name("labels")
    return images.parent.with_name("labels") / images.name


def _class_names(root: Path) -> tuple[tuple[str, ...], Path]:
    for path in (root / "data.yaml", *sorted([*root.glob("*.yaml"), *root.glob("*.yml")])):
        if path.is_file() and (names := _yaml_names(path)) is not None:
            return _checked(path, names), path
    for path in (root / "classes.txt", root / "labels" / "classes.txt"):
        if path.is_file():
            return _checked(path, [line for line in read_lines(path) if line]), path
    raise DataError(
        f"{root} has label files but no class names; add data.yaml with `names`, or classes.txt "
        "with a name a line."
    )


def _yaml_names(path: Path) -> list[Any] | None:
    """Give the names of a YAML file as a list; None if it has none."""
    with reading(path):
        content = path.read_bytes()
    try:
        found = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{path} is no YAML that can be read ({said[:120]}).") from error
    names = found.get("names") if isinstance(found, dict) else None
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            raise DataError(f"{path}: the keys of `names` are not 0, 1, 2 and so on; correct them.")
        names = [names[number] for number in range(len(names))]
    return names if isinstance(names, list) else None


def _checked(path: Path, names: list[Any]) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str | int) for name in names):
        raise DataError(f"{path} has no proper class names; expected a text for each class.")
    texts = tuple(class_name(str(name), str(path)) for name in names)
    twice = [name for name, number in Counter(texts).items() if number > 1]
    if twice:
        raise DataError(f"{path} has some class names more than once, {some(twice)}; correct them.")
    return texts


def _read_split(folder: Path, classes: int) -> DetectionSplit:
    labels = _labels_of(folder)
    with reading(folder):
        files = [
            path
            for path in visible(folder.rglob("*"))
            if path.suffix.lower() in ENDINGS and path.is_file()
        ]
        written = {path for path in labels.rglob("*.txt") if path.name != "classes.txt"}
    stems = [path.relative_to(folder).with_suffix("").as_posix() for path in files]
    twice = [name for name, number in Counter(stems).items() if number > 1]
    if twice:
        raise DataError(
            f"{folder} has several images of one name, {some(twice)}, but a label file can belong "
            "to one only; rename them."
        )
    counts: Counter[str] = Counter()
    images, read = [], []
    for stem, file in zip(stems, files, strict=True):
        path = labels / f"{stem}.txt"
        size, boxes = size_of_annotated(file), []
        if path in written:
            boxes = _boxes(path, size, classes)
            read.append(path)
        else:
            counts[NO_LABELS] += 1
        name = file.relative_to(folder).as_posix()
        images.append(make_image(stem, name, file, size, boxes, counts))
    strays = len(written) - len(read)
    counts.update({NO_IMAGE: strays} if strays else {})
    return DetectionSplit(images, read, counts)


def _boxes(path: Path, size: tuple[int, int], classes: int) -> list[RawBox]:
    if path.stat().st_size == 0:  # an image without boxes
        return []
    width, height = size
    boxes = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        label, (cx, cy, w, h) = _line(f"{path}, line {number},", line, classes)
        corners = ((cx - w / 2) * width, (cy - h / 2) * height)
        ends = ((cx + w / 2) * width, (cy + h / 2) * height)
        boxes.append(RawBox((*corners, *ends), label + 1))
    return boxes


def _line(where: str, line: str, classes: int) -> tuple[int, tuple[float, float, float, float]]:
    parts = line.split()
    try:
        label, values = int(parts[0]), [float(part) for part in parts[1:]]
    except ValueError:
        label, values = -1, []
    if len(values) != 4 or not all(map(math.isfinite, values)):
        raise DataError(f"{where} is {line[:60]!a}; expected {_EXPECTED}: correct it.")
    if not 0 <= label < classes:
        raise DataError(
            f"{where} has class {label}, but there are names for 0 to {classes - 1} only; add the "
            "name or correct the line."
        )
    if max(map(abs, values)) > _PIXELS:
        raise DataError(f"{where} seems to be in pixels ({line[:60]}); expected {_EXPECTED}.")
    cx, cy, w, h = values
    return label, (cx, cy, w, h)
