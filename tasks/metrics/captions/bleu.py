"""BLEU of captions: corpus level, against several references, as COCO's evaluation counts it.

"BLEU: a Method for Automatic Evaluation of Machine Translation" (Papineni et al., 2002). The
reference length of an image is the one closest to the hypothesis', the shorter of two as close.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ORDERS = 4

# What the reference code adds so that an empty hypothesis gives about 0 and never an error.
_TINY, _SMALL = 1e-15, 1e-9

Tokens = Sequence[str]


def bleu_counts(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.int64]:
    """Add up what corpus BLEU is made of.

    Returns:
        Ten numbers: matched n-grams for n = 1 to 4, n-grams of the hypotheses for n = 1 to 4,
        tokens of the hypotheses, tokens of the closest references.
    """
    total = np.zeros(2 * ORDERS + 2, np.int64)
    for hypothesis, captions in zip(hypotheses, references, strict=True):
        most: Counter[tuple[str, ...]] = Counter()
        for caption in captions:
            most |= _ngrams(caption)
        length = len(hypothesis)
        for ngram, times in _ngrams(hypothesis).items():
            total[len(ngram) - 1] += min(times, most[ngram])
        total[ORDERS : 2 * ORDERS] += [max(0, length - n) for n in range(ORDERS)]
        lengths = map(len, captions)
        total[-2:] += (length, min(lengths, key=lambda given: (abs(given - length), given)))
    return total


def bleu(counts: Sequence[int] | NDArray[np.int64]) -> list[float]:
    """BLEU-1 to BLEU-4 from `bleu_counts`, 0 to 1, with the brevity penalty."""
    matched, guessed = counts[:ORDERS], counts[ORDERS : 2 * ORDERS]
    length, closest = counts[-2:]
    ratio = (length + _TINY) / (closest + _SMALL)
    penalty = math.exp(1 - 1 / ratio) if 0 < ratio < 1 else 1.0
    product, scores = 1.0, []
    for n in range(ORDERS):
        product *= (float(matched[n]) + _TINY) / (float(guessed[n]) + _SMALL)
        scores.append(product ** (1 / (n + 1)) * penalty)
    return scores


def _ngrams(tokens: Tokens) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(tokens[start : start + n])
        for n in range(1, ORDERS + 1)
        for start in range(len(tokens) - n + 1)
    )
