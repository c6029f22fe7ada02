"""Loaders of translation batches; the one for training can be resumed in the middle of an epoch.

They are plain iterables, not torch DataLoaders: gathering a batch from flat arrays takes far less
than a training step, so no worker is needed; torch's global random state is left alone; and
Lightning takes an iterable as it is, where it would put a sampler of its own into a DataLoader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .batch import TranslationBatch
from .batching import TokenBatches
from .errors import DataError
from .store import TokenStore
from .vocabulary import EOS, PAD


@dataclass(frozen=True)
class Pairs:
    """N pairs of sentences.

    Attributes:
        source: the source sentences.
        target: the target sentences.
        lines: line numbers to put into ``index_B`` (N).
    """

    source: TokenStore
    target: TokenStore
    lines: np.ndarray

    def batch(self, rows: np.ndarray) -> TranslationBatch:
        """Gather B pairs, given by number, into one padded batch."""
        source, source_valid = self.source.padded(rows)
        target, target_valid = self.target.padded(rows)
        shifted = np.empty_like(target)
        shifted[:, 0] = EOS
        shifted[:, 1:] = np.where(target_valid[:, 1:], target[:, :-1], PAD)
        return TranslationBatch(
            source_BS=torch.from_numpy(source),
            source_valid_BS=torch.from_numpy(source_valid),
            target_input_BT=torch.from_numpy(shifted),
            target_output_BT=torch.from_numpy(target),
            target_valid_BT=torch.from_numpy(target_valid),
            index_B=torch.from_numpy(self.lines[rows].astype(np.int64)),
        )


class PairLoader:
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        pairs: the data.
        batches: which pairs go together.
    """

    def __init__(self, pairs: Pairs, batches: TokenBatches) -> None:
        self.pairs = pairs
        self.batches = batches

    def __len__(self) -> int:
        """Give the number of batches in an epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[TranslationBatch]:
        for rows in self.batches.batches():
            yield self.pairs.batch(rows)


class StatefulLoader(PairLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores.

    Each ``iter()`` goes on behind the last batch that was given out, up to the end of the epoch;
    the next one begins the next epoch.
    """

    def __init__(self, pairs: Pairs, batches: TokenBatches) -> None:
        super().__init__(pairs, batches)
        self._epoch = 0
        self._used = 0

    def __iter__(self) -> Iterator[TranslationBatch]:
        order = self.batches.batches(self._epoch)
        for rows in order[self._used :]:
            # Counted before it is given out: whoever stops after it goes on with the next one.
            self._used += 1
            if self._used == len(order):
                self._epoch, self._used = self._epoch + 1, 0
            yield self.pairs.batch(rows)

    def state_dict(self) -> dict[str, Any]:
        """Give the place behind the last batch given out, and what the batches are made from."""
        return {"epoch": self._epoch, "used": self._used, "plan": dict(self.batches.plan)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on at a stored place.

        Raises:
            DataError: the place belongs to other batches.
        """
        stored, plan = state_dict["plan"], self.batches.plan
        changed = [
            f"{key} was {stored.get(key)} and is {value}"
            for key, value in plan.items()
            if stored.get(key) != value
        ]
        if changed:
            raise DataError(
                f"The checkpoint can't be continued with other batches ({', '.join(changed)}); use "
                "the settings and data that it was trained with, or start anew."
            )
        self._epoch, self._used = int(state_dict["epoch"]), int(state_dict["used"])
