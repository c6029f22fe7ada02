"""Features with one file an image: npz in three forms, npy with boxes in a folder beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ..caption_files import head_of, refuse_html
from ..errors import DataError
from ..files import reading
from .item import FeatureItem

_NPZ = "an npz file with feat, z or x"
_NPY = "an npy file with an array of features"


class NpzFolder:
    """One npz an image: self-critical's ``feat`` or ``z``, or MCAN's ``x`` (transposed) and bbox.

    Args:
        folder: the files.
        boxes: folder with one npy of boxes an image, where they aren't in the npz.
    """

    layout = "npz an image"

    def __init__(self, folder: Path, boxes: Path | None = None) -> None:
        self.folder, self._boxes = folder, boxes

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for a file that can't be read."""
        for name, path in _files(self.folder, "npz").items():
            if wanted is None or name in wanted:
                item = npz_item(name, path, load(path, _NPZ))
                yield _with_boxes(item, self._boxes)


class NpyFolder:
    """One npy of features an image, boxes in a second folder with the same names.

    Args:
        folder: the files.
        boxes: folder of the boxes, if any.
    """

    layout = "npy an image"

    def __init__(self, folder: Path, boxes: Path | None = None) -> None:
        self.folder, self._boxes = folder, boxes

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for a file that can't be read."""
        for name, path in _files(self.folder, "npy").items():
            if wanted is None or name in wanted:
                features = rows_of(load(path, _NPY)["array"])
                yield _with_boxes(FeatureItem(name, features), self._boxes)


def _files(folder: Path, ending: str) -> dict[str, Path]:
    """Give the files of a folder by their image's name, sorted.

    Raises:
        DataError: two files of the same image.
    """
    with reading(folder):
        paths = sorted(folder.glob(f"*.{ending}"))
    found: dict[str, Path] = {}
    for path in paths:
        name = image_name(path)
        if name in found:
            raise DataError(f"{folder} has image {name} twice: {found[name].name} and {path.name}.")
        found[name] = path
    return found


def image_name(path: Path) -> str:
    """Give the image's name for a file: MCAN's ``COCO_val2014_000000000042.jpg.npz`` gives 42."""
    stem = path.name.rpartition(".")[0]
    inner, _, ending = stem.rpartition(".")
    if inner and ending.lower() in ("jpg", "jpeg", "png"):
        last = inner.rpartition("_")[2]
        return str(int(last)) if inner.startswith("COCO_") and last.isdecimal() else inner
    return stem


def load(path: Path, expected: str) -> dict[str, np.ndarray]:
    """Read all arrays of an npz, or the one of an npy as ``array``, without unpickling.

    Raises:
        DataError: the file is missing, cut off, HTML, or holds pickled objects.
    """
    refuse_html(path, head_of(path), expected)
    try:
        with reading(path):
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"array": loaded}
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except DataError:
        raise
    except Exception as error:  # a damaged file makes the library raise anything
        raise DataError(
            f"{path} is cut off, or holds something else than plain arrays; expected {expected}: "
            "copy it again."
        ) from error


def npz_item(name: str, path: Path, arrays: Mapping[str, np.ndarray]) -> FeatureItem:
    """Turn the arrays of an npz into features by the names they have.

    Raises:
        DataError: none of the known names, or arrays of another kind than these should be.
    """
    try:
        return _npz_item(name, path, arrays)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        shapes = ", ".join(f"{key} {array.dtype}{array.shape}" for key, array in arrays.items())
        raise DataError(
            f"{path}, image {name}, has arrays that don't fit together ({shapes}); expected {_NPZ}."
        ) from error


def _npz_item(name: str, path: Path, arrays: Mapping[str, np.ndarray]) -> FeatureItem:
    boxes = arrays.get("bbox", arrays.get("boxes"))
    size = _size(arrays)
    if "x" in arrays:
        features = np.asarray(arrays["x"])
        if features.ndim == 2:
            features = features.T  # MCAN has the feature dimension first
        used = _unpadded(features, boxes, arrays.get("num_bbox"))
        boxes = None if boxes is None else np.asarray(boxes)[:used]
        return FeatureItem(name, features[:used], boxes, size)
    for key in ("feat", "z", "features"):
        if key in arrays:
            return FeatureItem(name, rows_of(arrays[key]), boxes, size)
    known = f"only {', '.join(arrays)}" if arrays else "no arrays"
    raise DataError(f"{path} has {known}; expected {_NPZ}.")


def _size(arrays: Mapping[str, np.ndarray]) -> tuple[int, int] | None:
    for width, height in (("image_w", "image_h"), ("width", "height")):
        if width in arrays and height in arrays:
            return int(arrays[width]), int(arrays[height])
    return None


def _unpadded(features: np.ndarray, boxes: np.ndarray | None, count: np.ndarray | None) -> int:
    """Count the real regions: padding rows are all zeros and have no box."""
    if boxes is not None and len(boxes) < len(features):
        return len(boxes)
    if count is not None and 0 < int(count) < len(features):
        return int(count)
    real = np.flatnonzero(np.abs(features).sum(-1)) if features.ndim == 2 else np.empty(0, int)
    return int(real[-1]) + 1 if len(real) else len(features)


def rows_of(features: np.ndarray) -> np.ndarray:
    """Give (N, F): a grid (H, W, F) row by row, one vector (F) as a single region."""
    if features.ndim == 1:
        return features[None, :]
    return features.reshape(-1, features.shape[-1]) if features.ndim == 3 else features


def _with_boxes(item: FeatureItem, folder: Path | None) -> FeatureItem:
    if item.boxes_N4 is not None or folder is None:
        return item
    path = folder / f"{item.id}.npy"
    boxes = load(path, "an npy file with the boxes of one image")["array"]
    return FeatureItem(item.id, item.features_NF, boxes, item.size)
