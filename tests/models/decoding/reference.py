"""Beam search as a plain loop over items, beams and symbols: slow and easy to read."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from attnbench.models.decoding import LengthPenalty
from tests.models.decoding.markov import EOS, PAD, UNK, Markov


@dataclass(frozen=True)
class Options:
    width: int
    limit: int
    min_length: int = 1
    penalty: LengthPenalty = LengthPenalty()
    unk_penalty: float = 0.0
    temperature: float = 1.0


def search(model: Markov, item: int, options: Options, bos: int) -> list[tuple[list[int], float]]:
    """All finished hypotheses of one item, best first: (symbols, score)."""
    beams: list[tuple[list[int], np.float32]] = [([bos], np.float32(0))]
    found: list[tuple[list[int], float]] = []
    for step in range(options.limit + 1):
        candidates = []
        for beam, (symbols, total) in enumerate(beams):
            scores = _scores(model, item, step, symbols[-1], options)
            for symbol, score in enumerate(scores):
                if score > -math.inf:
                    candidates.append((-(total + score), beam, symbol))
        candidates.sort()
        best = candidates[: 2 * options.width]
        for total, beam, symbol in best[: options.width]:
            if symbol == EOS and len(found) < options.width:
                symbols = [*beams[beam][0][1:], EOS]
                found.append((symbols, options.penalty.score(-float(total), len(symbols))))
        if len(found) == options.width:
            break
        going = [one for one in best if one[2] != EOS][: options.width]
        beams = [([*beams[beam][0], symbol], -total) for total, beam, symbol in going]
        if not beams:
            break
    return sorted(found, key=lambda one: -one[1])


def _scores(model: Markov, item: int, step: int, last: int, options: Options) -> np.ndarray:
    table = model.table_ITVV[item, min(step, model.table_ITVV.shape[1] - 1), last]
    scores = (table / options.temperature).log_softmax(-1).numpy().copy()
    scores[UNK] -= np.float32(options.unk_penalty)
    scores[PAD] = -math.inf
    if step < options.min_length:
        scores[EOS] = -math.inf
    if step == options.limit:
        scores[np.arange(len(scores)) != EOS] = -math.inf
    return scores


def enumerate_all(
    model: Markov, item: int, limit: int, penalty: LengthPenalty, bos: int
) -> list[tuple[list[int], float]]:
    """Every possible output of at most ``limit`` symbols before eos, best first."""
    found: list[tuple[list[int], float]] = []

    def extend(symbols: list[int], total: float) -> None:
        step = len(symbols) - 1
        options = Options(1, limit, penalty=penalty)
        for symbol, score in enumerate(_scores(model, item, step, symbols[-1], options)):
            if score == -math.inf:
                continue
            if symbol == EOS:
                output = [*symbols[1:], EOS]
                found.append((output, penalty.score(total + float(score), len(output))))
            else:
                extend([*symbols, symbol], total + float(score))

    extend([bos], 0.0)
    return sorted(found, key=lambda one: -one[1])


def quantised(items: int, vocabulary: int, seed: int) -> Markov:
    """A model with many exact ties."""
    model = Markov.random(items, vocabulary, seed=seed)
    return Markov(torch.round(model.table_ITVV))
