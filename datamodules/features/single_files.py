"""Features of all images in one LMDB data base or one torch file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .folders import npz_item, rows_of
from .item import FeatureItem

_LMDB_VALUES = "keys that are image ids and values that are the bytes of an npy or npz file"
_TORCH = "a torch file with a dictionary from image id to array"


class LmdbFile:
    """An LMDB data base, as a file or as a folder.

    Args:
        path: the file, or the folder with ``data.mdb``.

    Raises:
        DataError: the library isn't installed.
    """

    layout = "LMDB"

    def __init__(self, path: Path) -> None:
        try:
            import lmdb
        except ImportError:
            raise DataError(
                f"{path} is an LMDB data base, which needs the extra `features`: "
                "pip install 'attnbench[features]'."
            ) from None
        self._lmdb = lmdb
        self.path = path

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for values that are no arrays."""
        lmdb = self._lmdb
        try:
            with (
                lmdb.open(
                    str(self.path), subdir=self.path.is_dir(), readonly=True, lock=False
                ) as env,
                env.begin() as view,
            ):
                self._refuse_cut_off(env.info()["last_pgno"] + 1, env.stat()["psize"])
                for key, value in view.cursor():
                    name = bytes(key).decode("utf-8", "replace")
                    if not name.startswith("__") and (wanted is None or name in wanted):
                        yield self._item(name, bytes(value))
        except lmdb.Error as error:
            raise DataError(f"{self.path} is damaged or no LMDB data base: {error}.") from error

    def _refuse_cut_off(self, pages: int, page_bytes: int) -> None:
        """Raise DataError if pages are missing: reading one would end the whole process."""
        path = self.path / "data.mdb" if self.path.is_dir() else self.path
        if path.stat().st_size < pages * page_bytes:
            raise DataError(
                f"{path} is cut off: {path.stat().st_size:,} bytes instead of at least "
                f"{pages * page_bytes:,}; copy it again."
            )

    def _item(self, name: str, value: bytes) -> FeatureItem:
        try:
            loaded = np.load(io.BytesIO(value), allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return FeatureItem(name, rows_of(loaded))
            with loaded:
                return npz_item(name, self.path, {key: loaded[key] for key in loaded.files})
        except DataError:
            raise
        except Exception as error:  # a damaged value makes the library raise anything
            raise DataError(
                f"{self.path}, image {name}: the value is no array; expected {_LMDB_VALUES}."
            ) from error


class TorchFile:
    """A file of ``torch.save`` with a dictionary of arrays or tensors; never unpickles more.

    Args:
        path: the file.
    """

    layout = "torch file"

    def __init__(self, path: Path) -> None:
        self.path = path

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for anything else in the file."""
        for key, value in self._load().items():
            name = str(key)
            if wanted is not None and name not in wanted:
                continue
            yield FeatureItem(name, rows_of(self._array(name, value)))

    def _array(self, name: str, value: Any) -> np.ndarray:
        import torch

        if isinstance(value, torch.Tensor):
            dense = value.detach().to_dense()
            return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
        if not isinstance(value, np.ndarray):
            raise DataError(f"{self.path}, image {name}, is no array; expected {_TORCH}.")
        return value

    def _load(self) -> dict[Any, Any]:
        import torch

        try:
            with torch.serialization.safe_globals(_numpy_globals()):
                # Files of the newer form are mapped, so that tensors stay on disk until used.
                mapped = zipfile.is_zipfile(self.path)
                found = torch.load(self.path, map_location="cpu", weights_only=True, mmap=mapped)
        except Exception as error:
            raise DataError(
                f"{self.path} is damaged, or holds more than plain arrays; expected {_TORCH}."
            ) from error
        if not isinstance(found, dict):
            raise DataError(f"{self.path} holds a {type(found).__name__}; expected {_TORCH}.")
        return found


def _numpy_globals() -> list[Any]:
    """Name what a pickled array of numbers consists of, under the names of all numpy versions."""
    from numpy.dtypes import Float16DType, Float32DType, Float64DType

    rebuild = np.zeros(1).__reduce__()[0]  # pyright: ignore[reportIndexIssue]
    old = "numpy.core.multiarray._reconstruct"
    new = "numpy._core.multiarray._reconstruct"
    return [
        np.ndarray,
        np.dtype,
        (rebuild, old),
        (rebuild, new),
        Float16DType,
        Float32DType,
        Float64DType,
    ]
