"""Loaders of sentiment batches; the one for training can be resumed in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from .loading import Loader, StatefulLoader, epoch_order
from .sentiment_batch import SentimentBatch
from .sentiment_store import StreamStore

_POOL = 16
"""Batches among whose items those of similar length are put together."""


@dataclass(frozen=True)
class Scale:
    """What is taken from each channel (F) and what the rest is multiplied with.

    Attributes:
        mean_F: the mean.
        factor_F: one by the standard deviation; 1 where a channel never changes.
        constant: number of channels that never change.
    """

    mean_F: np.ndarray
    factor_F: np.ndarray
    constant: int

    def of(self, features: np.ndarray) -> np.ndarray:
        """Scale features (..., F)."""
        return (features - self.mean_F) * self.factor_F


def measure_scale(stream: StreamStore, numbers: np.ndarray) -> Scale:
    """Find mean and deviation of each channel over the real steps of some items."""
    total_F, square_F = np.zeros(stream.dim), np.zeros(stream.dim)
    low_F, high_F = np.full(stream.dim, np.inf), np.full(stream.dim, -np.inf)
    count = 0
    for number in numbers.tolist():
        rows = stream.of(number)
        if len(rows):
            total_F += rows.sum(0, dtype=np.float64)
            low_F, high_F = np.minimum(low_F, rows.min(0)), np.maximum(high_F, rows.max(0))
            count += len(rows)
    mean_F = total_F / max(1, count)
    for number in numbers.tolist():
        square_F += ((stream.of(number) - mean_F) ** 2).sum(0)
    deviation_F = np.sqrt(square_F / max(1, count))
    same_F = ~(high_F > low_F) | (deviation_F == 0)
    factor_F = 1 / np.where(same_F, 1.0, deviation_F)
    return Scale(mean_F.astype(np.float32), factor_F.astype(np.float32), int(same_F.sum()))


@dataclass(frozen=True)
class SentimentSplit:
    """N items of a split.

    Attributes:
        streams: the features of the part that the items are of, by modality.
        rows: number of each item in that part.
        labels: float32 (N, 1) or int64 (N, 4).
        scale: how the features are scaled, by modality; empty: as they are.
        as_in_file: whether batches are padded as in the file.
    """

    streams: Mapping[str, StreamStore]
    rows: np.ndarray
    labels: np.ndarray
    scale: Mapping[str, Scale]
    as_in_file: bool = False

    def __len__(self) -> int:
        """Give the number of items."""
        return len(self.rows)

    @property
    def lengths_N(self) -> np.ndarray:
        """Real steps of each item, all modalities together."""
        return np.sum([stream.lengths_N[self.rows] for stream in self.streams.values()], axis=0)

    def batch(self, numbers: np.ndarray) -> SentimentBatch:
        """Gather B items, given by their number in the split."""
        features, valid, read_at = {}, {}, {}
        for name, stream in self.streams.items():
            padded = stream.gather(self.rows[numbers], as_in_file=self.as_in_file)
            features_BTF = padded.features_BTF
            if name in self.scale:
                features_BTF = self.scale[name].of(features_BTF) * padded.valid_BT[..., None]
            features[name] = torch.from_numpy(features_BTF)
            valid[name] = torch.from_numpy(padded.valid_BT)
            read_at[name] = torch.from_numpy(padded.read_at_B)
        return SentimentBatch(
            features=features,
            valid=valid,
            read_at=read_at,
            labels_BL=torch.from_numpy(self.labels[numbers]),
            index_B=torch.from_numpy(numbers.astype(np.int64)),
        )

    def pooled(self) -> np.ndarray:
        """Give the mean of each item's real steps, all modalities side by side, (N, sum of F)."""
        means = []
        for name, stream in self.streams.items():
            mean_NF = stream.mean(self.rows)
            if name in self.scale:
                there_N1 = stream.lengths_N[self.rows][:, None] > 0
                mean_NF = self.scale[name].of(mean_NF) * there_N1
            means.append(mean_NF)
        return np.concatenate(means, axis=1)


@dataclass(frozen=True)
class SentimentPlan:
    """What the batches of a split are made from; equal plans give equal batches.

    Attributes:
        batch_size: items a batch; the last one of an epoch may have fewer.
        seed: seed of the order.
        shuffle: False for evaluation: the order of the file.
        bucket: ``length`` puts items of similar length together: the shuffled items are cut into
            pools, each pool is sorted, and the batches cut from them are shuffled.
        num_replicas: processes that share the items.
        rank: number of this process. Every rank gets equally many batches; where they don't
            divide, the first items (or batches) of the epoch are given out again.
    """

    batch_size: int
    seed: int
    shuffle: bool
    bucket: Literal["random", "length"] = "random"
    num_replicas: int = 1
    rank: int = 0

    def length(self, items: int) -> int:
        """Give the number of batches that one rank gets in an epoch."""
        return -(-items // (self.batch_size * self.num_replicas))

    def batches(self, lengths_N: np.ndarray, epoch: int) -> list[np.ndarray]:
        """Give the item numbers of each of this rank's batches."""
        items = len(lengths_N)
        if self.shuffle and self.bucket == "length":
            return self._bucketed(lengths_N, epoch)
        order = epoch_order(
            items,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            num_replicas=self.num_replicas,
            rank=self.rank,
        )
        return self._cut(order)

    def _bucketed(self, lengths_N: np.ndarray, epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self.seed, epoch])
        mixed, pool = random.permutation(len(lengths_N)), self.batch_size * _POOL
        pools = [mixed[start : start + pool] for start in range(0, len(mixed), pool)]
        ordered = [some[np.argsort(lengths_N[some], kind="stable")] for some in pools]
        batches = self._cut(np.concatenate(ordered))
        wanted = self.length(len(lengths_N)) * self.num_replicas
        places = np.resize(random.permutation(len(batches)), wanted)
        return [batches[place] for place in places[self.rank :: self.num_replicas]]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        size = self.batch_size
        return [order[start : start + size] for start in range(0, len(order), size)]


class SentimentLoader(Loader[SentimentBatch]):
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        split: the items.
        plan: how they are batched.
    """

    def __init__(self, split: SentimentSplit, plan: SentimentPlan) -> None:
        self.split, self.plan = split, plan

    def __len__(self) -> int:
        return self.plan.length(len(self.split))

    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the items of each batch of an epoch."""
        return self.plan.batches(self.split.lengths_N, epoch)

    def gather(self, rows: np.ndarray, epoch: int) -> SentimentBatch:
        """Make one batch."""
        return self.split.batch(rows)

    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on."""
        return {
            "seed": self.plan.seed,
            "batch_size": self.plan.batch_size,
            "bucket": self.plan.bucket,
            "num_replicas": self.plan.num_replicas,
            "items": len(self.split),
            "steps": int(self.split.lengths_N.sum()),
        }


class StatefulSentimentLoader(StatefulLoader[SentimentBatch], SentimentLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores."""
