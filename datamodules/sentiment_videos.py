"""CMU-MOSEI by video: one vector a video and modality, ``train_data.pkl``, ``val_data.pkl``, ….

Each file is a dictionary of ``language``, ``acoustic``, ``visual`` (N, F) and ``labels`` (N,), a
mean sentiment. A stream has one step. ``metadata.pkl`` beside them names the sizes of all parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .caption_records import split_role
from .errors import DataError
from .pickles import read_pickle
from .sentiment_fields import (
    as_text,
    check_streams,
    describe,
    field_of,
    modality_of,
    names_of,
    numbers_of,
    spread,
    streams_of,
    texts_of,
)
from .sentiment_records import PARTS, RawPart, RawSentiment

_NAME = re.compile(r"(?P<part>[a-z]+)(?:_data)?\.(?:pkl|pickle|p)(?:\.gz)?", re.IGNORECASE)
_METADATA = "metadata.pkl"


def is_video_level(content: Any) -> bool:
    """Tell whether a pickle holds modalities, not parts, at its top."""
    if not isinstance(content, dict):
        return False
    return any(isinstance(key, (str, bytes)) and modality_of(as_text(key)) for key in content)


def part_of(path: Path) -> str | None:
    """Give the part that a file's name says, such as ``val_data.pkl``; None for other names."""
    found = _NAME.fullmatch(path.name)
    return split_role(found["part"]) if found else None


def read_videos(paths: Sequence[Path], read: dict[Path, Any] | None = None) -> RawSentiment:
    """Read the files of the parts, of which some may be absent.

    Args:
        paths: the files.
        read: contents of those that have been read already.

    Raises:
        DataError: a name that says no part, two files of a part, a modality or the labels missing,
            wrong shapes, or unequal numbers.
    """
    named: dict[str, Path] = {}
    for path in paths:
        part = part_of(path)
        if part is None:
            raise DataError(
                f"{path} holds one part of the data, but its name doesn't say which; call it "
                "train_data.pkl, val_data.pkl or test_data.pkl."
            )
        if part in named:
            raise DataError(f"{path} and {named[part].name} are both part {part}; keep one.")
        named[part] = path
    parts: dict[str, RawPart] = {}
    notes: list[str] = []
    for name in (name for name in PARTS if name in named):
        content = (read or {}).pop(named[name], None)
        parts[name], said = _part(named[name], name, content or read_pickle(named[name]))
        notes += said
    files = [named[name] for name in parts]
    return RawSentiment(
        format="pickles by video",
        files=files,
        parts=parts,
        kind="regression",
        notes=[
            *describe(parts),
            spread(parts.values()),
            *_promised(files[0].with_name(_METADATA), parts),
            *notes,
        ],
    )


def _part(path: Path, name: str, content: Any) -> tuple[RawPart, list[str]]:
    if not is_video_level(content):
        raise DataError(
            f"{path} has no language, acoustic or visual features of videos; expected a dictionary "
            "of them and labels."
        )
    fields = {as_text(key): each for key, each in content.items()}
    label, labels = field_of(str(path), fields, ("labels", "label"))
    features = {
        modality: array[:, None] if array.ndim == 2 else array
        for modality, array in streams_of(str(path), fields).items()
    }
    labels = numbers_of(str(path), labels, label)
    check_streams(str(path), features, len(labels), label)
    _, ids = field_of(str(path), fields, ("id", "ids"), needed=False)
    _, texts = field_of(str(path), fields, ("raw_text",), needed=False)
    names, groups, notes = names_of(str(path), ids, len(labels), name)
    lengths = {
        modality: np.ones(len(labels), np.int64)
        for modality, array in features.items()
        if array.shape[1] == 1
    }
    spoken = texts_of(str(path), texts, len(labels))
    return RawPart(names, groups, features, lengths, labels, texts=spoken), notes


def _promised(path: Path, parts: dict[str, RawPart]) -> list[str]:
    """Say where the metadata name other numbers of items than there are."""
    if not path.is_file():
        return []
    content = read_pickle(path)
    if not isinstance(content, dict):
        return []
    notes: list[str] = []
    for name in PARTS:
        number, there = content.get(f"{name}_samples"), len(parts[name]) if name in parts else 0
        if isinstance(number, int) and number != there:
            notes.append(f"{path.name} names {number:,} items of {name}; {there:,} are here")
    return notes
