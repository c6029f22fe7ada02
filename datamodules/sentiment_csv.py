"""CMU-MOSI by utterance as a folder of CSV files.

``text/text_train0.csv``, ``audio/audio_train0.csv`` and ``video/video_train0.csv`` (and the same
with ``test``) have an utterance a row: features, then the label. Rows are shuffled, alike in all
three. ``text_train.csv`` has the same rows with each one's line in ``transcripts.csv``, counted
from 0, in front of the features and no label; ``transcripts.csv`` has ``video_number``, the words,
the number of the video and the label. Any may be gzip.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import DataError
from .files import csv_rows, read_lines
from .sentiment_records import MODALITIES, RawSentiment
from .sentiment_utterances import Utterances, binary, by_utterance

_NAMES = {"text": "text", "audio": "audio", "vision": "video"}
_TRANSCRIPTS = "transcripts.csv"
_CLOSE = 1e-4


def is_csv_folder(folder: Path) -> bool:
    """Tell whether a folder has the CSV of at least one modality and part."""
    return any(
        _there(folder / name / f"{name}_{part}0.csv")
        for name in _NAMES.values()
        for part in ("train", "test")
    )


def has_transcripts(folder: Path) -> bool:
    """Tell whether a folder says which utterance each row is."""
    return _there(folder / _TRANSCRIPTS) is not None


def read_csv_folder(folder: Path, context: int | None) -> RawSentiment:
    """Read the CSV files of utterances.

    Raises:
        DataError: a file is missing, a row is no row of numbers, rows differ between the files, or
            videos are wanted and no file says which row is of which.
    """
    parts: dict[str, Utterances] = {}
    files: list[Path] = []
    notes: list[str] = []
    said = _transcripts(folder, files)
    for part in ("train", "test"):
        features, labels = _modalities(folder, part, files)
        if said is None:
            if context != 0:
                raise DataError(
                    f"{folder} has no {_TRANSCRIPTS}, so that no row's video is known; add it, or "
                    "set context=0."
                )
            ids = [f"{part}-{number}" for number in range(len(labels))]
            parts[part] = Utterances(features, labels, ids, list(ids))
            continue
        lines = _lines(folder, part, features["text"], labels, said, files)
        order = sorted(range(len(lines)), key=lambda row, at=lines: said[at[row]].place)
        spoken = [said[lines[row]] for row in order]
        parts[part] = Utterances(
            features={modality: array[order] for modality, array in features.items()},
            labels=labels[order],
            videos=[each.video for each in spoken],
            ids=[each.id for each in spoken],
            texts=[each.text for each in spoken],
        )
    if said is None:
        notes.append(f"no {_TRANSCRIPTS}: neither words nor videos are known")
    return by_utterance("CSV of utterances", files, parts, context, notes)


def _there(path: Path) -> Path | None:
    """Give the file, or the gzip of it; None if there is neither."""
    both = (path, path.with_name(f"{path.name}.gz"))
    return next((each for each in both if each.is_file()), None)


def _found(path: Path, files: list[Path]) -> Path:
    found = _there(path)
    if found is None:
        raise DataError(f"{path} isn't there, nor {path.name}.gz; the folder needs it.")
    files.append(found)
    return found


def _modalities(
    folder: Path, part: str, files: list[Path]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Read the features of the three modalities, and the labels, which must be equal."""
    features: dict[str, np.ndarray] = {}
    labels: np.ndarray | None = None
    for modality in MODALITIES:
        name = _NAMES[modality]
        path = _found(folder / name / f"{name}_{part}0.csv", files)
        table = _table(path)
        found = binary(str(path), table[:, -1])
        if labels is None:
            labels = found
        if len(found) != len(labels):
            raise DataError(
                f"{path} has {len(found):,} rows, but {len(labels):,} are there for text; use "
                "files that belong together."
            )
        if (found != labels).any():
            row = int((found != labels).argmax())
            raise DataError(
                f"{path}, line {row + 1}: the label differs from that of text; use files that "
                "belong together."
            )
        features[modality] = table[:, :-1].astype(np.float32)
    assert labels is not None
    return features, labels


def _table(path: Path) -> np.ndarray:
    """Read rows of numbers, equally many in each."""
    rows: list[list[float]] = []
    for line, fields in csv_rows(path, read_lines(path)):
        try:
            rows.append([float(field) for field in fields])
        except ValueError:
            raise DataError(
                f"{path}, line {line}: expected numbers only, found {_odd(fields)!r}."
            ) from None
        if len(rows[-1]) != len(rows[0]) or len(fields) < 2:
            raise DataError(
                f"{path}, line {line}: {len(fields)} numbers instead of {len(rows[0])}; every row "
                "needs the same number, at least 2."
            )
    if not rows:
        raise DataError(f"{path} has no rows; expected numbers separated by commas.")
    return np.array(rows)


def _odd(fields: list[str]) -> str:
    """Find the first field that is no number."""
    for field in fields:
        try:
            float(field)
        except ValueError:
            return field[:40]
    return ""


@dataclass(frozen=True)
class _Spoken:
    """An utterance in the transcripts."""

    id: str
    video: str
    text: str
    label: str
    place: tuple[int, int]


def _transcripts(folder: Path, files: list[Path]) -> list[_Spoken] | None:
    """Read the transcripts, where they are: videos in the order in which they occur."""
    if not has_transcripts(folder):
        return None
    path = _found(folder / _TRANSCRIPTS, files)
    videos: dict[str, int] = {}
    said: list[_Spoken] = []
    for line, fields in csv_rows(path, read_lines(path)):
        video, _, number = fields[0].rpartition("_")
        if len(fields) != 4 or not video or not number.isdecimal():
            raise DataError(
                f"{path}, line {line}: expected video_number, words, video and label, found "
                f"{','.join(fields)[:60]!r}."
            )
        place = videos.setdefault(video, len(videos)), int(number)
        said.append(_Spoken(fields[0], video, fields[1], fields[3], place))
    if len({each.place for each in said}) < len(said):
        raise DataError(f"{path} has an utterance twice; correct it.")
    return said


def _lines(
    folder: Path,
    part: str,
    text: np.ndarray,
    labels: np.ndarray,
    said: list[_Spoken],
    files: list[Path],
) -> list[int]:
    """Find the line of the transcripts of each row, and check that row and line agree."""
    path = _found(folder / f"text_{part}.csv", files)
    table = _table(path)
    if table.shape != (len(text), text.shape[1] + 1):
        raise DataError(
            f"{path} has {table.shape[0]:,} rows of {table.shape[1]}, expected "
            f"{len(text):,} of {text.shape[1] + 1}: the number of a line of {_TRANSCRIPTS}, then "
            f"the features of {part}."
        )
    lines = table[:, 0]
    bad = (lines != np.rint(lines)) | (lines < 0) | (lines >= len(said))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{path}, line {row + 1}: {lines[row]:g} is no line of {_TRANSCRIPTS}, which has "
            f"{len(said):,}, counted from 0."
        )
    if len(np.unique(lines)) < len(lines):
        raise DataError(f"{path} names a line of {_TRANSCRIPTS} twice; correct it.")
    found = lines.astype(int).tolist()
    spoken = np.array([said[line].label for line in found])
    other = (spoken != labels.astype(str)) | (np.abs(table[:, 1:] - text) > _CLOSE).any(1)
    if other.any():
        raise DataError(
            f"{path}, line {int(other.argmax()) + 1}: features or label differ from those of text; "
            "use files that belong together."
        )
    return found
