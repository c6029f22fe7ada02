"""What the loaders of all tasks share: batches of an epoch in order, and going on in its middle.

They are plain iterables, not torch DataLoaders: gathering a batch from flat arrays takes far less
than a training step, so no worker process is needed; torch's global random state is left alone; and
Lightning takes an iterable as it is, where it would put a sampler of its own into a DataLoader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .errors import DataError

BatchT = TypeVar("BatchT")


class Loader(ABC, Generic[BatchT]):
    """Batches for evaluation: each ``iter()`` starts from the first one."""

    @abstractmethod
    def __len__(self) -> int:
        """Give the number of batches in an epoch."""

    @abstractmethod
    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the item numbers of each batch of an epoch."""

    @abstractmethod
    def gather(self, rows: np.ndarray, epoch: int) -> BatchT:
        """Make one batch of items, given by number."""

    @abstractmethod
    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on, in plain values; where it is equal, they are."""

    def batches(self, order: Sequence[np.ndarray], epoch: int) -> Iterator[BatchT]:
        """Make the batches one after the other."""
        for rows in order:
            yield self.gather(rows, epoch)

    def __iter__(self) -> Iterator[BatchT]:
        yield from self.batches(self.order(0), 0)


class StatefulLoader(Loader[BatchT]):
    """Batches for training, whose place Lightning saves in checkpoints and restores.

    Each ``iter()`` goes on behind the last batch that was given out, up to the end of the epoch;
    the next one begins the next epoch.
    """

    _epoch = 0
    _used = 0

    def __iter__(self) -> Iterator[BatchT]:
        order = self.order(self._epoch)
        for batch in self.batches(order[self._used :], self._epoch):
            # Counted before it is given out: whoever stops after it goes on with the next one.
            self._used += 1
            if self._used == len(order):
                self._epoch, self._used = self._epoch + 1, 0
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Give the place behind the last batch given out, and what the batches are made from."""
        return {"epoch": self._epoch, "used": self._used, "plan": self.made_from()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on at a stored place.

        Raises:
            DataError: the place belongs to other batches.
        """
        stored = state_dict["plan"]
        changed = [
            f"{key} was {stored.get(key)} and is {value}"
            for key, value in self.made_from().items()
            if stored.get(key) != value
        ]
        if changed:
            raise DataError(
                f"The checkpoint can't be continued with other batches ({', '.join(changed)}); use "
                "the settings and data that it was trained with, or start anew."
            )
        self._epoch, self._used = int(state_dict["epoch"]), int(state_dict["used"])


def epoch_order(
    items: int, *, seed: int, epoch: int, shuffle: bool, num_replicas: int = 1, rank: int = 0
) -> np.ndarray:
    """Give one rank's items of an epoch in order, which depends on (seed, epoch) alone.

    Every rank gets equally many; where they don't divide, the first of the epoch are given out
    again.

    Args:
        items: number of items.
        seed: seed of the order.
        epoch: number of the epoch.
        shuffle: False: in their own order.
        num_replicas: processes that share the items.
        rank: number of this process.
    """
    order = np.arange(items)
    if shuffle:
        order = np.random.default_rng([seed, epoch]).permutation(items)
    if num_replicas > 1:
        share = -(-items // num_replicas)
        order = np.resize(order, share * num_replicas)[rank::num_replicas]
    return order
