"""The packed store: all regions of all images in one flat file that is mapped into memory.

A store is a folder with

- ``features.bin``: the rows of all images one after the other, C order, little endian;
- ``boxes.bin``: x1, y1, x2, y2 in pixels for each row, float32, if there are boxes;
- ``index.npz``: ``rows`` (first row of each image and, last, the number of rows) and ``sizes``
  (width, height; 0 where unknown);
- ``ids.json``: the images' names in order;
- ``header.json``: shape, type, hashes and where it came from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import DataError
from ..files import reading

FORMAT = "attnbench features 1"
HEADER, INDEX, IDS = "header.json", "index.npz", "ids.json"
FEATURES, BOXES = "features.bin", "boxes.bin"


class StoreHeader(BaseModel):
    """What a store says about itself.

    Attributes:
        format: name and version of the format.
        layout: where the features came from: a public layout or a backbone.
        images: number of images.
        rows: regions of all images.
        dim: features of a region.
        dtype: ``float16`` or ``float32``.
        boxes: whether there is a box for each row.
        regions: fewest and most regions of an image.
        sha256: hashes of the files.
        notes: what was counted on the way.
    """

    model_config = ConfigDict(extra="forbid")

    format: str
    layout: str
    images: int
    rows: int
    dim: int
    dtype: str
    boxes: bool
    regions: tuple[int, int]
    sha256: dict[str, str]
    notes: list[str]


@dataclass(frozen=True)
class Regions:
    """Features of B images, padded to the most regions N.

    Attributes:
        features_BNF: float32, zeros in padding.
        valid_BN: True at real regions.
        boxes_BN4: float32, zeros in padding; None without boxes.
    """

    features_BNF: np.ndarray
    valid_BN: np.ndarray
    boxes_BN4: np.ndarray | None


class FeatureStore:
    """An opened store.

    Args:
        folder: the store.

    Raises:
        DataError: it is no store, a file of it is missing or has another size than its header says.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = _header(folder)
        with reading(folder):
            try:
                with np.load(folder / INDEX, allow_pickle=False) as index:
                    self.rows, self.sizes = index["rows"], index["sizes"]
                self.ids: list[str] = json.loads((folder / IDS).read_text(encoding="utf-8"))
            except OSError:
                raise
            except Exception as error:  # a damaged archive makes the library raise anything
                raise _damaged(folder, "its index can't be read") from error
            self._features = self._map(FEATURES, self.header.dtype, self.header.dim)
            self._boxes = self._map(BOXES, "float32", 4) if self.header.boxes else None
        whole = len(self.rows) == len(self.ids) + 1 == len(self.sizes) + 1
        if not whole or self.rows[-1] != self.header.rows:
            raise _damaged(folder, "index and header disagree")
        self.places = {name: number for number, name in enumerate(self.ids)}

    def _map(self, name: str, dtype: str, width: int) -> np.ndarray:
        path, shape = self.folder / name, (self.header.rows, width)
        expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if path.stat().st_size != expected:
            raise _damaged(
                self.folder, f"{name} has {path.stat().st_size:,} bytes instead of {expected:,}"
            )
        mapped = np.memmap(path, np.dtype(dtype).newbyteorder("<"), "r", shape=shape)
        return np.asarray(mapped)  # a plain array over the same memory is sliced much faster

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.ids)

    @property
    def dim(self) -> int:
        """Features of a region."""
        return self.header.dim

    @property
    def has_boxes(self) -> bool:
        """Whether every region has a box."""
        return self.header.boxes

    def of(self, number: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Give one image's features (N, F) as stored and its boxes, without copying."""
        first, last = self.rows[number], self.rows[number + 1]
        boxes = None if self._boxes is None else self._boxes[first:last]
        return self._features[first:last], boxes

    def gather(self, numbers: np.ndarray, max_regions: int | None = None) -> Regions:
        """Give B images, by number, as one padded batch; of each the first `max_regions`."""
        first_B = self.rows[numbers]
        count_B = self.rows[numbers + 1] - first_B
        if max_regions is not None:
            count_B = np.minimum(count_B, max_regions)
        most = int(count_B.max(initial=1))
        features_BNF = _padded(self._features, first_B, count_B, most)
        boxes_BN4 = None if self._boxes is None else _padded(self._boxes, first_B, count_B, most)
        valid_BN = np.arange(most)[None, :] < count_B[:, None]
        return Regions(features_BNF, valid_BN, boxes_BN4)

    def verify(self) -> None:
        """Read all of it and compare the hashes.

        Raises:
            DataError: a file isn't what it was when the store was made.
        """
        for name, expected in self.header.sha256.items():
            with reading(self.folder), (self.folder / name).open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != expected:
                raise _damaged(self.folder, f"the hash of {name} is not the one in {HEADER}")


def is_store(folder: Path) -> bool:
    """Tell whether a folder is a packed store."""
    try:
        return json.loads((folder / HEADER).read_text(encoding="utf-8"))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _header(folder: Path) -> StoreHeader:
    with reading(folder):
        content = (folder / HEADER).read_bytes()
    try:
        header = StoreHeader.model_validate_json(content)
    except ValidationError as error:
        raise _damaged(folder, f"{HEADER} is not that of a store") from error
    if header.format != FORMAT:
        raise _damaged(folder, f"its format is {header.format!r} instead of {FORMAT!r}")
    return header


def _damaged(folder: Path, why: str) -> DataError:
    return DataError(f"{folder} is no complete store of features: {why}; pack it again.")


def _padded(rows: np.ndarray, first_B: np.ndarray, count_B: np.ndarray, most: int) -> np.ndarray:
    """Copy runs of rows into (B, most, width), float32, zeros behind each."""
    out = np.empty((len(first_B), most, rows.shape[1]), np.float32)
    for place, (first, count) in enumerate(zip(first_B.tolist(), count_B.tolist(), strict=True)):
        out[place, :count] = rows[first : first + count]
        out[place, count:] = 0.0
    return out


def header_facts(header: StoreHeader) -> dict[str, Any]:
    """Give what a card shows of a store."""
    fewest, most = header.regions
    return {
        "layout": header.layout,
        "dim": header.dim,
        "dtype": header.dtype,
        "boxes": header.boxes,
        "regions": str(most) if fewest == most else f"{fewest} to {most}",
        "images": header.images,
        "sha256": header.sha256[FEATURES],
    }
