"""Features in one HDF5 file: Meshed-Memory's three data sets an image, or one data set an image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from ..caption_files import head_of, refuse_html
from ..errors import DataError
from .folders import rows_of
from .item import FeatureItem

MAGIC = b"\x89HDF\r\n\x1a\n"
_EXPECTED = "an HDF5 file with <id>_features and <id>_boxes, or one data set named by each id"
_FEATURES, _BOXES = "_features", "_boxes"


class Hdf5File:
    """An HDF5 file; images that it lacks are simply not given.

    Args:
        path: the file.

    Raises:
        DataError: it is none.
    """

    def __init__(self, path: Path) -> None:
        head = head_of(path)
        refuse_html(path, head, _EXPECTED)
        if not head.startswith(MAGIC):
            raise DataError(
                f"{path} is no HDF5 file (it starts with {head[:4].hex(' ')}); expected "
                f"{_EXPECTED}: copy it again."
            )
        self.path = path
        self.layout = "HDF5"

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for a damaged file."""
        try:
            with h5py.File(self.path, "r") as file:
                for key in map(str, file):
                    name = key.removesuffix(_FEATURES)
                    if key.endswith((_BOXES, "_cls_prob")) or not _is_wanted(name, wanted):
                        continue
                    yield self._item(file, key, name)
        except DataError:
            raise
        except Exception as error:  # a damaged file makes the library raise anything
            raise DataError(f"{self.path} is damaged or cut off; copy it again.") from error

    def _item(self, file: h5py.File, key: str, name: str) -> FeatureItem:
        boxes = None
        if key.endswith(_FEATURES) and f"{name}{_BOXES}" in file:
            boxes = np.asarray(file[f"{name}{_BOXES}"])
        found = file[key]
        if not isinstance(found, h5py.Dataset):
            raise DataError(f"{self.path} has a group {key!r}; expected {_EXPECTED}.")
        return FeatureItem(name, rows_of(np.asarray(found)), boxes)


def _is_wanted(name: str, wanted: frozenset[str] | None) -> bool:
    return wanted is None or name in wanted
