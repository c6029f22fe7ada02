"""Which sentences go together: batches bounded by padded tokens, the same for the same epoch."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .errors import DataError


class TokenBatches:
    """Batches of sentences of near-equal length; rows times the longest side never exceeds a bound.

    The batches of an epoch depend on (seed, epoch) alone, so they are the same on every machine and
    after every restart. Equal lengths are mixed anew in each epoch, then the order of the batches;
    the number of batches is the same in every epoch.

    Args:
        source_lengths: tokens of each source, ``</s>`` included (N).
        target_lengths: the same of the targets (N).
        max_tokens: bound on sentences times the longest source or target, padding included.
        max_sentences: bound on sentences, if any.
        seed: seed of the order.
        shuffle: False for evaluation: longest sentences first, the same order always.
        num_replicas: processes that share the batches.
        rank: number of this process. Every rank gets equally many batches; where they don't divide,
            the first batches of the epoch are given out again.
        too_long: whether a sentence longer than `max_tokens` is left out (counted in `dropped`) or
            is an error.
        name: what the sentences are, for that error.

    Attributes:
        dropped: number of sentences left out.
        plan: what the batches were made from; equal plans give equal batches.

    Raises:
        DataError: no sentence at all, or one that is too long where that is an error.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        num_replicas: int = 1,
        rank: int = 0,
        too_long: Literal["drop", "error"] = "drop",
        name: str = "the data",
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank {rank} of {num_replicas} replicas.")
        longest = np.maximum(source_lengths, target_lengths)
        if too_long == "error" and longest.max(initial=0) > max_tokens:
            line = int(longest.argmax())
            raise DataError(
                f"Line {line + 1} of {name} has {longest[line]} tokens, more than "
                f"max_tokens={max_tokens}; raise it, every line that is evaluated must be used."
            )
        rows = np.flatnonzero(longest <= max_tokens)
        if not len(rows):
            raise DataError(
                f"No sentence of {name} has at most max_tokens={max_tokens} tokens; raise it."
            )
        self.dropped = len(longest) - len(rows)
        # Sorted by the longer side, then by the shorter: little padding on both.
        shortest = np.minimum(source_lengths, target_lengths)
        self._rows = rows[np.lexsort((shortest[rows], longest[rows]))]
        self._longer, self._shorter = longest[self._rows], shortest[self._rows]
        self._bounds = _cut(self._longer, max_tokens, max_sentences)
        self._shuffle = shuffle
        self._replicas, self._rank = num_replicas, rank
        self.plan: dict[str, Any] = {
            "seed": seed,
            "max_tokens": max_tokens,
            "max_sentences": max_sentences,
            "num_replicas": num_replicas,
            "sentences": len(rows),
            "tokens": int(self._longer.sum() + self._shorter.sum()),
        }

    def __len__(self) -> int:
        """Give the number of batches that one rank gets in an epoch."""
        return -(-(len(self._bounds) - 1) // self._replicas)

    def batches(self, epoch: int = 0) -> list[np.ndarray]:
        """Give this rank's batches of an epoch in order, each an array of sentence numbers."""
        rows, bounds = self._rows, self._bounds
        order = np.arange(len(bounds) - 1)
        if self._shuffle:
            random = np.random.default_rng([self.plan["seed"], epoch])
            mixed = random.permutation(len(rows))
            rows = rows[mixed[np.lexsort((self._shorter[mixed], self._longer[mixed]))]]
            order = random.permutation(order)
        else:
            order = order[::-1]
        order = np.resize(order, len(self) * self._replicas)[self._rank :: self._replicas]
        return [rows[bounds[number] : bounds[number + 1]] for number in order]


def _cut(lengths: np.ndarray, max_tokens: int, max_sentences: int | None) -> np.ndarray:
    """Cut rising lengths into the fewest runs with (rows times longest) within the bound.

    Returns:
        The first position of each run and, last, the number of lengths.
    """
    bounds = [0]
    while (start := bounds[-1]) < len(lengths):
        most = min(max_tokens // int(lengths[start]), max_sentences or max_tokens)
        ahead = lengths[start : start + most]
        cost = ahead * np.arange(1, len(ahead) + 1)
        bounds.append(start + int(np.searchsorted(cost, max_tokens, side="right")))
    return np.array(bounds)
