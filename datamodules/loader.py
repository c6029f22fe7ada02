"""Loaders of translation batches; the one for training can be resumed in the middle of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .batch import TranslationBatch
from .batching import TokenBatches
from .loading import Loader, StatefulLoader
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


class PairLoader(Loader[TranslationBatch]):
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        pairs: the data.
        batches: which pairs go together.
    """

    def __init__(self, pairs: Pairs, batches: TokenBatches) -> None:
        self.pairs, self.token_batches = pairs, batches

    def __len__(self) -> int:
        return len(self.token_batches)

    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the pairs of each batch of an epoch."""
        return self.token_batches.batches(epoch)

    def gather(self, rows: np.ndarray, epoch: int) -> TranslationBatch:
        """Make one batch."""
        return self.pairs.batch(rows)

    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on."""
        return dict(self.token_batches.plan)


class StatefulPairLoader(StatefulLoader[TranslationBatch], PairLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores."""
