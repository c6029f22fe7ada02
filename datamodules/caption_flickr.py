"""Flickr captions as text: ``captions.txt`` of Kaggle and the original ``*.token.txt``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .caption_records import CaptionImage, CaptionSet, finish, simple_tokens
from .errors import DataError
from .files import csv_rows, read_lines

_HEADER = "image,caption"
_EXPECTED = "lines of image,caption below that header, or of IMAGE#NUMBER, a tab and the caption"


def is_flickr_text(path: Path) -> bool:
    """Tell by the first line whether a text file holds captions in one of the two forms."""
    try:
        first = next(iter(read_lines(path)))
    except DataError:
        return False
    return _is_csv(first) or "#" in first.partition("\t")[0]


def read_flickr(path: Path) -> CaptionSet:
    """Read one file; the id of an image is its file name without the ending, splits are empty.

    Raises:
        DataError: no such file, or a line that is no caption, with its number.
    """
    images: dict[str, CaptionImage] = {}
    for name, text in _rows(path):
        ident = name.rpartition(".")[0] or name
        image = images.setdefault(ident, CaptionImage(ident, "", name, [], []))
        if image.file_name != name:
            raise DataError(
                f"{path} has both {image.file_name} and {name}; without their endings they are one "
                "image: rename one."
            )
        text = " ".join(text.split())
        image.tokens.append(simple_tokens(text))
        image.raw.append(text)
    return finish(path, "captions.txt", images.values())


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    lines = read_lines(path)
    first = next(lines)
    if _is_csv(first):
        for number, fields in csv_rows(path, lines, first=2):
            name, text = fields[0].strip(), ",".join(fields[1:])
            if len(fields) < 2 or not name:
                raise _bad(path, number)
            yield name, text
        return
    for number, line in enumerate([first, *lines], start=1):
        label, tab, text = line.partition("\t")
        name, mark, _ = label.rpartition("#")
        if not tab or not mark:
            raise _bad(path, number)
        yield name, text


def _is_csv(line: str) -> bool:
    return line.lower().replace(" ", "") == _HEADER


def _bad(path: Path, number: int) -> DataError:
    return DataError(f"{path}, line {number}, is no caption; expected {_EXPECTED}.")
