"""Preprocessed captions of self-critical training: ``cocotalk.json`` and its label HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .caption_files import head_of, member, read_json, refuse_html
from .caption_records import CaptionImage, CaptionSet, finish, pixel_size, split_role
from .errors import DataError

_EXPECTED = "cocotalk JSON with ix_to_word and images"
_LABELS = "an HDF5 file with labels, label_start_ix and label_end_ix"
_MAGIC = b"\x89HDF\r\n\x1a\n"


def read_words(path: Path) -> tuple[str, ...]:
    """Give the words of a cocotalk JSON in id order.

    Raises:
        DataError: the ids aren't 1, 2, 3 … or the file can't be read.
    """
    return _words(path, read_json(path, _EXPECTED))


def _words(path: Path, content: Any) -> tuple[str, ...]:
    table = member(path, content, "ix_to_word", dict, _EXPECTED)
    try:
        return tuple(str(table[str(number)]) for number in range(1, len(table) + 1))
    except KeyError as error:
        raise DataError(f"{path} has no word {error}; ids must be 1 to {len(table)}.") from error


def find_labels(path: Path) -> Path:
    """Give the label file of a cocotalk JSON: the only HDF5 file beside it that has labels.

    Raises:
        DataError: there is none, or several.
    """
    found = [p for p in sorted(path.parent.glob("*.h5")) if "label" in p.name.lower()]
    same = [p for p in found if p.name.startswith(path.stem)]
    found = same if len(same) == 1 else found
    if len(found) != 1:
        names = f"several ({', '.join(p.name for p in found)})" if found else "none"
        raise DataError(
            f"{path} needs its label file, {path.stem}_label.h5, beside it; there is {names}."
        )
    return found[0]


def read_cocotalk(path: Path, labels_path: Path | None = None) -> CaptionSet:
    """Read captions as ids; their words serve as references too, cut and with UNK as they are.

    Raises:
        DataError: a file is missing or damaged, or the two don't belong together.
    """
    labels_path = labels_path or find_labels(path)
    content = read_json(path, _EXPECTED)
    words = _words(path, content)
    entries = member(path, content, "images", list, _EXPECTED)
    labels_MT, start_N, end_N = _labels(labels_path)
    if len(entries) != len(start_N):
        raise DataError(
            f"{path} has {len(entries):,} images and {labels_path} has {len(start_N):,}; "
            "they must come from the same run of the preprocessing."
        )
    if labels_MT.max(initial=0) > len(words) or labels_MT.min(initial=0) < 0:
        wrong = min(labels_MT.min(), 0) or labels_MT.max()
        raise DataError(
            f"{labels_path} has id {wrong}, but {path} only {len(words)} words; "
            "they must come from the same run of the preprocessing."
        )
    images: list[CaptionImage] = []
    for number, entry in enumerate(entries):
        # 1-based and with both ends included.
        rows = labels_MT[int(start_N[number]) - 1 : int(end_N[number])]
        tokens = [[words[i - 1] for i in row[: _length(row)]] for row in rows]
        images.append(_image(path, number, entry, tokens))
    found = finish(path, "cocotalk JSON and labels", images)
    found.files.append(labels_path)
    found.vocabulary = words
    found.notes.append("references are the cut captions of the labels, with UNK for rare words")
    return found


def _length(row: np.ndarray) -> int:
    """Count the ids before the first 0."""
    zeros = np.flatnonzero(row == 0)
    return int(zeros[0]) if len(zeros) else len(row)


def _labels(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    head = head_of(path)
    refuse_html(path, head, _LABELS)
    if not head.startswith(_MAGIC):
        raise DataError(f"{path} is no HDF5 file (it starts with {head[:4].hex(' ')}).")
    try:
        with h5py.File(path, "r") as file:
            names = ("labels", "label_start_ix", "label_end_ix")
            labels, start, end = (np.asarray(file[name]) for name in names)
    except KeyError as error:
        raise DataError(f"{path} lacks a data set; expected {_LABELS}.") from error
    except Exception as error:  # a damaged file makes the library raise anything
        raise DataError(f"{path} is damaged or cut off; copy it again.") from error
    if any(array.dtype.kind not in "iu" for array in (labels, start, end)):
        raise DataError(f"{path} has labels that are no whole numbers; expected {_LABELS}.")
    shaped = labels.ndim == 2 and start.ndim == 1 and start.shape == end.shape
    if not shaped or end.max(initial=0) > len(labels) or start.min(initial=1) < 1:
        raise DataError(f"{path} has ranges outside of its labels; expected {_LABELS}.")
    return labels, start, end


def _image(path: Path, number: int, entry: Any, tokens: list[list[str]]) -> CaptionImage:
    ident = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(ident, int | str) or isinstance(ident, bool) or "split" not in entry:
        raise DataError(f"{path}, image number {number}, lacks id or split; expected {_EXPECTED}.")
    return CaptionImage(
        id=ident,
        split=split_role(str(entry["split"])) or "",
        file_name=str(entry.get("file_path") or ""),
        tokens=tokens,
        raw=[" ".join(words) for words in tokens],
        size=pixel_size(entry.get("width"), entry.get("height")),
    )
