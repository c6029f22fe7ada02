"""Caption metrics straight from their definitions, one caption at a time."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np

Words = Sequence[Hashable]


def ngrams(words: Words, n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def document_frequencies(references: Sequence[Sequence[Words]]) -> Counter:
    """In how many images each n-gram of 1 to 4 words occurs."""
    found: Counter = Counter()
    for captions in references:
        found.update({gram for words in captions for n in range(1, 5) for gram in ngrams(words, n)})
    return found


def cider(
    hypothesis: Words, captions: Sequence[Words], frequencies: Counter, images: int, d: bool
) -> float:
    """CIDEr (d false) or CIDEr-D (d true) of one hypothesis."""

    def vector(words: Words, n: int) -> dict:
        return {
            gram: times * (math.log(images) - math.log(max(1, frequencies[gram])))
            for gram, times in ngrams(words, n).items()
        }

    total = 0.0
    for words in captions:
        for n in range(1, 5):
            ours, theirs = vector(hypothesis, n), vector(words, n)
            lengths = [math.sqrt(sum(x * x for x in v.values())) for v in (ours, theirs)]
            dot = 0.0
            for gram, weight in ours.items():
                other = theirs.get(gram, 0.0)
                dot += (min(weight, other) if d else weight) * other
            cosine = dot / (lengths[0] * lengths[1]) if all(lengths) else 0.0
            if d:
                # Lengths are numbers of bigrams.
                apart = max(0, len(hypothesis) - 1) - max(0, len(words) - 1)
                cosine *= math.exp(-(apart**2) / (2 * 6.0**2))
            total += cosine / 4
    return 10 * total / len(captions)


def cider_scores(
    hypotheses: Sequence[Words],
    references: Sequence[Sequence[Words]],
    d: bool,
    counted: Sequence[Sequence[Words]] | None = None,
) -> np.ndarray:
    counted = references if counted is None else counted
    frequencies = document_frequencies(counted)
    return np.array(
        [
            cider(hypothesis, captions, frequencies, len(counted), d)
            for hypothesis, captions in zip(hypotheses, references, strict=True)
        ]
    )


def bleu(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    matched, guessed, ours, closest = [0] * 4, [0] * 4, 0, 0
    for hypothesis, captions in zip(hypotheses, references, strict=True):
        ours += len(hypothesis)
        closest += sorted((abs(len(c) - len(hypothesis)), len(c)) for c in captions)[0][1]
        for n in range(1, 5):
            for gram, times in ngrams(hypothesis, n).items():
                matched[n - 1] += min(times, max(ngrams(c, n)[gram] for c in captions))
                guessed[n - 1] += times
    penalty = min(1.0, math.exp(1 - closest / ours))
    precisions = [m / g for m, g in zip(matched, guessed, strict=True)]
    return [penalty * math.prod(precisions[:n]) ** (1 / n) for n in range(1, 5)]


def lcs(one: Words, other: Words) -> int:
    """Longest common subsequence by the table; `lcs_by_trying` is slower still."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def lcs_by_trying(one: Words, other: Words) -> int:
    def is_part(words: tuple) -> bool:
        rest = iter(other)
        return all(word in rest for word in words)

    return max(n for n in range(len(one) + 1) if any(map(is_part, combinations(one, n))))


def rouge_l(hypothesis: Words, captions: Sequence[Words]) -> float:
    if not hypothesis:
        return 0.0
    lengths = [lcs(hypothesis, words) for words in captions]
    precision = max(length / len(hypothesis) for length in lengths)
    recall = max(
        length / len(words) if words else 0.0
        for length, words in zip(lengths, captions, strict=True)
    )
    if precision == 0:
        return 0.0
    return (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)
