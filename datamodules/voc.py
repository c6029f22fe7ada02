"""Pascal VOC: an XML file an image, and lists of images for each split.

Coordinates count pixels from `FIRST_PIXEL` and include the last one, as in the VOC development
kit: the box of the single pixel in the upper left corner is xmin = ymin = xmax = ymax = 1. Here a
box ends before the first pixel outside, so that one becomes (0, 0, 1, 1).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .caption_records import MAX_SIDE, pixel_size, some
from .class_names import class_name
from .detection_records import (
    DetectionSet,
    DetectionSplit,
    ImageFinder,
    RawBox,
    make_image,
    safe_name,
)
from .errors import DataError
from .files import read_lines, reading
from .images import size_of_annotated

FIRST_PIXEL = 1
DIFFICULT = "boxes marked as difficult, used like the others"
_SPLITS = ("train", "val", "test")
_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
_EXPECTED = "a Pascal VOC annotation with size and objects (name, bndbox)"


@dataclass
class _Entry:
    name: str
    filename: str
    size: tuple[int, int] | None
    objects: list[tuple[str, tuple[float, float, float, float]]]
    difficult: int


def is_voc(folder: Path) -> bool:
    """Tell whether a folder has ``Annotations`` with XML files in it."""
    return next(folder.glob("Annotations/*.xml"), None) is not None


def read_voc(folder: Path) -> DetectionSet:
    """Read a folder with ``Annotations``, ``ImageSets/Main`` and ``JPEGImages``.

    The classes are the names that occur, in the order of the alphabet; their ids count from 1.

    Raises:
        DataError: no list of a split, a listed image without annotation, or an XML file that can't
            be used, with the number of the object.
    """
    lists = {name: folder / "ImageSets" / "Main" / f"{name}.txt" for name in _SPLITS}
    lists = {name: path for name, path in lists.items() if path.is_file()}
    if not lists:
        raise DataError(
            f"{folder} has annotations but no ImageSets/Main/train.txt, val.txt or test.txt; add "
            "them: one name of an image a line, without its ending."
        )
    entries = {name: _listed(folder, path) for name, path in lists.items()}
    names = {label for split in entries.values() for e in split for label, _ in e.objects}
    if not names:
        raise DataError(f"{folder / 'Annotations'} has no object in any of its files.")
    classes = tuple(sorted(names))
    finder = ImageFinder([folder / "JPEGImages"])
    splits = {
        name: _split(folder, split, classes, finder, lists[name]) for name, split in entries.items()
    }
    ids = tuple(range(1, len(classes) + 1))
    notes = ["pixels counted from 1, the last one included, as in VOC's own files"]
    return DetectionSet("Pascal VOC XML", classes, ids, splits, notes=notes)


def _listed(folder: Path, path: Path) -> list[_Entry]:
    names = [line for line in read_lines(path) if line]
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise DataError(f"{path} has some images more than once, {some(twice)}; remove them.")
    return [
        _entry(folder / "Annotations" / f"{safe_name(name, f'{path}')}.xml", name, path)
        for name in names
    ]


def _entry(path: Path, name: str, listed_in: Path) -> _Entry:
    if not path.is_file():
        raise DataError(f"{listed_in} lists {name}, but there is no {path}; add it or unlist it.")
    root = parse_xml(path)
    if root.tag != "annotation":
        raise DataError(f"{path} holds <{root.tag[:60]}>; expected {_EXPECTED} in <annotation>.")
    difficult, objects = 0, []
    for number, element in enumerate(root.findall("object"), start=1):
        where = f"{path}, object number {number},"
        label = (element.findtext("name") or "").strip()
        if not label:
            raise DataError(f"{where} has no name; expected {_EXPECTED}.")
        objects.append((class_name(label, where), _corners(where, element)))
        difficult += (element.findtext("difficult") or "0").strip() == "1"
    size = pixel_size(root.findtext("size/width"), root.findtext("size/height"))
    return _Entry(name, (root.findtext("filename") or "").strip(), size, objects, difficult)


def _corners(where: str, element: Any) -> tuple[float, float, float, float]:
    numbers = []
    for key in ("xmin", "ymin", "xmax", "ymax"):
        text = element.findtext(f"bndbox/{key}")
        try:
            number = float(text)
        except (TypeError, ValueError):
            number = math.nan
        if not abs(number) <= MAX_SIDE:  # NaN too
            raise DataError(f"{where} has {key} {text!a}; expected a number: correct it.")
        numbers.append(number)
    x1, y1, x2, y2 = numbers
    return x1 - FIRST_PIXEL, y1 - FIRST_PIXEL, x2 - FIRST_PIXEL + 1, y2 - FIRST_PIXEL + 1


def _split(
    folder: Path,
    entries: list[_Entry],
    classes: tuple[str, ...],
    finder: ImageFinder,
    listed_in: Path,
) -> DetectionSplit:
    counts: Counter[str] = Counter()
    images = []
    for entry in entries:
        file = finder.find_stem(entry.name, _ENDINGS)
        if file is None and entry.filename:
            where = f"{folder / 'Annotations' / entry.name}.xml"
            file = finder.find(safe_name(entry.filename, where))
        size = entry.size or (size_of_annotated(file) if file is not None else None)
        if size is None:
            raise DataError(
                f"{folder / 'Annotations' / entry.name}.xml has no proper size and there is no "
                f"image {entry.name} in {folder / 'JPEGImages'}; add one of them."
            )
        boxes = [RawBox(corners, classes.index(name) + 1) for name, corners in entry.objects]
        name = file.name if file is not None else entry.filename or entry.name
        images.append(make_image(entry.name, name, file, size, boxes, counts))
        counts.update({DIFFICULT: entry.difficult} if entry.difficult else {})
    files = [listed_in, *(folder / "Annotations" / f"{entry.name}.xml" for entry in entries)]
    return DetectionSplit(images, files, counts)


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree; stops at a document type, before any entity is declared or fetched."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse it."""
        raise ValueError("it declares a document type, as entity bombs do")


def parse_xml(path: Path) -> ElementTree.Element:
    """Read an XML file that may declare no entities.

    Raises:
        DataError: it can't be read, is no XML, or has a document type.
    """
    with reading(path):
        content = path.read_bytes()
    try:
        parser = ElementTree.XMLParser(target=_NoDoctype())
        parser.feed(content)
        return parser.close()
    except (ElementTree.ParseError, ValueError, LookupError, RecursionError) as error:
        raise DataError(
            f"{path} is no XML that can be read ({error}); expected {_EXPECTED}."
        ) from error
