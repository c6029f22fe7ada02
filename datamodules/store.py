"""Sentences as one flat array of ids: small in memory, or memory-mapped from disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .vocabulary import EOS, PAD, UNK


@dataclass(frozen=True)
class TokenStore:
    """N sentences, each a run of a flat id array that ends with ``</s>``.

    Attributes:
        ids: all ids one after another; any integer type, may be memory-mapped.
        starts: position of each sentence's first id, int64 (N).
        lengths: ids of each sentence, ``</s>`` included, int64 (N).
        shift: what is subtracted from a stored number to get its id (1 in old fairseq files).
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    shift: int = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        """Give the ids of one sentence as int64, the final ``</s>`` included."""
        start = self.starts[row]
        return self.ids[start : start + self.lengths[row]].astype(np.int64) - self.shift

    @classmethod
    def from_lists(cls, sentences: Iterable[Sequence[int]], vocabulary_size: int) -> TokenStore:
        """Store sentences without ``</s>``, which is added, in the smallest fitting type."""
        builder = StoreBuilder(vocabulary_size)
        builder.add(sentences)
        return builder.finish()

    def select(self, rows: np.ndarray) -> TokenStore:
        """Give the same store with only some sentences; the ids are shared."""
        return TokenStore(self.ids, self.starts[rows], self.lengths[rows], self.shift)

    def padded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gather sentences side by side.

        Args:
            rows: B sentence numbers.

        Returns:
            Ids (B, L) int64 padded on the right with ``<pad>``, and their validity (B, L) bool.
        """
        lengths = self.lengths[rows]
        columns = np.arange(lengths.max(initial=0))
        valid = columns < lengths[:, None]
        places = (self.starts[rows][:, None] + columns)[valid]
        padded = np.full(valid.shape, PAD, dtype=np.int64)
        padded[valid] = self.ids[places].astype(np.int64) - self.shift
        return padded, valid

    def unknown(self) -> int:
        """Count the ``<unk>`` ids of all sentences."""
        if not len(self):
            return 0
        hits = np.flatnonzero(self.ids == UNK + self.shift)
        order = np.argsort(self.starts, kind="stable")
        starts, ends = self.starts[order], (self.starts + self.lengths)[order]
        owner = np.searchsorted(starts, hits, side="right") - 1
        return int(np.count_nonzero((owner >= 0) & (hits < ends[owner])))


class StoreBuilder:
    """Collects encoded sentences chunk by chunk, so that text never piles up in memory.

    Args:
        vocabulary_size: decides between 2 and 4 bytes an id.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self._type = np.uint16 if vocabulary_size <= np.iinfo(np.uint16).max + 1 else np.int32
        self._ids: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []

    def add(self, sentences: Iterable[Sequence[int]]) -> None:
        """Append sentences given without ``</s>``; it is added."""
        flat: list[int] = []
        lengths: list[int] = []
        for sentence in sentences:
            flat.extend(sentence)
            flat.append(EOS)
            lengths.append(len(sentence) + 1)
        self._ids.append(np.array(flat, dtype=self._type))
        self._lengths.append(np.array(lengths, dtype=np.int64))

    def finish(self) -> TokenStore:
        """Join what was added."""
        ids = np.concatenate([np.empty(0, self._type), *self._ids])
        return store_of(ids, np.concatenate([np.empty(0, np.int64), *self._lengths]))


def store_of(ids: np.ndarray, lengths: np.ndarray) -> TokenStore:
    """Make a store of sentences that follow each other without gaps."""
    return TokenStore(ids, np.cumsum(lengths) - lengths, lengths)
