"""The TSV files of bottom-up attention: one image a line, boxes and features in base64."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..caption_files import head_of, refuse_html
from ..errors import DataError
from ..files import reading
from .item import FeatureItem

_EXPECTED = "tab-separated image_id, image_w, image_h, num_boxes, boxes, features"
# Place of each value by the number of columns; the longer form is the one with objects and
# attributes, which has the height before the width.
_COLUMNS = {
    6: {"id": 0, "width": 1, "height": 2, "count": 3, "boxes": 4, "features": 5},
    10: {"id": 0, "height": 1, "width": 2, "count": 7, "boxes": 8, "features": 9},
}


class TsvFiles:
    """One set of features in one or several TSV files without a header.

    Args:
        paths: the files, in order.
    """

    layout = "bottom-up TSV"

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image.

        Raises:
            DataError: a line that can't be read, with its number.
        """
        for path in self.paths:
            refuse_html(path, head_of(path), _EXPECTED)
            with reading(path), path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    name = line.partition(b"\t")[0].decode("latin-1").strip()
                    if wanted is None or name in wanted:
                        yield _item(path, number, name, line)


def _item(path: Path, number: int, name: str, line: bytes) -> FeatureItem:
    fields = line.rstrip(b"\r\n").split(b"\t")
    columns = _COLUMNS.get(len(fields))
    if columns is None:
        raise DataError(
            f"{path}, line {number}, has {len(fields)} columns; expected {_EXPECTED}, 6 in all."
        )
    try:
        count = int(fields[columns["count"]])
        size = int(fields[columns["width"]]), int(fields[columns["height"]])
        boxes = _floats(fields[columns["boxes"]]).reshape(count, 4)
        features = _floats(fields[columns["features"]]).reshape(count, -1)
    except (ValueError, binascii.Error) as error:
        raise DataError(
            f"{path}, line {number}, is cut off or damaged (image {name}); expected {_EXPECTED}."
        ) from error
    return FeatureItem(name, features, boxes, size)


def _floats(field: bytes) -> np.ndarray:
    return np.frombuffer(binascii.a2b_base64(field), "<f4")
