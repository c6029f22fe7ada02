"""Data by utterance (CMU-MOSI): one vector an utterance and modality, and a binary label.

An item is an utterance with its neighbours in the video as its three sequences, and the step that
stands for it is its own. Read here are pickles of Python 2, one a modality, with the utterances of
each video filled up to those of the longest; and an ``.npz`` of all utterances with the number of
their video, their position in it and their part. `sentiment_csv` reads the same from CSV files.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .pickles import read_pickle
from .sentiment_fields import as_array, describe, modality_of
from .sentiment_records import MODALITIES, PARTS, RawPart, RawSentiment

_ARRAYS = {"text", "audio", "video", "label", "video_id", "position", "split"}
_SPLITS = {0: "train", 1: "test", 2: "val"}
_FIELDS = 7


@dataclass(frozen=True)
class Utterances:
    """One part: U utterances, those of a video beside each other and in its order.

    Attributes:
        features: (U, F) float32 by modality.
        labels: (U,) 0 or 1.
        videos: (U,) the video of each.
        ids: (U,) unique names.
        texts: (U,) transcripts, where the files have them.
    """

    features: dict[str, np.ndarray]
    labels: np.ndarray
    videos: list[str]
    ids: list[str]
    texts: list[str] | None = None


def in_context(part: Utterances, context: int | None) -> RawPart:
    """Make an item of each utterance: itself and its neighbours in the video.

    Args:
        part: U utterances.
        context: neighbours on each side, as far as the video goes; None: the whole video.
    """
    videos = np.unique(np.array(part.videos), return_inverse=True)[1]
    place_U = np.arange(len(videos))
    starts = np.flatnonzero(np.r_[True, videos[1:] != videos[:-1]])
    run_U = np.searchsorted(starts, place_U, side="right") - 1
    first_U, stop_U = starts[run_U], np.r_[starts[1:], len(videos)][run_U]
    if context is not None:
        first_U = np.maximum(first_U, place_U - context)
        stop_U = np.minimum(stop_U, place_U + context + 1)
    lengths_U = (stop_U - first_U).astype(np.int64)
    index_UT = first_U[:, None] + np.arange(lengths_U.max())
    real_UT1 = (index_UT < stop_U[:, None])[..., None]
    index_UT = np.minimum(index_UT, len(videos) - 1)
    read_at_U = (place_U - first_U).astype(np.int64)
    return RawPart(
        ids=part.ids,
        groups=part.videos,
        features={m: np.where(real_UT1, x[index_UT], 0) for m, x in part.features.items()},
        lengths=dict.fromkeys(part.features, lengths_U),
        labels=part.labels.reshape(-1, 1).astype(np.float32),
        read_at=dict.fromkeys(part.features, read_at_U),
        texts=part.texts,
    )


def by_utterance(
    layout: str,
    files: Sequence[Path],
    parts: Mapping[str, Utterances],
    context: int | None,
    notes: Sequence[str] = (),
) -> RawSentiment:
    """Put items of all parts together and say what there is."""
    found = {name: in_context(parts[name], context) for name in PARTS if name in parts}
    videos = ", ".join(f"{name} {len(set(parts[name].videos)):,}" for name in found)
    ones = ", ".join(f"{name} {parts[name].labels.mean():.3f}" for name in found)
    seen = "its whole video" if context is None else f"{context} neighbours on each side"
    said = [f"videos: {videos}", f"share of label 1: {ones}", f"an utterance is seen with {seen}"]
    return RawSentiment(
        layout, list(files), found, "binary", notes=[*describe(found), *said, *notes]
    )


def binary(where: str, labels: np.ndarray) -> np.ndarray:
    """Check that labels are 0 or 1, and give them as int64.

    Raises:
        DataError: other values, or three classes and more.
    """
    if labels.dtype.kind not in "fiub" or not np.isin(labels, (0, 1)).all():
        values = ", ".join(map(str, np.unique(labels.astype(str))[:5].tolist()))
        raise DataError(f"{where} has labels such as {values}; only 0 and 1 are read.")
    return labels.astype(np.int64)


def is_npz_by_video(path: Path) -> bool:
    """Tell whether an ``.npz`` has the arrays of utterances by video."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return {f"{name}.npy" for name in _ARRAYS} <= set(archive.namelist())


def read_npz(path: Path, context: int | None) -> RawSentiment:
    """Read an ``.npz`` of utterances by video.

    Raises:
        DataError: it can't be read, arrays don't fit together, or a part or label is unknown.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in sorted(_ARRAYS)}
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} can't be read ({error}); fetch it anew.") from None
    _check_npz(path, arrays)
    labels = binary(str(path), arrays["label"])
    order = np.lexsort((arrays["position"], arrays["video_id"]))
    parts: dict[str, Utterances] = {}
    for number, name in _SPLITS.items():
        rows = order[arrays["split"][order] == number]
        if len(rows):
            videos = [f"video{video}" for video in arrays["video_id"][rows].tolist()]
            places = arrays["position"][rows].tolist()
            parts[name] = Utterances(
                features={m: arrays[_array(m)][rows].astype(np.float32) for m in MODALITIES},
                labels=labels[rows],
                videos=videos,
                ids=[f"{v}_{place + 1}" for v, place in zip(videos, places, strict=True)],
            )
    return by_utterance("npz of utterances by video", [path], parts, context)


def _array(modality: str) -> str:
    return "video" if modality == "vision" else modality


def _check_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        rank = 2 if modality_of(name) else 1
        if array.ndim != rank or array.dtype.kind not in ("fiu" if rank == 2 else "iu"):
            raise DataError(
                f"{name} of {path} has shape {array.shape} of {array.dtype}; expected "
                f"{'(utterances, width)' if rank == 2 else 'a whole number for each utterance'}."
            )
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1 or not len(arrays["label"]):
        said = ", ".join(f"{number:,} of {name}" for name, number in counts.items())
        raise DataError(f"{path} has unequal numbers of utterances or none ({said}).")
    unknown = sorted(set(arrays["split"].tolist()) - set(_SPLITS))
    if unknown:
        raise DataError(
            f"{path} has part {unknown[0]}; 0 is train, 1 test, 2 val, and there are no others."
        )
    places = np.stack((arrays["video_id"], arrays["position"]), 1)
    if len(np.unique(places, axis=0)) < len(places):
        raise DataError(f"{path} has two utterances at one position of a video; correct it.")


@dataclass(frozen=True)
class _Videos:
    """What a pickle of one modality holds of one part: V videos of at most U utterances."""

    features_VUF: np.ndarray
    labels_VU: np.ndarray
    lengths_V: np.ndarray


def is_utterance_pickle(content: Any) -> bool:
    """Tell whether a pickle holds data, labels and lengths of videos of two parts."""
    return isinstance(content, (tuple, list)) and len(content) == _FIELDS


def pickle_modality(path: Path) -> str | None:
    """Give the modality in a file's name, such as ``audio_2way.pickle``; None without one."""
    words = re.split(r"[^a-z]+", path.name.lower())
    return next((found for word in words if (found := modality_of(word))), None)


def read_utterance_pickles(paths: Sequence[Path], context: int | None) -> RawSentiment:
    """Read the pickles of the three modalities, which belong together.

    Each holds seven things: features (V, U, F) and labels (V, U) or (V, U, 2) of the training
    videos, the same of the test videos, the most utterances U of a video, and the numbers of
    utterances of the training and of the test videos.

    Raises:
        DataError: a modality is missing or there twice, something else in a file, or numbers that
            differ between modalities.
    """
    folder = paths[0].parent
    named = {m: [p for p in paths if pickle_modality(p) == m] for m in MODALITIES}
    missing = [modality for modality, files in named.items() if not files]
    if missing:
        raise DataError(
            f"{folder} has no pickle of {' and none of '.join(missing)} (only "
            f"{', '.join(p.name for p in paths)}); text, audio and vision are needed."
        )
    for modality, files in named.items():
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise DataError(f"{folder} has {modality} in several files ({names}); keep one.")
    files = [files[0] for files in named.values()]
    read = {m: _videos(file) for m, file in zip(MODALITIES, files, strict=True)}
    parts: dict[str, Utterances] = {}
    before = 0
    for name in ("train", "test"):
        parts[name] = _joined(folder, name, {m: read[m][name] for m in MODALITIES}, before)
        before += len(read["text"][name].lengths_V)
    notes = ["videos are numbered as they come, training ones first"]
    return by_utterance("Python-2 pickles of utterances by video", files, parts, context, notes)


def _videos(path: Path) -> dict[str, _Videos]:
    content = read_pickle(path)
    if not is_utterance_pickle(content):
        raise DataError(
            f"{path} doesn't hold features, labels and lengths of training and test videos; use "
            "the files as they are published."
        )
    found: dict[str, _Videos] = {}
    for name, place in (("train", 0), ("test", 2)):
        features, labels = as_array(content[place]), as_array(content[place + 1])
        lengths = as_array(content[5 + place // 2])
        where = f"{path}, part {name}"
        if labels.ndim == 3 and labels.shape[2] == 2:
            labels = labels.argmax(2)
        if (
            features.ndim != 3
            or features.dtype.kind not in "fiu"
            or labels.shape != features.shape[:2]
            or lengths.shape != features.shape[:1]
            or lengths.dtype.kind not in "iu"
            or not 0 < lengths.min() <= lengths.max() <= features.shape[1]
        ):
            raise DataError(
                f"{where} has features {features.shape}, labels {labels.shape} and lengths "
                f"{lengths.shape}; expected (videos, utterances, width), (videos, utterances) and "
                "(videos,) from 1 to the number of utterances, for two classes."
            )
        found[name] = _Videos(features, labels, lengths)
    return found


def _joined(folder: Path, name: str, read: Mapping[str, _Videos], before: int) -> Utterances:
    """Take the real utterances of all videos, one after the other."""
    lengths_V = read["text"].lengths_V
    for modality, videos in read.items():
        if not np.array_equal(videos.lengths_V, lengths_V):
            raise DataError(
                f"The pickles in {folder} don't belong together: part {name} has other numbers of "
                f"videos or utterances for {modality} than for text."
            )
    reals = {
        modality: np.arange(videos.labels_VU.shape[1]) < lengths_V[:, None]
        for modality, videos in read.items()
    }
    labels = {modality: videos.labels_VU[reals[modality]] for modality, videos in read.items()}
    for modality, each in labels.items():
        if not np.array_equal(each, labels["text"]):
            raise DataError(
                f"The pickles in {folder} don't belong together: part {name} has other labels for "
                f"{modality} than for text."
            )
    videos = np.repeat(np.arange(len(lengths_V)) + before, lengths_V).tolist()
    places = np.concatenate([np.arange(number) for number in lengths_V]).tolist()
    return Utterances(
        features={m: v.features_VUF[reals[m]].astype(np.float32) for m, v in read.items()},
        labels=binary(f"{folder}, part {name}", labels["text"]),
        videos=[f"video{video}" for video in videos],
        ids=[f"video{v}_{place + 1}" for v, place in zip(videos, places, strict=True)],
    )
