"""Loaders of translation batches; the one for training can be resumed in the middle of an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .batch import TranslationBatch
from .batching import TokenBatchSampler
from .store import TokenStore
from .vocabulary import EOS, PAD


class PairDataset(Dataset[TranslationBatch]):
    """Pairs of sentences, gathered a whole batch at a time from the flat stores.

    Args:
        source: N source sentences.
        target: N target sentences.
        lines: line numbers to put into ``index_B`` (N).
    """

    def __init__(self, source: TokenStore, target: TokenStore, lines: np.ndarray) -> None:
        self._source, self._target, self._lines = source, target, lines

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, row: int) -> TranslationBatch:
        """Give one pair as a batch of one."""
        return self.__getitems__([row])

    def __getitems__(self, rows: list[int]) -> TranslationBatch:
        """Give pairs as one padded batch; a DataLoader calls this with a sampler's batch."""
        chosen = np.asarray(rows)
        source, source_valid = self._source.padded(chosen)
        target, target_valid = self._target.padded(chosen)
        shifted = np.empty_like(target)
        shifted[:, 0] = EOS
        shifted[:, 1:] = np.where(target_valid[:, 1:], target[:, :-1], PAD)
        return TranslationBatch(
            source_BS=torch.from_numpy(source),
            source_valid_BS=torch.from_numpy(source_valid),
            target_input_BT=torch.from_numpy(shifted),
            target_output_BT=torch.from_numpy(target),
            target_valid_BT=torch.from_numpy(target_valid),
            index_B=torch.from_numpy(self._lines[chosen].astype(np.int64)),
        )


def _as_gathered(batch: Any) -> TranslationBatch:
    """Pass on what `PairDataset.__getitems__` made: it is a batch already."""
    return batch


class PairLoader(DataLoader[TranslationBatch]):
    """Loads batches in this process: gathering from flat arrays is far quicker than a step.

    Args:
        pairs: the data.
        batches: which pairs go together.
    """

    def __init__(self, pairs: PairDataset, batches: TokenBatchSampler) -> None:
        # With a generator of its own it never draws from the global one, whose state a resumed
        # training must find as an uninterrupted one would.
        super().__init__(
            pairs, batch_sampler=batches, collate_fn=_as_gathered, generator=torch.Generator()
        )
        self.batches = batches


class StatefulLoader(PairLoader):
    """A loader whose place Lightning saves in checkpoints and restores, also mid-epoch.

    Each ``iter()`` goes on behind the last batch that was given out, up to the end of the epoch;
    the next one begins the next epoch.
    """

    def state_dict(self) -> dict[str, Any]:
        """Give the place behind the last batch that was given out."""
        return self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on at a stored place.

        Raises:
            DataError: the place belongs to other batches.
        """
        self.batches.load_state_dict(state_dict)
