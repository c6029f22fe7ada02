"""MulT's pickles: ``mosi_data.pkl``, ``mosei_senti_data_noalign.pkl``, ``iemocap_data.pkl``, …

A dictionary of ``train``, ``valid`` and ``test`` with ``text``, ``audio``, ``vision`` (N, T, F),
``labels`` and, in some, ``id``. Labels are one number an item, (N, 1, 1), or for IEMOCAP (N, 4, 2)
with a 1 at one of an emotion's two places; which of the two means that the emotion is there no file
says, so the places are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .sentiment_config import SentimentDataConfig
from .sentiment_fields import (
    as_array,
    as_text,
    check_streams,
    describe,
    field_of,
    names_of,
    numbers_of,
    parts_of,
    spread,
    streams_of,
    texts_of,
)
from .sentiment_records import EMOTIONS, PARTS, RawPart, RawSentiment

_LABELS = ("labels", "label", "y")
_IDS = ("id", "ids")
_TEXTS = ("raw_text", "raw_texts")
_PUBLISHED = {
    "mosi": ((1284, 229, 686),),
    "mosei": ((16265, 1869, 4643), (16326, 1871, 4659)),
    "iemocap": ((2717, 798, 938),),
}
"""Items of train, val and test in the files of MulT, and of MMSA where those differ."""


def is_mult(content: Any) -> bool:
    """Tell whether a pickle holds dictionaries by part."""
    if not isinstance(content, dict):
        return False
    parts = parts_of(content)
    return bool(parts) and all(isinstance(value, dict) for _, value in parts.values())


def read_mult(path: Path, content: dict[Any, Any], config: SentimentDataConfig) -> RawSentiment:
    """Take the parts out of a pickle of MulT's.

    Args:
        path: the file, for errors.
        content: what it holds; arrays are taken out of it.
        config: `positive` and `dataset` are looked at.

    Raises:
        DataError: a modality or the labels are missing, wrong shapes, unequal numbers of items, or
            emotions of which it isn't clear which place means that they are there.
    """
    parts: dict[str, RawPart] = {}
    notes: list[str] = []
    for name, (key, value) in parts_of(content).items():
        parts[name], said = _part(f"{path}, part {key}", name, value)
        notes += said
    emotions = {part.labels.ndim == 3 for part in parts.values()}
    if len(emotions) > 1:
        raise DataError(f"{path} has emotions in some parts and one number in others; use one.")
    kind, names = "regression", ()
    if emotions == {True}:
        kind, names = "emotions", EMOTIONS
        parts, said = _emotions(path, parts, config.positive)
    else:
        said = [spread(parts.values())]
    layout = f"MulT pickle, {alignment_of(parts)}"
    notes = [*describe(parts), *published(config.dataset, parts), *said, *notes]
    return RawSentiment(layout, [path], parts, kind, names, notes)


def alignment_of(parts: Mapping[str, RawPart]) -> str:
    """Give ``aligned`` where all streams of all parts are equally long, else ``unaligned``."""
    lengths = ({array.shape[1] for array in part.features.values()} for part in parts.values())
    return "aligned" if all(len(each) == 1 for each in lengths) else "unaligned"


def published(dataset: str, parts: Mapping[str, RawPart]) -> list[str]:
    """Say where numbers of items differ from those of the published files."""
    known = _PUBLISHED.get(dataset)
    if known is None:
        return []
    whole = [dict(zip(PARTS, numbers, strict=True)) for numbers in known]
    if any(all(len(part) == each[name] for name, part in parts.items()) for each in whole):
        return ["as many items as in the published files"]
    said = " or ".join("/".join(f"{number:,}" for number in numbers) for numbers in known)
    return [f"the published files of {dataset} have {said} items"]


def _part(where: str, name: str, value: dict[Any, Any]) -> tuple[RawPart, list[str]]:
    fields = {as_text(key): each for key, each in value.items()}
    value.clear()  # so that arrays that were converted don't stay in memory
    label, labels = field_of(where, fields, _LABELS)
    features = streams_of(where, fields)
    labels = _labels(where, labels, label)
    check_streams(where, features, len(labels), label)
    _, ids = field_of(where, fields, _IDS, needed=False)
    _, texts = field_of(where, fields, _TEXTS, needed=False)
    names, groups, notes = names_of(where, ids, len(labels), name)
    return (
        RawPart(names, groups, features, {}, labels, texts=texts_of(where, texts, len(labels))),
        notes,
    )


def _labels(where: str, labels: Any, what: str) -> np.ndarray:
    """Give (N, 1) numbers, or (N, 4, 2) with a 1 at one of two places of each emotion."""
    array = as_array(labels)
    if array.ndim < 2 or array.shape[1] != len(EMOTIONS):
        return numbers_of(where, labels, what)
    if array.dtype.kind in "fiub" and array.ndim == 2 and np.isin(array, (0, 1)).all():
        return np.eye(2, dtype=np.int64)[array.astype(np.int64)]
    if array.dtype.kind not in "fiub" or array.shape[1:] != (len(EMOTIONS), 2):
        raise DataError(
            f"{what} of {where} has shape {array.shape} of {array.dtype}; expected (items, 1, 1), "
            "or (items, 4, 2) for emotions."
        )
    bad = ~((array == 0) | (array == 1)).all((1, 2)) | (array.sum(2) != 1).any(1)
    if bad.any():
        raise DataError(
            f"{what} of {where}: {int(bad.sum()):,} of {len(array):,} items haven't one 1 and one "
            f"0 for each emotion, item {int(bad.argmax())} first; correct them."
        )
    return array.astype(np.int64)


def _emotions(
    path: Path, parts: Mapping[str, RawPart], positive: str
) -> tuple[dict[str, RawPart], list[str]]:
    """Find which place means that an emotion is there; make (N, 4) of (N, 4, 2)."""
    counts_42 = np.sum([part.labels.sum(0) for part in parts.values()], 0)
    said = ", ".join(
        f"{name} {first:,} : {second:,}"
        for name, (first, second) in zip(EMOTIONS, counts_42.tolist(), strict=True)
    )
    votes = [
        int((counts_42.argmin(1) == place)[np.ptp(counts_42, 1) > 0].sum()) for place in (0, 1)
    ]
    if positive != "auto":
        place, why = int(positive), "as set"
    elif max(votes) >= 3 > min(votes):
        place = votes.index(max(votes))
        why = f"the rarer place of {max(votes)} of the 4 emotions"
    else:
        raise DataError(
            f"{path}: which of the two places of a label means that the emotion is there isn't "
            f"clear from how often each is set (first : second: {said}); say positive=0 or "
            "positive=1."
        )
    notes = [
        f"labels set at the first : second place: {said}",
        f"place {place} means that the emotion is there, {why}",
    ]
    return {name: _placed(part, place) for name, part in parts.items()}, notes


def _placed(part: RawPart, place: int) -> RawPart:
    labels = np.ascontiguousarray(part.labels[..., place])
    return RawPart(part.ids, part.groups, part.features, {}, labels, texts=part.texts)
