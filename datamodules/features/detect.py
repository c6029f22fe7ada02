"""Which features lie in a place, told by content."""

from __future__ import annotations

import re
from pathlib import Path

from ..caption_files import head_of, refuse_html
from ..errors import DataError
from ..files import reading
from .folders import NpyFolder, NpzFolder
from .hdf5 import MAGIC as HDF5_MAGIC
from .hdf5 import Hdf5File
from .item import Source
from .single_files import LmdbFile, TorchFile
from .store import is_store
from .tsv import TsvFiles

LAYOUTS = (
    "a packed store, bottom-up TSV, a folder of npz or npy files, an HDF5 file, an LMDB data base "
    "or a torch file"
)
_TSV = re.compile(r"\.tsv(\.\d+)?$")
_NOT_REGIONS = re.compile(r"(_fc|_box|_box_relative|^box(es)?)$")
_LMDB_MAGIC = bytes.fromhex("dec0efbe")


def open_source(path: Path) -> Source:
    """Open features in a public layout.

    Raises:
        DataError: none of the layouts, an HTML page, or nothing there.
    """
    if path.is_dir():
        return _open_folder(path)
    head = head_of(path)
    refuse_html(path, head, LAYOUTS)
    if head.startswith(HDF5_MAGIC) or path.suffix in (".h5", ".hdf5"):
        return Hdf5File(path)
    if head[16:20] == _LMDB_MAGIC:
        return LmdbFile(path)
    if path.suffix in (".npz", ".npy"):
        raise DataError(f"{path} has the features of one image; give its folder, {path.parent}.")
    if head.startswith((b"PK", b"\x80")):
        return TorchFile(path)
    if _TSV.search(path.name) or (b"\t" in head and head.isascii()):
        return TsvFiles(_parts(path))
    raise DataError(f"{path} is no file of features; expected {LAYOUTS}.")


def _open_folder(folder: Path) -> Source:
    with reading(folder):
        endings = {path.suffix for path in folder.iterdir()}
    if (folder / "data.mdb").is_file():
        return LmdbFile(folder)
    if ".npz" in endings:
        return NpzFolder(folder, _boxes_beside(folder))
    if ".npy" in endings:
        return NpyFolder(folder, _boxes_beside(folder))
    tables = sorted(path for path in folder.iterdir() if _TSV.search(path.name))
    if tables:
        return TsvFiles(tables)
    raise DataError(f"{folder} has no features; expected {LAYOUTS}.")


def _boxes_beside(folder: Path) -> Path | None:
    """Find self-critical's ``X_box`` beside ``X_att``, or a folder ``boxes``."""
    stem = folder.name.removesuffix("_att")
    for name in (f"{stem}_box", "boxes"):
        if (folder.parent / name).is_dir() and name != folder.name:
            return folder.parent / name
    return None


def _parts(path: Path) -> list[Path]:
    """Give all parts of a table that was cut into ``.tsv.0``, ``.tsv.1`` and so on."""
    match = re.search(r"\.tsv\.\d+$", path.name)
    stem = path.name[: match.start()] if match else ""
    return sorted(path.parent.glob(f"{stem}.tsv.*")) if match else [path]


def find_features(root: Path, *, packed: bool = True) -> list[Path]:
    """Name what looks like features in a folder and its subfolders: stores alone if there are any.

    Hidden folders are passed over.

    TSV files of one folder count as one, named by their folder.

    Args:
        root: the folder.
        packed: False leaves out stores.

    Raises:
        DataError: a folder can't be read.
    """
    with reading(root):
        folders = [p for p in sorted(root.iterdir()) if p.is_dir() and p.name[0] != "."]
        stores = [path for path in (root, *folders) if is_store(path)]
        if stores and packed:
            return stores
        folders = [path for path in folders if path not in stores]
        found = [path for path in folders if _is_features_folder(path)]
        for folder in (root, *(path for path in folders if path not in found)):
            found += _feature_files(folder)
    return found


def _is_features_folder(folder: Path) -> bool:
    if _NOT_REGIONS.search(folder.name):
        return False
    endings = {path.suffix for path in folder.iterdir()}
    return bool(endings & {".npz", ".npy"}) or (folder / "data.mdb").is_file()


def _feature_files(folder: Path) -> list[Path]:
    paths = [path for path in sorted(folder.iterdir()) if path.is_file()]
    tables = [path for path in paths if _TSV.search(path.name)]
    single = [path for path in paths if path.suffix in (".h5", ".hdf5", ".lmdb", ".pth")]
    single = [
        path
        for path in single
        if "label" not in path.name.lower() and not _NOT_REGIONS.search(path.stem)
    ]
    return single + (tables if len(tables) == 1 else [folder] if tables else [])
