"""Writes fairseq's two index formats byte by byte, after their description."""

import struct
from pathlib import Path

import numpy as np

CODES = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.float64,
    7: np.float64,
    8: np.uint16,
    9: np.uint32,
    10: np.uint64,
}
SENTENCES = [[4, 5, 6, 2], [2], [7, 2], [5, 5, 5, 5, 4, 2]]


def write_mmap(prefix: Path, sentences: list[list[int]], code: int = 8) -> Path:
    """Write the memory-mapped format."""
    kind = np.dtype(CODES[code]).newbyteorder("<")
    sizes = [len(sentence) for sentence in sentences]
    pointers = (np.cumsum([0, *sizes])[:-1] * kind.itemsize).astype("<i8")
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, len(sentences))
    index = head + np.array(sizes, "<i4").tobytes() + pointers.tobytes()
    prefix.with_name(prefix.name + ".idx").write_bytes(index)
    _write_ids(prefix, np.array(sum(sentences, []), kind))
    return prefix


def write_old(prefix: Path, sentences: list[list[int]], code: int = 4) -> Path:
    """Write the older format, which stores ids plus one."""
    kind = np.dtype(CODES[code]).newbyteorder("<")
    sizes = [len(sentence) for sentence in sentences]
    head = b"TNTIDX\x00\x00" + struct.pack(
        "<5Q", 1, code, kind.itemsize, len(sentences), len(sentences)
    )
    numbers = [*range(len(sentences) + 1), *np.cumsum([0, *sizes]), *sizes]
    prefix.with_name(prefix.name + ".idx").write_bytes(head + np.array(numbers, "<i8").tobytes())
    _write_ids(prefix, np.array(sum(sentences, []), kind) + kind.type(1))
    return prefix


def _write_ids(prefix: Path, ids: np.ndarray) -> None:
    prefix.with_name(prefix.name + ".bin").write_bytes(ids.tobytes())


def write_folder(root: Path, pair: str = "en-de", **splits: list[list[int]]) -> Path:
    """Write a whole folder with both dictionaries of four symbols (ids 4 to 7)."""
    root.mkdir(parents=True, exist_ok=True)
    for language in pair.split("-"):
        lines = "Haus@@ 3\nboot 3\n, 2\nmadeupword0000 0\n"
        (root / f"dict.{language}.txt").write_text(lines)
        for split, sentences in splits.items():
            write_mmap(root / f"{split}.{pair}.{language}", sentences)
    return root
