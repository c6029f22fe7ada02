"""Encoded training text on disk: flat arrays that are mapped into memory, written as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .store import TokenStore, store_of
from .vocabulary import Vocabulary

_META = "meta.json"
_DICTIONARY = "dict.txt"
_SIDES = ("source", "target")


@dataclass(frozen=True)
class CachedText:
    """What a cache entry holds.

    Attributes:
        source: all source sentences of training, before any is dropped.
        target: the same of the target.
        vocabulary: the joint vocabulary.
        meta: what else is needed to encode further text the same way, plain JSON.
    """

    source: TokenStore
    target: TokenStore
    vocabulary: Vocabulary
    meta: dict[str, Any]


def load_encoded(entry: Path) -> CachedText | None:
    """Open a cache entry, memory-mapped; None if there is none or a file of it is damaged."""
    if not (entry / _META).is_file():
        return None
    try:
        meta = json.loads((entry / _META).read_text(encoding="utf-8"))
        vocabulary = Vocabulary.from_file(entry / _DICTIONARY)
        source, target = (_load(entry, side, len(vocabulary)) for side in _SIDES)
    except (OSError, ValueError, EOFError, RecursionError):  # DataError is a ValueError
        return None
    if not isinstance(meta, dict) or len(source) != len(target):
        return None
    return CachedText(source, target, vocabulary, meta)


def save_encoded(
    entry: Path,
    source: TokenStore,
    target: TokenStore,
    vocabulary: Vocabulary,
    meta: dict[str, Any],
) -> CachedText:
    """Write an entry beside its place and move it there, then open it memory-mapped.

    Two processes may do this at the same time: both write the same content, the first one wins.

    Raises:
        DataError: the folder can't be written or the disk is full; nothing is left behind.
    """
    work = None
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=entry.name + ".", dir=entry.parent))
        for side, store in zip(_SIDES, (source, target), strict=True):
            np.save(work / f"{side}.ids.npy", store.ids)
            np.save(work / f"{side}.lengths.npy", store.lengths)
        vocabulary.save(work / _DICTIONARY)
        (work / _META).write_text(json.dumps(meta), encoding="utf-8")
        for path in work.iterdir():
            _flush(path)
        found = load_encoded(entry)
        if entry.exists() and (found is None or found.meta != meta):
            shutil.rmtree(entry)
        with contextlib.suppress(OSError):  # another process was first
            os.rename(work, entry)
        written = load_encoded(entry)
    except OSError as error:
        raise DataError(
            f"The cache {entry.parent} can't be written: {error.strerror or error}; give another "
            "folder as cache, or none."
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
    if written is None or written.meta != meta:
        return CachedText(source, target, vocabulary, meta)
    return written


def _load(entry: Path, side: str, vocabulary_size: int) -> TokenStore:
    ids = np.load(entry / f"{side}.ids.npy", mmap_mode="r", allow_pickle=False)
    lengths = np.load(entry / f"{side}.lengths.npy", allow_pickle=False)
    whole = all(array.ndim == 1 and array.dtype.kind in "iu" for array in (ids, lengths))
    if not whole or int(lengths.sum()) != len(ids) or lengths.min(initial=1) < 1:
        raise ValueError("ids and lengths don't belong together")
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary_size:
        raise ValueError("ids outside of the vocabulary")
    return store_of(ids, lengths)


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())
