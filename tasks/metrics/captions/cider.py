"""CIDEr and CIDEr-D over integer n-grams, fast enough to be a reward.

"CIDEr: Consensus-based Image Description Evaluation" (Vedantam, Zitnick, Parikh, 2015), equations
1 to 4 for CIDEr and the section on CIDEr-D, as the reference code computes them: term frequencies
are plain counts, the length penalty compares numbers of bigrams, the vectors of references whose
n-grams no document has weigh log N, and scores are times 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from .errors import CaptionScoreError
from .frequencies import DocumentFrequencies
from .ngrams import ORDERS, Captions, Counts, Ints, Keys, count, find, order_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SIGMA = 6.0
_PAIRS_AT_ONCE = 4096


@dataclass(frozen=True)
class PreparedReferences:
    """The vectors of the reference captions of many images, for `CiderScorer.score`.

    Attributes:
        keys, weights: every n-gram in use, sorted, and its weight (idf).
        place, times: for every n-gram of every caption its place in `keys` and its count.
        starts: where in `place` each caption begins, and the end of the last.
        norms: length of each caption's vector for n = 1 to 4, (captions, 4).
        bigrams: number of bigrams of each caption.
        first: number of each image's first caption, and the number of all captions.
        complete: whether `keys` holds every n-gram of the document frequencies.
    """

    keys: Keys
    weights: Floats
    place: NDArray[np.int32]
    times: NDArray[np.int32]
    starts: Ints
    norms: Floats
    bigrams: Ints
    first: Ints
    complete: bool

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.first) - 1


class CiderScorer:
    """CIDEr of hypotheses against prepared references, with given document frequencies.

    A caption is a sequence of word ids. The frequencies' `end`, if there is one, is added to
    references that lack it, but not to hypotheses: one that never ended has none, as in
    self-critical's rewards. A hypothesis that did end must hold it.
    """

    clipped = False
    """Whether a repeated n-gram counts no more often than in the reference."""
    sigma: float | None = None
    """Width of the penalty for a difference in length; None for no penalty."""

    def __init__(self, frequencies: DocumentFrequencies) -> None:
        self.frequencies = frequencies

    def prepare(self, references: Sequence[Sequence[Sequence[int]]]) -> PreparedReferences:
        """Make the vectors of the captions of each image.

        Raises:
            CaptionScoreError: an image without captions, or an id that is out of range.
        """
        sizes = [len(captions) for captions in references]
        if 0 in sizes:
            raise CaptionScoreError(
                f"image number {sizes.index(0)} (from 0) has no reference caption; leave it out"
            )
        if not any(map(len, chain.from_iterable(references))):
            raise CaptionScoreError("every reference caption is empty; check the tokenisation")
        captions = Captions.of(list(chain.from_iterable(references)), self.frequencies.end)
        counts = count(captions)
        weights = self.frequencies.idf(counts.keys)
        return PreparedReferences(
            keys=counts.keys,
            weights=weights,
            place=counts.place.astype(np.int32),
            times=counts.times.astype(np.int32),
            starts=np.searchsorted(counts.caption, np.arange(len(captions.lengths) + 1)),
            norms=_norms(counts, weights, len(captions.lengths)),
            bigrams=captions.bigrams,
            first=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
            complete=bool(find(counts.keys, self.frequencies.keys)[1].all()),
        )

    def score(
        self,
        hypotheses: Sequence[Sequence[int]],
        prepared: PreparedReferences,
        index: Sequence[int] | Ints | None = None,
    ) -> Floats:
        """Score each hypothesis against the references of its image.

        Args:
            hypotheses: word ids; any number for an image, in any order.
            prepared: what `prepare` gave.
            index: the image of each hypothesis, as its place in the prepared references; None
                for one hypothesis an image, in order.

        Returns:
            One score a hypothesis; 10 is the most, and 0 for a hypothesis without words.

        Raises:
            CaptionScoreError: as many images as hypotheses aren't named, or one is out of range.
        """
        image = np.arange(len(prepared)) if index is None else np.asarray(index, np.int64)
        if image.shape != (len(hypotheses),):
            raise CaptionScoreError(
                f"{len(hypotheses)} hypotheses need as many image numbers, not {image.size}"
            )
        if len(image) and (image.min() < 0 or image.max() >= len(prepared)):
            raise CaptionScoreError(
                f"image numbers must be from 0 to {len(prepared) - 1}, not "
                f"{image.min() if image.min() < 0 else image.max()}"
            )
        scores = np.zeros(len(hypotheses))
        for part in _parts(image, prepared.first):
            captions = Captions.of([hypotheses[number] for number in part])
            scores[part] = self._score(captions, prepared, image[part])
        return scores

    def _score(self, captions: Captions, prepared: PreparedReferences, image: Ints) -> Floats:
        """Score hypotheses that are in the order of their images."""
        counts = count(captions)
        place, known = find(prepared.keys, counts.keys)
        idf = self._idf(counts.keys, prepared, place, known)
        norms = _norms(counts, idf, len(image))

        # Every pair of a hypothesis and one of its references.
        per_image = prepared.first[image + 1] - prepared.first[image]
        hypothesis = np.repeat(np.arange(len(image)), per_image)
        reference = _ranges(prepared.first[image], per_image)
        ours, theirs, pair = _meetings(counts, place, known, prepared, image)
        # Both weights have the same idf, which is never negative: clipping counts clips weights.
        shared = np.minimum(counts.times[ours], theirs) if self.clipped else counts.times[ours]
        ngram = counts.place[ours]
        cell = pair * ORDERS + order_of(counts.keys)[ngram]
        products = shared * theirs * (idf**2)[ngram]
        dots = np.bincount(cell, products, len(hypothesis) * ORDERS).reshape(-1, ORDERS)

        lengths = norms[hypothesis] * prepared.norms[reference]
        cosines = np.divide(dots, lengths, out=np.zeros(dots.shape), where=lengths != 0)
        similarity = cosines.mean(axis=1)
        if self.sigma is not None:
            apart = captions.bigrams[hypothesis] - prepared.bigrams[reference]
            similarity *= np.exp(-(apart**2) / (2 * self.sigma**2))
        return 10 * np.bincount(hypothesis, similarity, len(image)) / per_image

    def _idf(self, keys: Keys, prepared: PreparedReferences, place: Ints, known: Flags) -> Floats:
        if prepared.complete:
            return np.where(known, prepared.weights[place], np.log(self.frequencies.documents))
        return np.where(known, prepared.weights[place], self.frequencies.idf(keys))


def _meetings(
    counts: Counts, place: Ints, known: Flags, prepared: PreparedReferences, image: Ints
) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Find every n-gram that a hypothesis shares with a reference of its image.

    Args:
        counts: the hypotheses' n-grams.
        place, known: where they are among the references' n-grams, and whether.
        image: the image of each hypothesis, in ascending order.

    Returns:
        For each: its number among the hypotheses' entries, how often the reference has it, and
        the number of the pair of hypothesis and reference.
    """
    images, group = np.unique(image, return_inverse=True)
    per_image = prepared.first[images + 1] - prepared.first[images]
    reference = _ranges(prepared.first[images], per_image)
    group_of_reference = np.repeat(np.arange(len(images)), per_image)

    # The hypotheses' entries by image and n-gram.
    code = group[counts.caption] * len(counts.keys) + counts.place
    order = np.argsort(code, kind="stable")
    codes, start, size = np.unique(code[order], return_index=True, return_counts=True)

    # The references' entries by the same, where a hypothesis has the n-gram at all.
    sizes = prepared.starts[reference + 1] - prepared.starts[reference]
    entry = _ranges(prepared.starts[reference], sizes)
    column, shared = find(place[known], prepared.place[entry])
    row = np.repeat(np.arange(len(reference)), sizes)[shared]
    wanted = group_of_reference[row] * len(counts.keys) + np.flatnonzero(known)[column[shared]]
    run, met = find(codes, wanted)
    run, row, entry = run[met], row[met], entry[shared][met]

    # One entry of a reference meets those of all hypotheses of the image.
    ours = order[_ranges(start[run], size[run])]
    row, entry = np.repeat(row, size[run]), np.repeat(entry, size[run])
    first_pair = np.concatenate([[0], np.cumsum(per_image[group])])
    within = reference[row] - prepared.first[images[group_of_reference[row]]]
    return ours, prepared.times[entry], first_pair[counts.caption[ours]] + within


class CiderDScorer(CiderScorer):
    """CIDEr-D: clipped counts and a Gaussian penalty on the difference in length."""

    clipped = True
    sigma = SIGMA


def _norms(counts: Counts, weights: Floats, captions: int) -> Floats:
    """Length of each caption's vector for n = 1 to 4, (captions, 4)."""
    squares = (counts.times * weights[counts.place]) ** 2
    cell = counts.caption * ORDERS + order_of(counts.keys)[counts.place]
    return np.sqrt(np.bincount(cell, squares, captions * ORDERS)).reshape(-1, ORDERS)


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, … of each range, one range after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - sizes), sizes)


def _parts(image: Ints, first: Ints) -> Iterator[Ints]:
    """Cut the hypotheses, ordered by image, into parts of a bounded number of pairs."""
    order = np.argsort(image, kind="stable")
    pairs = np.cumsum((first[image + 1] - first[image])[order])
    part = pairs // _PAIRS_AT_ONCE if len(pairs) else pairs
    for piece in np.split(order, np.flatnonzero(np.diff(part)) + 1):
        if len(piece):
            yield piece
