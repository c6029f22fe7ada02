"""Packing: from features in any layout, or images, to a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ..caption_records import CaptionImage
from ..errors import DataError
from ..files import reading
from .detect import LAYOUTS, find_features, open_source
from .extract import ImageFeatures
from .matching import possible_names
from .store import FeatureStore, is_store
from .writer import FeatureType, write_store

PACKED = "features.packed"
"""Name of the store in a data set's own folder."""

Progress = Callable[[int], None]


def pack_features(
    images: Sequence[CaptionImage],
    source: Path,
    folder: Path,
    *,
    dtype: FeatureType = "float32",
    replace: bool = False,
) -> FeatureStore:
    """Pack the features of some images; only one image is in memory at a time.

    Raises:
        DataError: a layout or file that can't be read, or a folder that can't be written.
    """
    opened = open_source(source)
    items = opened.items(possible_names(images))
    return write_store(
        folder, items, layout=opened.layout, dtype=dtype, place=str(source), replace=replace
    )


def extract_features(
    images: Sequence[CaptionImage],
    root: Path,
    folder: Path,
    *,
    backbone: str,
    weights: Path | None = None,
    dtype: FeatureType = "float32",
    replace: bool = False,
    progress: Progress | None = None,
) -> FeatureStore:
    """Make grid features of image files below a folder and pack them.

    Raises:
        DataError: an unknown backbone, images that aren't there or can't be read, or a folder that
            can't be written.
    """
    source = ImageFeatures(images, root, backbone, weights, progress=progress)
    return write_store(
        folder,
        source.items(),
        layout=source.layout,
        dtype=dtype,
        place=str(root),
        replace=replace,
    )


def choose_features(root: Path, given: Path | None, *, packed: bool = True) -> Path | None:
    """Give the place of the features: as set, or the only one found; None if there is none.

    Args:
        root: the data set's folder.
        given: the place that was set, if any; taken as relative to root where it is there.
        packed: whether a packed store is looked for first, or never taken.

    Raises:
        DataError: several are found, or the one that was set isn't there.
    """
    if given is not None:
        path = root / given if (root / given).exists() else given
        if not path.exists():
            raise DataError(f"{given} is not there; features= must name {LAYOUTS}.")
        return path
    found = find_features(root, packed=packed)
    if len(found) > 1:
        names = ", ".join(path.relative_to(root).as_posix() or "." for path in found)
        raise DataError(f"{root} has several features ({names}); name one with features=.")
    return found[0] if found else None


def source_key(path: Path, images: Sequence[CaptionImage], extra: str = "") -> str:
    """Give a short hash of which files lie in a place (names, sizes, times) and of the images."""
    digest = hashlib.sha256(extra.encode())
    digest.update(str(path.resolve()).encode())
    with reading(path):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and not is_store(file.parent):
                state = file.stat()
                digest.update(f"{file}|{state.st_size}|{state.st_mtime_ns}\n".encode())
    digest.update("\n".join(sorted(possible_names(images))).encode())
    return digest.hexdigest()[:24]


def total_bytes(path: Path) -> int:
    """Add up the files in a place."""
    with reading(path):
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
