"""Writer of the sentiment demo: MulT's pickles, aligned and not, of an invented language.

Each item has one sentiment word among filler words. The word has a polarity of +1 or -1 and a
strength of 0 to 3. Somewhere else in time, in the audio of one half of the items and in the
vision of the other, lies a cue: two steps, of which the first has a value v and the second -v (a
rise or a fall). The label is polarity x strength x sign of v; -inf in the channel of the audio's
loudness stands for silence, as in the real files.

What follows from that, whatever the model:

- Polarity and cue are fair coins and independent. So the sign of a label is a fair coin given the
  text alone, and given audio and vision alone: no unimodal model is right about the sign of more
  than half of the labels that aren't 0. Text and one other stream reach three quarters.
- The same streams averaged over each word's time (the aligned file) lose a cue whose two steps fall
  to the same word, for v and -v cancel: two thirds of all cues are such. A model that reads aligned
  streams is right about at most 1/3 + 1/2 x 2/3 = two thirds of the signs, and with text and one
  other stream about 7/12.

Nothing bounds late fusion, nor a Transformer over all streams one after the other: they see all.
Measured with the preset smoke, that early fusion is at chance after 400 and 600 updates with one
layer of the width that gives it MulT's number of parameters, and right about all signs after 600
with two layers; so its row tells how fast a model learns here and not what it could.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .folder import write_folder

FILES = {"aligned": "demo_data.pkl", "unaligned": "demo_data_noalign.pkl"}
DIMS = {"text": 16, "audio": 10, "vision": 12}
STEPS = {"text": (8, 12), "audio": (24, 36), "vision": (16, 24)}
"""Fewest and most steps of a stream; arrays are padded with zeros in front, to the most."""
SPLIT_SHARE = 1 / 3
"""Share of the cues whose two steps fall to different words, so that averaging leaves them."""

_SCALE = 2.0
_NOISE = 0.2
_FILLERS = 20
_NEUTRAL = 0.1
_SILENCE = 0.01
_VIDEO = 4


def write_sentiment_demo(
    root: Path, *, seed: int = 0, train: int = 2400, val: int = 300, test: int = 600
) -> Path:
    """Write ``demo_data.pkl`` (aligned) and ``demo_data_noalign.pkl`` in one step.

    The same arguments give the same bytes under the same version of numpy.

    Args:
        root: the folder; made if it is missing. Running again with the same arguments changes
            nothing.
        seed: seed of the items.
        train: number of training items.
        val: number of validation items.
        test: number of test items.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, is the current one, or can't be read or written.
    """
    parts = draw_parts(seed, {"train": train, "valid": val, "test": test})
    contents = {
        name: pickle.dumps(
            {part: drawn.as_in_file(which) for part, drawn in parts.items()}, protocol=4
        )
        for which, name in FILES.items()
    }
    return write_folder(Path(root), contents)


def has_sentiment_demo(root: Path) -> bool:
    """Tell whether a folder holds this demo."""
    return any((root / name).is_file() for name in FILES.values())


@dataclass(frozen=True)
class DemoPart:
    """N drawn items, with what only the writer knows.

    Attributes:
        streams: (N, T, F) padded, by ``unaligned`` and ``aligned`` and by modality.
        labels: (N, 1).
        polarity: of the sentiment word, (N,).
        cue: sign of the cue, (N,).
        place: modality of the cue, (N,).
        split: whether the two steps of the cue fall to different words, (N,).
        ids: (N, 3) video, start and end.
    """

    streams: dict[str, dict[str, np.ndarray]]
    labels: np.ndarray
    polarity: np.ndarray
    cue: np.ndarray
    place: np.ndarray
    split: np.ndarray
    ids: np.ndarray

    def as_in_file(self, which: str) -> dict[str, Any]:
        """Give the part as MulT's pickles have it."""
        arrays = {name: self.streams[which][name] for name in ("vision", "audio", "text")}
        return {**arrays, "labels": self.labels[:, :, None], "id": self.ids}


def draw_parts(seed: int, sizes: dict[str, int]) -> dict[str, DemoPart]:
    """Draw the items of each part, given by its number of items."""
    random, looks = np.random.default_rng(seed), _looks()
    return {
        name: _part(name, [_draw(random, looks) for _ in range(size)])
        for name, size in sizes.items()
    }


@dataclass(frozen=True)
class _Looks:
    """What the streams' features are made from, the same in every demo.

    Attributes:
        value: (F,) by modality: the direction of polarity in text, of the cue's value elsewhere.
        first: (F,) by modality: marks a sentiment word, or the first step of a cue.
        second: (F,) by modality: the strength of a word, or the mark of a cue's second step.
        fillers: (words, F) of text.
    """

    value: dict[str, np.ndarray]
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]
    fillers: np.ndarray


@dataclass(frozen=True)
class _Item:
    streams: dict[str, np.ndarray]
    aligned: dict[str, np.ndarray]
    polarity: int
    strength: int
    cue: int
    place: str
    split: bool


def _looks() -> _Looks:
    random = np.random.default_rng(0)
    bases: dict[str, np.ndarray] = {}
    for name, dim in DIMS.items():
        loud = int(name == "audio")  # its first channel is the loudness, which means nothing
        square, _ = np.linalg.qr(random.normal(size=(dim - loud, dim - loud)))
        bases[name] = np.pad(_SCALE * square, ((0, 0), (loud, 0)))
    return _Looks(
        value={name: basis[0] for name, basis in bases.items()},
        first={name: basis[1] for name, basis in bases.items()},
        second={name: basis[2] for name, basis in bases.items()},
        fillers=0.25 * random.normal(size=(_FILLERS, DIMS["text"] - 3)) @ bases["text"][3:],
    )


def _draw(random: np.random.Generator, looks: _Looks) -> _Item:
    polarity, cue = (int(sign) for sign in random.choice((-1, 1), 2))
    strength = 0 if random.random() < _NEUTRAL else int(random.integers(1, 4))
    place = str(random.choice(("audio", "vision")))
    split = bool(random.random() < SPLIT_SHARE)
    words = int(random.integers(STEPS["text"][0], STEPS["text"][1] + 1))
    word = int(random.integers(words))
    text = looks.fillers[random.integers(_FILLERS, size=words)]
    text[word] = (
        looks.first["text"]
        + polarity * looks.value["text"]
        + (strength - 1.5) * looks.second["text"]
    )
    edges = np.cumsum(random.uniform(0.8, 1.2, words))
    streams = {"text": text + _NOISE * random.normal(size=text.shape)}
    aligned = dict(streams)
    for name in ("audio", "vision"):
        sign = cue if name == place else 0
        ends = edges / edges[-1]
        streams[name], owner = _stream(random, looks, name, ends, word, sign, split)
        aligned[name] = np.stack([streams[name][owner == each].mean(0) for each in range(words)])
    return _Item(streams, aligned, polarity, strength, cue, place, split)


def _stream(
    random: np.random.Generator,
    looks: _Looks,
    name: str,
    edges: np.ndarray,
    word: int,
    sign: int,
    split: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Give the steps (T, F) of audio or vision, and the word to whose time each belongs (T,).

    Args:
        random: what is drawn from.
        looks: what the features are made from.
        name: the modality.
        edges: end of each word, as a share of the whole time.
        word: the sentiment word; a cue is not at its time nor at its neighbours'.
        sign: of the cue's value; 0 for no cue.
        split: whether the two steps of the cue belong to different words.
    """
    while True:
        steps = int(random.integers(STEPS[name][0], STEPS[name][1] + 1))
        owner = np.searchsorted(edges, (np.arange(steps) + 0.5) / steps)
        far = (np.abs(owner[:-1] - word) > 1) & (np.abs(owner[1:] - word) > 1)
        possible = np.flatnonzero(far & ((owner[:-1] != owner[1:]) == split))
        if len(possible) and len(set(owner.tolist())) == len(edges):
            break
    stream = _NOISE * random.normal(size=(steps, DIMS[name]))
    if sign:
        at = int(random.choice(possible))
        stream[at] += looks.first[name] + sign * looks.value[name]
        stream[at + 1] += looks.second[name] - sign * looks.value[name]
    if name == "audio":
        stream[random.random(steps) < _SILENCE, 0] = -np.inf
    return stream, owner


def _part(name: str, items: list[_Item]) -> DemoPart:
    most = {modality: limits[1] for modality, limits in STEPS.items()}
    streams = {
        "unaligned": {m: _padded([item.streams[m] for item in items], most[m]) for m in DIMS},
        "aligned": {m: _padded([item.aligned[m] for item in items], most["text"]) for m in DIMS},
    }
    places = np.arange(len(items))
    start = 5 * (places % _VIDEO)
    videos = np.char.add(f"{name}-", (places // _VIDEO).astype(str))
    labels = [item.polarity * item.strength * item.cue for item in items]
    return DemoPart(
        streams=streams,
        labels=np.array(labels, np.float32)[:, None],
        polarity=np.array([item.polarity for item in items]),
        cue=np.array([item.cue for item in items]),
        place=np.array([item.place for item in items]),
        split=np.array([item.split for item in items]),
        ids=np.stack([videos, start.astype(str), (start + 5).astype(str)], axis=1),
    )


def _padded(streams: list[np.ndarray], steps: int) -> np.ndarray:
    """Put zeros in front of each, (N, steps, F) float32."""
    out = np.zeros((len(streams), steps, streams[0].shape[1]), np.float32)
    for number, stream in enumerate(streams):
        out[number, steps - len(stream) :] = stream
    return out
