"""From padded arrays as they lie in the files to a store: finds the padding and cleans the values.

Padding is rows of zeros. On which side it lies no file says; it is the one with more rows of zeros,
over all parts, and zeros at the other end or between real steps are real steps (a word without a
vector, a frame without a face). It is found before anything is cleaned, as a step whose features
are all -inf is a real one. Streams that are aligned keep one span an item, so that a step is the
same word in each: where one of them has a real step, all have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .errors import DataError
from .files import sha256_file
from .sentiment_records import MODALITIES, RawPart, RawSentiment
from .sentiment_store import (
    FORMAT,
    SentimentStore,
    Side,
    StoredPart,
    StoreHeader,
    StreamHeader,
    StreamStore,
)

_CHUNK = 256
_NAMED = 3


def convert(raw: RawSentiment, root: Path, *, aligned: bool = False) -> SentimentStore:
    """Make a store in memory.

    Args:
        raw: what the files hold.
        root: the data set's folder.
        aligned: whether the streams of an item go step by step with one another.

    Raises:
        DataError: parts of different widths, labels that are no numbers, or a modality of which no
            item of a part has a real step, or a number.
    """
    where = str(raw.files[0]) if raw.files else str(root)
    for name, part in raw.parts.items():
        _check_labels(f"{where}, part {name}", part)
    streams: dict[str, dict[str, StreamStore]] = {name: {} for name in raw.parts}
    headers: dict[str, dict[str, StreamHeader]] = {name: {} for name in raw.parts}
    for modality in MODALITIES:
        _check_width(where, modality, raw.parts)
    spans = {modality: _spans(modality, raw.parts) for modality in MODALITIES}
    if aligned:
        spans = _common(spans)
    for modality in MODALITIES:
        for name, part in raw.parts.items():
            stream, header = _stream(part, modality, spans[modality][name])
            if header.empty == len(part):
                raise DataError(
                    f"{where}: no item of part {name} has a real step of {modality}, all rows are "
                    "zeros; give a file that has this modality."
                )
            if header.cleaned and not stream.rows_RF.any():
                kinds = ", ".join(header.cleaned)
                raise DataError(
                    f"{where}: {modality} of part {name} has no number but 0, all others are "
                    f"{kinds}; give a file whose features were computed."
                )
            streams[name][modality], headers[name][modality] = stream, header
    parts = {
        name: StoredPart(part.ids, part.groups, part.texts, part.labels, streams[name])
        for name, part in raw.parts.items()
    }
    header = StoreHeader(
        format=FORMAT,
        layout=raw.format,
        kind=raw.kind,
        emotions=raw.emotions,
        files={below(path, root): sha256_file(path) for path in raw.files},
        parts=headers,
        notes=raw.notes,
    )
    return SentimentStore(header, parts)


def below(path: Path, root: Path) -> str:
    """Give a path as seen from the data set's folder, or the whole one where it lies elsewhere."""
    inside = path.is_relative_to(root)
    return (path.relative_to(root) if inside else path.absolute()).as_posix()


def _check_labels(where: str, part: RawPart) -> None:
    bad = [part.ids[number] for number in np.flatnonzero(~np.isfinite(part.labels).all(1))]
    if bad:
        raise DataError(
            f"{where}: {len(bad):,} items have labels that are no (float32) numbers, such as "
            f"{', '.join(bad[:_NAMED])}; remove them from the file."
        )


def _check_width(where: str, modality: str, parts: dict[str, RawPart]) -> None:
    widths = {name: part.features[modality].shape[-1] for name, part in parts.items()}
    if len(set(widths.values())) > 1:
        said = ", ".join(f"{width} in {name}" for name, width in widths.items())
        raise DataError(
            f"{where}: {modality} has different numbers of features in its parts ({said}); use "
            "files that belong together."
        )


@dataclass(frozen=True)
class _Span:
    """Where the real steps of N items lie: padding in front and their number.

    `silent_N`: items of which this stream has no step of its own.
    """

    side: Side
    before_N: np.ndarray
    lengths_N: np.ndarray
    other_end: int
    left_out: int
    silent_N: np.ndarray


def _spans(modality: str, parts: dict[str, RawPart]) -> dict[str, _Span]:
    real = {name: _not_zero(part.features[modality]) for name, part in parts.items()}
    ends = {name: _zeros_at_ends(real_NT) for name, real_NT in real.items()}
    some = {name: np.asarray(real_NT.any(1)) for name, real_NT in real.items()}
    front, behind = (sum(int(ends[n][e][some[n]].sum()) for n in parts) for e in (0, 1))
    side: Side = "none" if not front and not behind else "left" if front > behind else "right"
    spans: dict[str, _Span] = {}
    for name, part in parts.items():
        lengths = part.lengths.get(modality)
        front_N, behind_N = ends[name]
        if lengths is None:
            spans[name] = _found(side, some[name], front_N, behind_N, real[name].shape[1])
        else:
            spans[name] = _given(side, real[name], np.asarray(lengths))
    return spans


def _found(
    side: Side, some_N: np.ndarray, front_N: np.ndarray, behind_N: np.ndarray, steps: int
) -> _Span:
    """Take the zeros on one side as padding, of items that have anything else."""
    padding_N, other_N = (front_N, behind_N) if side == "left" else (behind_N, front_N)
    lengths_N = np.where(some_N, steps - padding_N, 0)
    before_N = np.where(some_N, front_N, steps) if side == "left" else np.zeros_like(lengths_N)
    other_end = int((some_N & (other_N > 0)).sum())
    return _Span(side, before_N, lengths_N, other_end, 0, lengths_N == 0)


def _given(side: Side, real_NT: np.ndarray, lengths_N: np.ndarray) -> _Span:
    """Take the lengths that the file gives."""
    steps = real_NT.shape[1]
    lengths_N = np.clip(lengths_N.astype(np.int64), 0, steps)
    before_N = steps - lengths_N if side == "left" else np.zeros_like(lengths_N)
    time_T = np.arange(steps)
    inside_NT = (time_T >= before_N[:, None]) & (time_T < (before_N + lengths_N)[:, None])
    left_out = int((real_NT & ~inside_NT).any(1).sum())
    return _Span(side, before_N, lengths_N, 0, left_out, lengths_N == 0)


def _common(spans: dict[str, dict[str, _Span]]) -> dict[str, dict[str, _Span]]:
    """Give all streams of an item the span from the first to the last real step of any of them."""
    common: dict[str, dict[str, _Span]] = {modality: {} for modality in spans}
    for name in next(iter(spans.values())):
        own = {modality: parts[name] for modality, parts in spans.items()}
        begin_MN = np.stack([span.before_N for span in own.values()])
        end_MN = begin_MN + np.stack([span.lengths_N for span in own.values()])
        silent_MN = np.stack([span.silent_N for span in own.values()])
        end_N = np.where(silent_MN, 0, end_MN).max(0)
        before_N = np.minimum(np.where(silent_MN, end_N, begin_MN).min(0), end_N)
        for modality, span in own.items():
            common[modality][name] = replace(span, before_N=before_N, lengths_N=end_N - before_N)
    return common


def _stream(part: RawPart, modality: str, span: _Span) -> tuple[StreamStore, StreamHeader]:
    features_NTF = part.features[modality]
    before_N, lengths_N = span.before_N.astype(np.int64), span.lengths_N.astype(np.int64)
    read_at_N = lengths_N - 1
    if part.read_at is not None and modality in part.read_at:
        # The step that is read is a real one, whatever its features are.
        at_N = part.read_at[modality].astype(np.int64)
        there_N = at_N >= 0
        end_N = np.maximum(before_N + lengths_N, at_N + 1)
        before_N = np.where(there_N, np.minimum(before_N, at_N), before_N)
        lengths_N = end_N - before_N
        read_at_N = np.where(there_N, at_N - before_N, lengths_N - 1)
    steps, dim = features_NTF.shape[1:]
    time_T = np.arange(steps)
    inside_NT = (time_T >= before_N[:, None]) & (time_T < (before_N + lengths_N)[:, None])
    rows_RF = np.ascontiguousarray(features_NTF[inside_NT], dtype=np.float32)
    empty = np.flatnonzero(span.silent_N if part.read_at is None else lengths_N == 0)
    header = StreamHeader(
        dim=dim,
        steps=steps,
        side=span.side,
        rows=len(rows_RF),
        cleaned=_clean(rows_RF),
        empty=len(empty),
        empty_ids=[part.ids[number] for number in empty[:_NAMED]],
        other_end=span.other_end,
        left_out=span.left_out,
    )
    return StreamStore(rows_RF, lengths_N, before_N, read_at_N, steps), header


def _clean(rows_RF: np.ndarray) -> dict[str, int]:
    """Put 0 where there is no number, in place; count by what was there."""
    counts = {"-inf": 0, "inf": 0, "nan": 0}
    for start in range(0, len(rows_RF), 1 << 16):
        rows = rows_RF[start : start + (1 << 16)]
        bad = ~np.isfinite(rows)
        if bad.any():
            values = rows[bad]
            counts["nan"] += int(np.isnan(values).sum())
            counts["inf"] += int((values == np.inf).sum())
            counts["-inf"] += int((values == -np.inf).sum())
            rows[bad] = 0.0
    return {kind: number for kind, number in counts.items() if number}


def _not_zero(features_NTF: np.ndarray) -> np.ndarray:
    """Tell which steps have anything but zeros (N, T), a few items at a time."""
    out_NT = np.empty(features_NTF.shape[:2], bool)
    for start in range(0, len(features_NTF), _CHUNK):
        stop = start + _CHUNK
        out_NT[start:stop] = (features_NTF[start:stop] != 0).any(-1)
    return out_NT


def _zeros_at_ends(real_NT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the steps of zeros in front and behind of each item; all of them where it has none."""
    steps = real_NT.shape[1]
    none_N = ~real_NT.any(1)
    front_N = np.where(none_N, steps, real_NT.argmax(1))
    behind_N = np.where(none_N, steps, real_NT[:, ::-1].argmax(1))
    return front_N, behind_N
