"""MMSA's pickles: ``aligned_50.pkl``, ``unaligned_50.pkl``.

A dictionary of ``train``, ``valid`` and ``test`` with ``text`` (features of BERT, N x T x 768),
``audio``, ``vision``, ``regression_labels`` (N,), ``id`` (``video$_$clip``), ``raw_text``,
``text_bert`` (N x 3 x T: word pieces, mask, segments) and, where they aren't aligned,
``audio_lengths`` and ``vision_lengths``. BERT's features of padding aren't zeros, so the length of
a text is taken from its mask.
"""

from __future__ import annotations

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
from .sentiment_mult import alignment_of, is_mult, published
from .sentiment_records import MODALITIES, RawPart, RawSentiment

_LABELS = "regression_labels"


def is_mmsa(content: Any) -> bool:
    """Tell whether a pickle holds dictionaries by part with ``regression_labels``."""
    if not is_mult(content):
        return False
    return any(_LABELS in map(as_text, value) for _, value in parts_of(content).values())


def read_mmsa(path: Path, content: dict[Any, Any], config: SentimentDataConfig) -> RawSentiment:
    """Take the parts out of a pickle of MMSA's.

    Args:
        path: the file, for errors.
        content: what it holds; arrays are taken out of it.
        config: `dataset` is looked at.

    Raises:
        DataError: a modality or the labels are missing, wrong shapes, unequal numbers of items, or
            lengths below 0.
    """
    parts: dict[str, RawPart] = {}
    notes: list[str] = []
    for name, (key, value) in parts_of(content).items():
        parts[name], said = _part(f"{path}, part {key}", name, value)
        notes += said
    known = sorted({m for part in parts.values() for m in part.lengths}, key=MODALITIES.index)
    if known:
        notes.append(f"lengths of {', '.join(known)} as the file has them")
    return RawSentiment(
        format=f"MMSA pickle, {alignment_of(parts)}",
        files=[path],
        parts=parts,
        kind="regression",
        notes=[
            *describe(parts),
            *published(config.dataset, parts),
            spread(parts.values()),
            *notes,
        ],
    )


def _part(where: str, name: str, value: dict[Any, Any]) -> tuple[RawPart, list[str]]:
    fields = {as_text(key): each for key, each in value.items()}
    value.clear()  # so that arrays that were converted don't stay in memory
    _, given = field_of(where, fields, (_LABELS,))
    features = streams_of(where, fields)
    labels = numbers_of(where, given, _LABELS)
    check_streams(where, features, len(labels), _LABELS)
    _, ids = field_of(where, fields, ("id", "ids"), needed=False)
    _, texts = field_of(where, fields, ("raw_text",), needed=False)
    names, groups, notes = names_of(where, ids, len(labels), name)
    lengths, said = _lengths(where, name, fields, features)
    texts = texts_of(where, texts, len(labels))
    return RawPart(names, groups, features, lengths, labels, texts=texts), [*notes, *said]


def _lengths(
    where: str, name: str, fields: dict[str, Any], features: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Take lengths as they are in the file, and those of texts from BERT's mask."""
    lengths: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for modality, array in features.items():
        items, steps = array.shape[:2]
        found = fields.get(f"{modality}_lengths")
        if found is None and modality == "text":
            found = _masked(fields.get("text_bert"), items, steps)
        if found is None:
            continue
        given = as_array(found)
        if given.dtype.kind not in "iu" or given.size != items or given.min() < 0:
            raise DataError(
                f"{modality}_lengths of {where} aren't {items:,} whole numbers from 0; the file "
                "is damaged."
            )
        lengths[modality] = np.minimum(given.reshape(-1), steps).astype(np.int64)
        over = int((given > steps).sum())
        if over:
            notes.append(f"{name}: {over:,} lengths of {modality} cut to the {steps} steps there")
    return lengths, notes


def _masked(bert: Any, items: int, steps: int) -> np.ndarray | None:
    """Give the lengths in BERT's mask (N, 3, T); None if it isn't there, or no mask of a start."""
    if bert is None:
        return None
    array = as_array(bert)
    if array.dtype.kind not in "fiub" or array.shape != (items, 3, steps):
        return None
    mask_NT = array[:, 1] != 0
    lengths = mask_NT.sum(1).astype(np.int64)
    return lengths if (mask_NT == (np.arange(steps) < lengths[:, None])).all() else None
