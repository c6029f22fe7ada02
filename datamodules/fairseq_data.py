"""Folders written by ``fairseq-preprocess``: memory-mapped or old index, with their dictionaries.

Memory-mapped (``MMIDIDX``), little-endian: magic of 9 bytes, version u64 = 1, dtype code u8,
number of sentences N u64, N lengths i32, N byte positions i64. Old (``TNTIDX``): magic of 8 bytes,
version u64 = 1, dtype code u64, element size u64, N u64, number of sizes u64, N+1 positions in the
sizes i64, N+1 positions in the ids i64, the sizes i64; there the ids are stored plus one.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .errors import DataError
from .store import TokenStore, store_of
from .vocabulary import EOS, Vocabulary

Reader = Literal["own", "fairseq"]

_MMAP_MAGIC = b"MMIDIDX\x00\x00"
_OLD_MAGIC = b"TNTIDX\x00\x00"
_TYPES = ["u1", "i1", "<i2", "<i4", "<i8", "<f8", "<f8", "<u2", "<u4", "<u8"]
_NAME = re.compile(r"(\w+)\.([A-Za-z_]+)-([A-Za-z_]+)\.([A-Za-z_]+)\.idx")


class FairseqData:
    """A fairseq-preprocessed folder.

    Args:
        root: the folder with ``dict.LANGUAGE.txt`` and ``SPLIT.SRC-TGT.LANGUAGE.{idx,bin}``.
        languages: source and target language, in either order of the folder's pair.
        reader: ``own`` maps the files into memory; ``fairseq`` reads through that package (the
            extra ``fairseq``). Both give the same ids.

    Raises:
        DataError: no such pair of languages, or a missing dictionary.
    """

    def __init__(self, root: Path, languages: tuple[str, str], reader: Reader = "own") -> None:
        self._root = root
        self._languages = languages
        self._reader: Reader = reader
        names = [found for path in root.iterdir() if (found := _NAME.fullmatch(path.name))]
        pairs = sorted({f"{name[2]}-{name[3]}" for name in names})
        wanted = ["-".join(languages), "-".join(reversed(languages))]
        self._pair = next((pair for pair in wanted if pair in pairs), "")
        if not self._pair:
            raise DataError(
                f"{root} has no fairseq data for {wanted[0]}; pairs found: {', '.join(pairs)}."
            )
        splits = sorted({name[1] for name in names if f"{name[2]}-{name[3]}" == self._pair})
        self.training = "train" if "train" in splits else None
        self.validation = next((split for split in splits if split.startswith("valid")), None)
        self.tests = [split for split in splits if split.startswith("test")]
        self.source_vocabulary = self._dictionary(languages[0])
        self.target_vocabulary = self._dictionary(languages[1])
        joined = self.source_vocabulary == self.target_vocabulary
        self.format = f"fairseq-preprocessed, {'joined' if joined else 'separate'} dictionaries"
        self.notes = ["plain text is recovered from ids: subwords joined, then detokenised"]

    def files(self, split: str) -> list[Path]:
        """Give the index, data and dictionary files of a split."""
        found = [self._prefix(split, language) for language in self._languages]
        data = [path.with_name(path.name + end) for path in found for end in (".idx", ".bin")]
        return data + [self._root / f"dict.{language}.txt" for language in self._languages]

    def stores(self, split: str) -> tuple[TokenStore, TokenStore]:
        """Give the source and target sentences of a split.

        Raises:
            DataError: different numbers of sentences, and everything that `read_side` refuses.
        """
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        source, target = (
            read_side(self._prefix(split, language), vocabulary, self._reader)
            for language, vocabulary in zip(self._languages, vocabularies, strict=True)
        )
        if len(source) != len(target):
            raise DataError(
                f"{self._root}, split {split}: {len(source)} {self._languages[0]} sentences but "
                f"{len(target)} {self._languages[1]}; preprocess both sides together again."
            )
        return source, target

    def _prefix(self, split: str, language: str) -> Path:
        return self._root / f"{split}.{self._pair}.{language}"

    def _dictionary(self, language: str) -> Vocabulary:
        path = self._root / f"dict.{language}.txt"
        if not path.is_file():
            raise DataError(f"{path} is missing; copy it from the folder the data were made in.")
        return Vocabulary.from_file(path)


def is_fairseq(root: Path) -> bool:
    """Tell whether a folder holds fairseq's index files."""
    return any(_NAME.fullmatch(path.name) for path in root.glob("*.idx"))


def read_side(prefix: Path, vocabulary: Vocabulary, reader: Reader = "own") -> TokenStore:
    """Read one language of one split.

    Args:
        prefix: the path without ``.idx`` and ``.bin``.
        vocabulary: the dictionary that the ids belong to.
        reader: ``own`` or ``fairseq``; both give the same ids.

    Raises:
        DataError: missing, truncated or foreign files, ids outside the dictionary, a sentence
            without ``</s>``, or reader ``fairseq`` where that package is not installed.
    """
    index, data = (prefix.with_name(prefix.name + end) for end in (".idx", ".bin"))
    for path in (index, data):
        if not path.is_file():
            raise DataError(f"{path} is missing; a split needs both its .idx and its .bin file.")
    store = _read_with_fairseq(prefix, vocabulary) if reader == "fairseq" else _read(index, data)
    shifted = store.ids if not store.shift else store.ids.astype(np.int64) - store.shift
    vocabulary.check(shifted, store.starts, str(data))
    ends = shifted[store.starts + store.lengths - 1]
    if (ends != EOS).any():
        line = int(np.flatnonzero(ends != EOS)[0]) + 1
        raise DataError(
            f"{data}, line {line}: the sentence does not end with </s>; preprocess it again with "
            "fairseq-preprocess's defaults."
        )
    return store


def _read(index: Path, data: Path) -> TokenStore:
    raw = index.read_bytes()
    try:
        if raw.startswith(_MMAP_MAGIC):
            kind, starts, lengths, shift = _mmap_index(raw, index)
        elif raw.startswith(_OLD_MAGIC):
            kind, starts, lengths, shift = _old_index(raw, index)
        else:
            raise DataError(
                f"{index} is no fairseq index: it starts with {raw[:8]!r}, expected MMIDIDX or "
                "TNTIDX."
            )
    except (struct.error, IndexError) as error:
        raise DataError(f"{index} is cut off inside its header; copy it again.") from error
    if not len(lengths):
        raise DataError(f"{index} lists no sentences.")
    ids = _map(data, kind)
    if lengths.min() < 1 or starts.min() < 0:
        raise DataError(f"{index} is damaged: it lists sentences without ids; copy it again.")
    needed = int((starts + lengths).max())
    if needed > len(ids):
        raise DataError(
            f"{data} is cut off: the index needs {needed} ids of {kind.itemsize} bytes but the "
            f"file holds {len(ids)}; copy it again."
        )
    return TokenStore(ids, starts, lengths, shift)


def _mmap_index(raw: bytes, index: Path) -> tuple[np.dtype, np.ndarray, np.ndarray, int]:
    version, code, count = struct.unpack_from("<QBQ", raw, len(_MMAP_MAGIC))
    kind = _type(code, version, index)
    body = len(_MMAP_MAGIC) + struct.calcsize("<QBQ")
    _expect_size(index, len(raw), body + 12 * count)
    lengths = np.frombuffer(raw, "<i4", count, body).astype(np.int64)
    positions = np.frombuffer(raw, "<i8", count, body + 4 * count).astype(np.int64)
    if (positions % kind.itemsize).any():
        raise DataError(f"{index} is damaged: positions between two ids; copy it again.")
    return kind, positions // kind.itemsize, lengths, 0


def _old_index(raw: bytes, index: Path) -> tuple[np.dtype, np.ndarray, np.ndarray, int]:
    version, code, width, count, sizes = struct.unpack_from("<5Q", raw, len(_OLD_MAGIC))
    kind = _type(code, version, index)
    body = len(_OLD_MAGIC) + struct.calcsize("<5Q")
    _expect_size(index, len(raw), body + 8 * (2 * (count + 1) + sizes))
    if width != kind.itemsize or sizes != count:
        raise DataError(
            f"{index} holds {sizes} sizes of {width} bytes for {count} sentences; expected one "
            f"size a sentence and {kind.itemsize} bytes an id."
        )
    numbers = np.frombuffer(raw, "<i8", offset=body).astype(np.int64)
    starts, lengths = numbers[count + 1 : 2 * count + 1], numbers[2 * (count + 1) :]
    return kind, starts, lengths, 1


def _type(code: int, version: int, index: Path) -> np.dtype:
    if version != 1:
        raise DataError(f"{index} has version {version}; expected version 1.")
    if not 1 <= code <= len(_TYPES):
        raise DataError(f"{index} has the unknown type code {code}; expected 1 to {len(_TYPES)}.")
    return np.dtype(_TYPES[code - 1])


def _expect_size(index: Path, found: int, expected: int) -> None:
    if found != expected:
        what = "cut off" if found < expected else "longer than its header says"
        raise DataError(f"{index} is {what}: {found} bytes, expected {expected}; copy it again.")


def _map(data: Path, kind: np.dtype) -> np.ndarray:
    """Map ids into memory; the floating types that fairseq allows must hold whole numbers."""
    if data.stat().st_size < kind.itemsize:
        raise DataError(f"{data} is empty.")
    count = data.stat().st_size // kind.itemsize
    mapped = np.memmap(data, kind, "r", shape=(count,))
    if kind.kind != "f":
        return mapped
    whole = mapped.astype(np.int64)
    if not np.array_equal(whole, mapped):
        raise DataError(f"{data} holds fractions; expected the ids of a dictionary.")
    return whole


def _read_with_fairseq(prefix: Path, vocabulary: Vocabulary) -> TokenStore:
    try:
        from fairseq.data import data_utils  # type: ignore[import-not-found]
    except ImportError as error:
        raise DataError(
            "reader=fairseq needs the extra: pip install 'attnbench[fairseq]', or use reader=own."
        ) from error
    opened: Any = data_utils.load_indexed_dataset(str(prefix), vocabulary, dataset_impl=None)
    if opened.supports_prefetch:  # the old format answers only for what was asked for before
        opened.prefetch(range(len(opened)))
    sentences = [opened[number].numpy() for number in range(len(opened))]
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    return store_of(np.concatenate(sentences), lengths)
