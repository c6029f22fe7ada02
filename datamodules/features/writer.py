"""Writing a store: image after image, into a temporary folder that is renamed at the end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from ..errors import DataError
from .item import FeatureItem, checked
from .store import BOXES, FEATURES, FORMAT, HEADER, IDS, INDEX, FeatureStore, StoreHeader, is_store

FeatureType = Literal["float16", "float32"]


def write_store(
    folder: Path,
    items: Iterable[FeatureItem],
    *,
    layout: str,
    dtype: FeatureType = "float32",
    place: str = "",
    replace: bool = False,
) -> FeatureStore:
    """Write a store in one step and open it; whatever stops it leaves nothing behind.

    Args:
        folder: the store's place.
        items: the images; of one that comes again, the first is kept and the others are counted.
        layout: where they come from, for people.
        dtype: type of the stored values; ``float16`` halves the size.
        place: the source's path, for errors.
        replace: whether a store that lies there already is replaced; otherwise, and where two
            processes write the same one, the first stays and is opened.

    Raises:
        DataError: an item that can't be used, no item at all, or the folder can't be written.
    """
    work = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Hidden, so that what a killed process leaves is taken for no store.
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        new = work / "new"
        new.mkdir()
        _Writer(new, dtype, layout, place or layout).write(items)
        if replace and is_store(folder):
            _swap(new, folder, work / "old")
        elif not is_store(folder):  # otherwise another process was first
            _rename(new, folder)
    except OSError as error:
        raise DataError(
            f"{folder} can't be written: {error.strerror or error}; give another folder."
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
    return FeatureStore(folder)


def _swap(new: Path, folder: Path, old: Path) -> None:
    """Put a store in the place of another, which is there again if that fails."""
    os.rename(folder, old)
    try:
        _rename(new, folder)
    except OSError:
        os.rename(old, folder)
        raise


def _rename(work: Path, folder: Path) -> None:
    try:
        os.rename(work, folder)
    except OSError:
        if not is_store(folder):
            raise


class _Writer:
    def __init__(self, work: Path, dtype: FeatureType, layout: str, place: str) -> None:
        self._work, self._dtype, self._layout, self._place = work, np.dtype(dtype), layout, place
        self._hashes = {FEATURES: hashlib.sha256(), BOXES: hashlib.sha256()}
        self._ids: dict[str, None] = {}
        self._counts: list[int] = []
        self._sizes: list[tuple[int, int]] = []
        self._dim = 0
        self._boxes: bool | None = None
        self._again = self._flat = self._outside = 0

    def write(self, items: Iterable[FeatureItem]) -> None:
        with (self._work / FEATURES).open("wb") as features, (self._work / BOXES).open("wb") as box:
            for item in items:
                if item.id in self._ids:
                    self._again += 1
                    continue
                self._add(checked(self._place, item), features, box)
            for stream in (features, box):
                stream.flush()
                os.fsync(stream.fileno())
        if not self._ids:
            raise DataError(f"{self._place} has none of the wanted images; nothing was packed.")
        if not self._boxes:
            (self._work / BOXES).unlink()
        self._finish()

    def _add(self, item: FeatureItem, features: BinaryIO, boxes: BinaryIO) -> None:
        count, dim = item.features_NF.shape
        has_boxes = item.boxes_N4 is not None
        if self._boxes is None:
            self._dim, self._boxes = dim, has_boxes
        if dim != self._dim:
            raise DataError(
                f"{self._place}, image {item.id}: {dim} features a region, but {self._dim} in the "
                "images before it; pack only features of one kind."
            )
        if has_boxes != self._boxes:
            raise DataError(
                f"{self._place}, image {item.id}: boxes are {'there' if has_boxes else 'missing'}, "
                "unlike in the images before it; pack all with boxes or all without."
            )
        self._put(FEATURES, features, self._typed(item))
        if item.boxes_N4 is not None:
            self._put(BOXES, boxes, item.boxes_N4.astype("<f4", copy=False))
            self._count_boxes(item.boxes_N4, item.size)
        self._ids[item.id] = None
        self._counts.append(count)
        self._sizes.append(item.size or (0, 0))

    def _typed(self, item: FeatureItem) -> np.ndarray:
        with np.errstate(over="ignore"):
            typed = item.features_NF.astype(self._dtype.newbyteorder("<"), copy=False)
        if not np.isfinite(typed).all():
            raise DataError(
                f"{self._place}, image {item.id}: a value is too large for {self._dtype}; "
                "pack it with dtype=float32."
            )
        return typed

    def _put(self, name: str, stream: BinaryIO, array: np.ndarray) -> None:
        content = np.ascontiguousarray(array).tobytes()
        self._hashes[name].update(content)
        stream.write(content)

    def _count_boxes(self, boxes_N4: np.ndarray, size: tuple[int, int] | None) -> None:
        x1, y1, x2, y2 = boxes_N4.T
        self._flat += int(((x2 <= x1) | (y2 <= y1)).sum())
        if size is not None:
            width, height = size
            out = (x1 < -1) | (y1 < -1) | (x2 > width + 1) | (y2 > height + 1)
            self._outside += int(out.sum())

    def _notes(self) -> list[str]:
        counted = {
            "images that came again left out": self._again,
            "boxes of no width or height": self._flat,
            "boxes that reach over the edge of their image": self._outside,
        }
        return [f"{number:,} {what}" for what, number in counted.items() if number]

    def _finish(self) -> None:
        rows = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int64)
        with (self._work / INDEX).open("wb") as stream:
            np.savez(stream, rows=rows, sizes=np.array(self._sizes, np.int32))
        (self._work / IDS).write_text(json.dumps(list(self._ids)), encoding="utf-8")
        header = StoreHeader(
            format=FORMAT,
            layout=self._layout,
            images=len(self._ids),
            rows=int(rows[-1]),
            dim=self._dim,
            dtype=self._dtype.name,
            boxes=bool(self._boxes),
            regions=(min(self._counts), max(self._counts)),
            sha256={
                name: digest.hexdigest()
                for name, digest in self._hashes.items()
                if name == FEATURES or self._boxes
            },
            notes=self._notes(),
        )
        (self._work / HEADER).write_text(header.model_dump_json(indent=1), encoding="utf-8")
        for path in self._work.iterdir():
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
