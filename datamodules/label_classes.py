"""The classes of a data set that brings a list of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .class_names import class_name
from .errors import DataError
from .files import csv_rows, read_lines
from .segmentation_records import colours

_MOST = 200
_LARGEST = 65_535


@dataclass(frozen=True)
class ClassList:
    """Classes in order.

    Attributes:
        source: where the list is from, for messages.
        values: the value in label files that stands for each class.
        names: their names.
        palette: red, green and blue of each, for pictures.
        void: values that are ignored.
    """

    source: str
    values: tuple[int, ...]
    names: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...]
    void: frozenset[int]


def read_classes(path: Path, void: Collection[int]) -> ClassList:
    """Read a list of classes: a name a line, for the values from 0 on, or ``value,name[,r,g,b]``.

    Args:
        path: the file.
        void: values that are ignored; a line of the file may name them too.

    Raises:
        DataError: the file can't be read, a line is neither, or values or names come twice.
    """
    rows = [(number, list(map(str.strip, row))) for number, row in csv_rows(path, read_lines(path))]
    rows = [(number, row) for number, row in rows if any(row)]
    listed = any(len(row) > 1 for _, row in rows)
    found: dict[int, tuple[str, tuple[int, int, int] | None]] = {}
    for place, (number, row) in enumerate(rows):
        where = f"{path}, line {number}"
        if listed and len(row) not in (2, 5):
            raise DataError(
                f"{where}, has {len(row)} fields; expected value,name or "
                "value,name,red,green,blue on every line."
            )
        value = _number(row[0], where, _LARGEST) if listed else place
        name = row[1] if listed else row[0]
        colour = tuple(_number(field, where, 255) for field in row[2:]) if len(row) == 5 else None
        if value in found:
            raise DataError(f"{where}: value {value} is listed twice; keep one.")
        class_name(name, f"{where},")
        if any(_spelled(name) == _spelled(other) for other, _ in found.values()):
            raise DataError(
                f"{where}: the name {name!r} is listed twice, or differs from another one in "
                "spaces and _ alone; change it."
            )
        found[value] = (name, colour)  # type: ignore[assignment]
    return _made(path, found, void)


def _made(
    path: Path,
    found: dict[int, tuple[str, tuple[int, int, int] | None]],
    void: Collection[int],
) -> ClassList:
    values = [value for value in found if value not in void]
    if not 1 <= len(values) <= _MOST:
        raise DataError(
            f"{path} lists {len(values)} classes that aren't void; 1 to {_MOST} can be told apart."
        )
    made = colours(len(values))
    given: Sequence[tuple[int, int, int] | None] = [found[value][1] for value in values]
    return ClassList(
        source=str(path),
        values=tuple(values),
        names=tuple(found[value][0] for value in values),
        palette=tuple(colour or own for colour, own in zip(given, made, strict=True)),
        void=frozenset(void),
    )


def _spelled(name: str) -> str:
    """Give the name as metrics have it, without spaces."""
    return "_".join(name.split())


def _number(text: str, where: str, largest: int) -> int:
    # Not converted where it is longer: Python refuses thousands of digits.
    if not text.isdecimal() or len(text.lstrip("0")) > len(str(largest)) or int(text) > largest:
        raise DataError(
            f"{where}: {text[:60]!r} is no whole number from 0 to {largest:,}; correct it."
        )
    return int(text)
