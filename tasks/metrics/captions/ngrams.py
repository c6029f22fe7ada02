"""N-grams of whole lists of captions at once, each n-gram as one 64-bit number.

Ids take 16 bits each, the first word lowest, and are stored plus one, so that a shorter n-gram
has zeros above: numbers of different n never meet, and their order tells n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import CaptionScoreError

ORDERS = 4
MAX_ID = 2**16 - 2

_LARGEST = np.array([(1 << (16 * n)) - 1 for n in range(1, ORDERS)], np.uint64)

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Captions:
    """Captions one after the other.

    Attributes:
        ids: all ids, 0 to `MAX_ID`.
        lengths: number of ids of each caption.
    """

    ids: Ints
    lengths: Ints

    @classmethod
    def of(cls, captions: Sequence[Sequence[int]], end: int | None = None) -> Captions:
        """Join captions; `end`, if given, is added to each that doesn't close with it.

        Raises:
            CaptionScoreError: an id is negative or above `MAX_ID`.
        """
        if end is not None:
            closed = (caption if _closes(caption, end) else (*caption, end) for caption in captions)
            captions = list(closed)
        lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        ids = np.fromiter(chain.from_iterable(captions), np.int64, int(lengths.sum()))
        if len(ids) and (ids.min() < 0 or ids.max() > MAX_ID):
            raise CaptionScoreError(
                f"caption scoring takes word ids from 0 to {MAX_ID}, not "
                f"{ids.min() if ids.min() < 0 else ids.max()}; use a smaller vocabulary"
            )
        return cls(ids, lengths)

    @property
    def bigrams(self) -> Ints:
        """Number of bigrams of each caption."""
        return np.maximum(self.lengths - 1, 0)


def _closes(caption: Sequence[int], end: int) -> bool:
    return len(caption) > 0 and caption[-1] == end


def keys_of(captions: Captions) -> tuple[Keys, Ints]:
    """All n-grams of n = 1 to 4 as keys, repeated ones too, and the caption each stands in."""
    word = (captions.ids + 1).astype(np.uint64)
    caption = np.repeat(np.arange(len(captions.lengths)), captions.lengths)
    keys, owners = [word], [caption]
    for n in range(1, ORDERS):
        # The n-gram that starts here is the shorter one that starts here and the word n further.
        longer = keys[-1][: max(len(word) - n, 0)] | (word[n:] << np.uint64(16 * n))
        inside = caption[: len(longer)] == caption[n:]
        keys.append(longer)
        owners.append(np.where(inside, caption[: len(longer)], -1))
    joined, owner = np.concatenate(keys), np.concatenate(owners)
    return joined[owner >= 0], owner[owner >= 0]


def order_of(keys: Keys) -> Ints:
    """N - 1 of each key."""
    return np.searchsorted(_LARGEST, keys)


def key_of(ngram: Iterable[int]) -> int:
    """The key of one n-gram."""
    return sum((number + 1) << (16 * place) for place, number in enumerate(ngram))


@dataclass(frozen=True)
class Counts:
    """How often each n-gram stands in each caption.

    Attributes:
        keys: the different n-grams, sorted.
        caption, place, times: for every n-gram of every caption, sorted by caption and then
            place: the caption, the n-gram's place in `keys`, and how often it occurs there.
    """

    keys: Keys
    caption: Ints
    place: Ints
    times: Ints


def count(captions: Captions) -> Counts:
    """Count the n-grams of each caption."""
    keys, owner = keys_of(captions)
    unique, place = np.unique(keys, return_inverse=True)
    if not len(unique):
        none = np.zeros(0, np.int64)
        return Counts(unique, none, none, none)
    pairs, times = np.unique(owner * len(unique) + place, return_counts=True)
    return Counts(unique, pairs // len(unique), pairs % len(unique), times)


def find(keys: NDArray[Any], wanted: NDArray[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """The place of each wanted key among sorted keys, and whether it is there at all."""
    place = np.searchsorted(keys, wanted)
    if not len(keys):
        return place, np.zeros(len(wanted), bool)
    place = np.minimum(place, len(keys) - 1)
    return place, keys[place] == wanted
