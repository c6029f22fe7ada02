"""The store on disk: converted once, then opened memory-mapped without reading a source file again.

An entry is a folder ``sentiment/<key>`` below the cache, written beside its place and moved there
as a whole, with

- ``header.json``: what it is, the hashes of the sources and of its own files;
- ``<part>.<modality>.npy``: the real steps of all items one after the other;
- ``<part>.npz``: labels and, by modality, each item's length, padding in front and step to read;
- ``<part>.json``: ids, videos and texts.

The key is made from the settings and from names and sizes of the data files; an entry whose sources
have other hashes by now, or that is damaged, is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .files import reading, sha256_file
from .sentiment_config import SentimentDataConfig
from .sentiment_records import MODALITIES
from .sentiment_store import FORMAT, SentimentStore, StoredPart, StoreHeader, StreamStore

_HEADER = "header.json"
_SUFFIXES = {".pkl", ".pickle", ".p", ".npz", ".csv", ".gz"}


def cached_store(
    config: SentimentDataConfig, root: Path, make: Callable[[], SentimentStore]
) -> SentimentStore:
    """Open the store of some data below ``config.cache``, or make it and put it there.

    Two processes may do this at the same time: both make the same, the first one's stays.

    Args:
        config: which data.
        root: their folder.
        make: reads and converts them.

    Raises:
        DataError: the cache can't be written; nothing is left behind. And what `make` raises.
    """
    if config.cache is None:
        return make()
    entry = config.cache / "sentiment" / _key(config, root)
    found = load_store(entry)
    if found is not None and _unchanged(found.header, root):
        return found
    made = make()
    _save(entry, made, root)
    written = load_store(entry)
    fits = written is not None and written.header.files == made.header.files
    return written if written is not None and fits else made


def load_store(entry: Path) -> SentimentStore | None:
    """Open an entry, memory-mapped; None if there is none or it is damaged."""
    if not (entry / _HEADER).is_file():
        return None
    try:
        header = StoreHeader.model_validate_json((entry / _HEADER).read_bytes())
        if header.format != FORMAT or not header.parts:
            return None
        parts = {name: _load_part(entry, name, header) for name in header.parts}
        return SentimentStore(header, parts, entry)
    except Exception:  # a damaged archive makes the library raise anything
        return None


def verify_store(store: SentimentStore) -> None:
    """Compare the hashes of the files of a store, where it lies on disk.

    Raises:
        DataError: a file isn't what it was when the entry was made.
    """
    if store.folder is not None:
        for name, expected in store.header.sha256.items():
            if sha256_file(store.folder / name) != expected:
                raise DataError(
                    f"{store.folder / name} is damaged; remove {store.folder}, it is made again."
                )


def _key(config: SentimentDataConfig, root: Path) -> str:
    """Name an entry after all that decides what is read."""
    chosen = {"dataset", "file", "alignment", "context", "positive"}
    with reading(root):
        files = [
            (path.relative_to(root).as_posix(), path.stat().st_size)
            for path in sorted(root.rglob("*"))
            if path.suffix in _SUFFIXES and path.is_file()
        ]
    parts = [FORMAT, config.model_dump(mode="json", include=chosen), files]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _unchanged(header: StoreHeader, root: Path) -> bool:
    """Tell whether the source files are the ones that the store was made from."""
    with contextlib.suppress(DataError):
        return all(sha256_file(root / name) == found for name, found in header.files.items())
    return False


def _load_part(entry: Path, name: str, header: StoreHeader) -> StoredPart:
    words: dict[str, Any] = json.loads((entry / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(entry / f"{name}.npz", allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    streams: dict[str, StreamStore] = {}
    for modality in MODALITIES:
        said = header.parts[name][modality]
        mapped = np.load(entry / f"{name}.{modality}.npy", mmap_mode="r", allow_pickle=False)
        rows_RF = np.asarray(mapped)  # a plain array over the same memory is sliced much faster
        lengths, before, read_at = (
            arrays[f"{modality}.{what}"] for what in ("lengths", "before", "read_at")
        )
        stream = StreamStore(rows_RF, lengths, before, read_at, said.steps)
        whole = rows_RF.shape == (said.rows, said.dim) and rows_RF.dtype == np.float32
        if not whole or int(lengths.sum()) != said.rows or len(lengths) != len(words["ids"]):
            raise ValueError("header and arrays disagree")
        streams[modality] = stream
    return StoredPart(words["ids"], words["groups"], words["texts"], arrays["labels"], streams)


def _save(entry: Path, store: SentimentStore, root: Path) -> None:
    work = None
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        # Hidden, so that what a killed process leaves is taken for no entry.
        work = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=entry.parent))
        new = work / "new"
        new.mkdir()
        _write(new, store)
        found = load_store(entry)
        if found is None or not _unchanged(found.header, root):
            with contextlib.suppress(OSError):  # there is none, or another process was first
                os.rename(entry, work / "old")
            with contextlib.suppress(OSError):
                os.rename(new, entry)
    except OSError as error:
        raise DataError(
            f"The cache {entry.parent} can't be written: {error.strerror or error}; give another "
            "folder as cache, or none."
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _write(folder: Path, store: SentimentStore) -> None:
    for name, part in store.parts.items():
        arrays = {"labels": part.labels}
        for modality, stream in part.streams.items():
            np.save(folder / f"{name}.{modality}.npy", stream.rows_RF, allow_pickle=False)
            arrays[f"{modality}.lengths"] = stream.lengths_N
            arrays[f"{modality}.before"] = stream.before_N
            arrays[f"{modality}.read_at"] = stream.read_at_N
        with (folder / f"{name}.npz").open("wb") as stream_out:
            np.savez(stream_out, allow_pickle=False, **arrays)
        words = {"ids": part.ids, "groups": part.groups, "texts": part.texts}
        (folder / f"{name}.json").write_text(json.dumps(words), encoding="utf-8")
    hashes = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
    header = store.header.model_copy(update={"sha256": hashes})
    (folder / _HEADER).write_text(header.model_dump_json(indent=1), encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
