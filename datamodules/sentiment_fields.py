"""Taking ids, labels and streams out of a part of a file, whatever they are called and shaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .caption_records import split_role
from .errors import DataError
from .sentiment_records import MODALITIES, PARTS, RawPart

_ALIASES = {
    "text": ("text", "language", "glove"),
    "audio": ("audio", "acoustic", "covarep"),
    "vision": ("vision", "visual", "video", "facet"),
}
_VIDEO = re.compile(
    r"(?P<segment>.+)\[[^\[\]]*\]|(?P<clip>.+)\$_\$.+"
    r"|(?P<dialogue>Ses\d\d[FM]_.+)_[FM]\d+|(?P<number>.+)_\d+"
)


def modality_of(name: str) -> str | None:
    """Give ``text``, ``audio`` or ``vision`` for the names in use; None for others."""
    plain = name.strip().lower()
    return next((modality for modality, names in _ALIASES.items() if plain in names), None)


def parts_of(content: Mapping[Any, Any]) -> dict[str, tuple[str, Any]]:
    """Find the parts in a dictionary: by ``train``, ``val``, ``test`` the file's name and value."""
    found: dict[str, tuple[str, Any]] = {}
    for key, value in content.items():
        role = split_role(as_text(key)) if isinstance(key, (str, bytes)) else None
        if role is not None:
            found[role] = as_text(key), value
    return {name: found[name] for name in PARTS if name in found}


def field_of(
    where: str, fields: dict[str, Any], names: tuple[str, ...], needed: bool = True
) -> tuple[str, Any]:
    """Give the field of one of some names, and the name.

    Raises:
        DataError: there is none, and one is needed.
    """
    for key in fields:
        if key.strip().lower() in names:
            return key, fields[key]
    if needed:
        raise DataError(
            f"{where} has no {names[0]} (only {', '.join(fields)}); give the whole file."
        )
    return names[0], None


def texts_of(where: str, texts: Any, items: int) -> list[str] | None:
    """Give the transcripts, where there are any.

    Raises:
        DataError: not as many as items.
    """
    if texts is None:
        return None
    return [
        " ".join(map(as_text, each)) if isinstance(each, (list, tuple)) else as_text(each)
        for each in _listed(where, "texts", texts, items)
    ]


def _listed(where: str, what: str, values: Any, items: int) -> list[Any]:
    """Give a list or array as a list of as many as items."""
    if not isinstance(values, (list, tuple, np.ndarray)) or getattr(values, "shape", None) == ():
        raise DataError(f"{what} of {where} are no list ({type(values).__name__}); correct them.")
    if len(values) != items:
        raise DataError(f"{where} has {len(values):,} {what} for {items:,} items; it is damaged.")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def as_array(value: Any) -> np.ndarray:
    """Give a value as an array; what can't be one is an object, which no reader takes."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return np.empty((), object)


def streams_of(where: str, content: Mapping[str, Any], kinds: str = "fiu") -> dict[str, Any]:
    """Take the features of the three modalities, whatever they are called, as float32.

    They are taken out of `content`, so that no second copy of big arrays stays in memory.

    Args:
        where: file and part, for errors.
        content: arrays by name.
        kinds: numpy's letters of the dtypes that are numbers.

    Raises:
        DataError: a modality is missing, there twice, or no array of numbers.
    """
    named = {m: [key for key in content if modality_of(key) == m] for m in MODALITIES}
    missing = [modality for modality, keys in named.items() if not keys]
    if missing:
        raise DataError(
            f"{where} has no {' and no '.join(missing)} (only {', '.join(map(str, content))}); "
            "text, audio and vision are needed."
        )
    streams: dict[str, Any] = {}
    for modality, keys in named.items():
        if len(keys) > 1:
            raise DataError(f"{where} has {modality} as {' and as '.join(keys)}; remove one.")
        array = as_array(content[keys[0]])
        if array.dtype.kind not in kinds:
            raise DataError(f"{keys[0]} of {where} is no array of numbers ({array.dtype}).")
        with np.errstate(over="ignore"):
            streams[modality] = np.asarray(array, np.float32)
        if isinstance(content, dict):
            del content[keys[0]]
    return streams


def check_streams(where: str, features: Mapping[str, np.ndarray], items: int, what: str) -> None:
    """Check that every stream is (N, T, F) and that there are as many labels.

    Args:
        where: file and part, for errors.
        features: by modality.
        items: number of labels.
        what: what the labels are called in the file.

    Raises:
        DataError: wrong shapes, unequal numbers, or nothing there.
    """
    for modality, array in features.items():
        if array.ndim != 3 or 0 in array.shape[1:]:
            raise DataError(
                f"{modality} of {where} has shape {array.shape}; expected (items, steps, width)."
            )
    counts = {modality: len(array) for modality, array in features.items()} | {what: items}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{number:,} of {name}" for name, number in counts.items())
        raise DataError(f"{where} has unequal numbers of items ({said}); the file is damaged.")
    if not items:
        raise DataError(f"{where} has no items; give a file that has some.")


def numbers_of(where: str, labels: Any, what: str) -> np.ndarray:
    """Give labels (N,), (N, 1) or (N, 1, 1) as float32 (N, 1).

    Raises:
        DataError: another shape, or no numbers.
    """
    array = as_array(labels)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or array.size != len(array):
        raise DataError(
            f"{what} of {where} has shape {array.shape} of {array.dtype}; expected one number an "
            "item."
        )
    with np.errstate(over="ignore"):  # what is too large becomes inf, which is refused by name
        return array.reshape(-1, 1).astype(np.float32)


def as_text(value: Any) -> str:
    """Give an id or a text as a string; bytes, and strings read as Latin-1, are UTF-8."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            return value.encode("latin1").decode("utf-8")
        except UnicodeError:
            return value.encode("utf-8", "replace").decode("utf-8")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def names_of(where: str, ids: Any, items: int, part: str) -> tuple[list[str], list[str], list[str]]:
    """Give the items' ids, their videos, and notes.

    Ids may be strings, bytes, or triples of video, start and end, which become
    ``video[start,end]``; whatever is there twice gets a number.

    Args:
        where: file and part, for errors.
        ids: as the file has them, or None.
        items: number of items N.
        part: name of the part, for ids made from the place in it.

    Raises:
        DataError: not as many ids as items.
    """
    if ids is None:
        made = [f"{part}-{number}" for number in range(items)]
        return made, list(made), [f"{part} has no ids; the place in the file is used"]
    names = [_name(each) for each in _listed(where, "ids", ids, items)]
    groups = [video_of(name) for name in names]
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    twice = len(names) - len(seen)
    return unique, groups, [f"{part}: {twice:,} ids are there again and got a number"] * bool(twice)


def _name(value: Any) -> str:
    if not isinstance(value, (list, tuple)) or not value:
        return as_text(value)
    words = [as_text(each) for each in value]
    return words[0] if len(words) == 1 else f"{words[0]}[{','.join(words[1:])}]"


def video_of(name: str) -> str:
    """Give the video in an id such as ``video[3]``, ``video$_$3`` or ``video_3``; else the id."""
    found = _VIDEO.fullmatch(name)
    return next(part for part in found.groups() if part) if found else name


def describe(parts: Mapping[str, RawPart]) -> list[str]:
    """Say how many items there are and how long and wide the streams are."""
    items = ", ".join(f"{name} {len(part):,}" for name, part in parts.items())
    sizes: list[str] = []
    for modality in MODALITIES:
        shapes = [part.features[modality].shape[1:] for part in parts.values()]
        steps, widths = (dict.fromkeys(map(str, each)) for each in zip(*shapes, strict=True))
        sizes.append(f"{modality} {'/'.join(steps)} x {'/'.join(widths)}")
    missing = [f"no part {name} in the files" for name in PARTS if name not in parts]
    return [f"items: {items}", f"steps x width: {', '.join(sizes)}", *missing]


def spread(parts: Iterable[RawPart]) -> str:
    """Say between which numbers the labels lie."""
    labels: Sequence[np.ndarray] = [part.labels for part in parts]
    low, high = min(np.nanmin(each) for each in labels), max(np.nanmax(each) for each in labels)
    return f"labels from {low:.4g} to {high:.4g}"
