"""Which sentences go together: batches bounded by padded tokens, in a resumable order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from torch.utils.data import Sampler

from .errors import DataError


class TokenBatchSampler(Sampler[list[int]]):
    """Batches of sentences of near-equal length; rows times the longest side never exceeds a bound.

    The batches of an epoch depend on (seed, epoch) alone, so they are the same on every machine and
    after every restart. Equal lengths are mixed anew in each epoch, then the order of the batches;
    the number of batches is the same in every epoch. Iterating goes on where `load_state_dict` or
    the last iteration stopped, up to the end of that epoch.

    Args:
        source_lengths: tokens of each source, ``</s>`` included (N).
        target_lengths: the same of the targets (N).
        max_tokens: bound on sentences times the longest source or target, padding included.
        max_sentences: bound on sentences, if any.
        seed: seed of the order.
        shuffle: False for evaluation: longest sentences first, the same order always.
        num_replicas: processes that share the batches.
        rank: number of this process. Every rank gets equally many batches; where they don't divide,
            the first batches are given out again.
        too_long: whether a sentence longer than `max_tokens` is left out (counted in `dropped`) or
            is an error.
        name: what the sentences are, for that error.

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
            raise DataError(f"No sentence has at most max_tokens={max_tokens} tokens; raise it.")
        self.dropped = len(longest) - len(rows)
        # Sorted by the longer side, then by the shorter: little padding on both.
        shortest = np.minimum(source_lengths, target_lengths)
        self._rows = rows[np.lexsort((shortest[rows], longest[rows]))]
        self._lengths = longest[self._rows]
        self._classes = np.stack([self._lengths, shortest[self._rows]])
        self._bounds = _cut(self._lengths, max_tokens, max_sentences)
        self._shuffle = shuffle
        self._replicas, self._rank = num_replicas, rank
        self._plan = {
            "seed": seed,
            "max_tokens": max_tokens,
            "max_sentences": max_sentences,
            "num_replicas": num_replicas,
            "sentences": len(rows),
            "tokens": int(self._lengths.sum()),
        }
        self._epoch = 0
        self._done = 0

    def __len__(self) -> int:
        """Give the number of batches that one rank gets in a whole epoch."""
        return -(-(len(self._bounds) - 1) // self._replicas)

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches(self._epoch)
        for number in range(self._done, len(batches)):
            # Before the batch is given out: whoever stops after it goes on with the next one.
            self.advance()
            yield batches[number].tolist()

    def advance(self) -> None:
        """Count one batch as used."""
        self._done += 1
        if self._done == len(self):
            self._epoch += 1
            self._done = 0

    def state_dict(self) -> dict[str, Any]:
        """Give the place in the sequence of batches, and what that sequence was made from."""
        return {"epoch": self._epoch, "batches": self._done, "plan": dict(self._plan)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on at a stored place.

        Raises:
            DataError: the place belongs to another sequence of batches.
        """
        changed = [key for key, value in self._plan.items() if state["plan"].get(key) != value]
        if changed:
            details = ", ".join(
                f"{key} was {state['plan'].get(key)} and is {self._plan[key]}" for key in changed
            )
            raise DataError(
                f"The checkpoint can't be continued with other batches: {details}; use the "
                "settings and data that it was trained with, or start anew."
            )
        self._epoch, self._done = int(state["epoch"]), int(state["batches"])

    def _batches(self, epoch: int) -> list[np.ndarray]:
        """Give this rank's batches of an epoch, each an array of sentence numbers."""
        rows, bounds = self._rows, self._bounds
        order = np.arange(len(bounds) - 1)
        if self._shuffle:
            random = np.random.default_rng([self._plan["seed"], epoch])
            mixed = random.permutation(len(rows))
            longer, shorter = self._classes
            rows = rows[mixed[np.lexsort((shorter[mixed], longer[mixed]))]]
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
