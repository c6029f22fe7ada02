"""Loaders of captioning batches; the one for training can be resumed in the middle of an epoch.

The next batch is gathered in a thread while the current one is used, so that reading features from
disk costs no time where there is enough of it between two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .caption_batch import CaptionBatch
from .features.store import FeatureStore
from .loading import Loader, StatefulLoader, epoch_order


@dataclass(frozen=True)
class CaptionSplit:
    """N images of a split, encoded.

    Attributes:
        store: the features.
        places: number of each image in the store (N).
        ids: all captions of each image as word ids, cut at the longest length, none empty.
        sizes_N2: width and height in pixels.
    """

    store: FeatureStore
    places: np.ndarray
    ids: Sequence[list[list[int]]]
    sizes_N2: np.ndarray

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.places)

    def batch(
        self, rows: np.ndarray, chosen: Sequence[np.ndarray], max_regions: int | None
    ) -> CaptionBatch:
        """Gather B images with the chosen captions of each."""
        regions = self.store.gather(self.places[rows], max_regions)
        references = [self.ids[row] for row in rows]
        captions = [
            [known[number] for number in numbers]
            for known, numbers in zip(references, chosen, strict=True)
        ]
        longest = max(len(ids) for each in captions for ids in each) + 1
        output_BCT = np.zeros((len(rows), len(captions[0]), longest), np.int64)
        valid_BCT = np.zeros(output_BCT.shape, bool)
        for image, each in enumerate(captions):
            for place, ids in enumerate(each):
                output_BCT[image, place, : len(ids)] = ids
                valid_BCT[image, place, : len(ids) + 1] = True
        input_BCT = np.zeros_like(output_BCT)
        input_BCT[..., 1:] = output_BCT[..., :-1]
        boxes = regions.boxes_BN4
        return CaptionBatch(
            features_BNF=torch.from_numpy(regions.features_BNF),
            valid_BN=torch.from_numpy(regions.valid_BN),
            boxes_BN4=None if boxes is None else torch.from_numpy(boxes),
            size_B2=torch.from_numpy(self.sizes_N2[rows].astype(np.float32)),
            input_BCT=torch.from_numpy(input_BCT),
            output_BCT=torch.from_numpy(output_BCT),
            token_valid_BCT=torch.from_numpy(valid_BCT),
            index_B=torch.from_numpy(rows.astype(np.int64)),
            references=references,
        )


@dataclass(frozen=True)
class BatchPlan:
    """What the batches of a split are made from; equal plans give equal batches.

    Attributes:
        batch_size: images a batch; the last one of an epoch may have fewer.
        captions_per_image: captions of each image.
        max_regions: most regions of an image.
        seed: seed of the order and of the choice of captions.
        shuffle: False for evaluation: the order of the file and the first captions.
        num_replicas: processes that share the images.
        rank: number of this process. Every rank gets equally many batches; where they don't
            divide, the first images of the epoch are given out again.
    """

    batch_size: int
    captions_per_image: int
    max_regions: int | None
    seed: int
    shuffle: bool
    num_replicas: int = 1
    rank: int = 0

    def length(self, images: int) -> int:
        """Give the number of batches that one rank gets in an epoch."""
        return -(-images // (self.batch_size * self.num_replicas))

    def rows(self, images: int, epoch: int) -> list[np.ndarray]:
        """Give the image numbers of each of this rank's batches."""
        order = epoch_order(
            images,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            num_replicas=self.num_replicas,
            rank=self.rank,
        )
        return [
            order[start : start + self.batch_size]
            for start in range(0, len(order), self.batch_size)
        ]

    def captions(self, available: int, image: int, epoch: int) -> np.ndarray:
        """Choose captions of one image, as self-critical training does.

        Fewer than wanted are drawn with replacement; of more, a random run in the order of the
        file is taken. The choice depends on seed, epoch and image alone.
        """
        wanted = self.captions_per_image
        if not self.shuffle:
            return np.arange(wanted) % available
        random = np.random.default_rng([self.seed, epoch, image])
        if available < wanted:
            return random.integers(available, size=wanted)
        return random.integers(available - wanted + 1) + np.arange(wanted)


class CaptionLoader(Loader[CaptionBatch]):
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        split: the images.
        plan: how they are batched.
    """

    def __init__(self, split: CaptionSplit, plan: BatchPlan) -> None:
        self.split, self.plan = split, plan

    def __len__(self) -> int:
        return self.plan.length(len(self.split))

    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the images of each batch of an epoch."""
        return self.plan.rows(len(self.split), epoch)

    def batches(self, order: Sequence[np.ndarray], epoch: int) -> Iterator[CaptionBatch]:
        """Gather each batch one ahead of its use."""
        with ThreadPoolExecutor(1, thread_name_prefix="captions") as pool:
            ahead: Future[CaptionBatch] | None = None
            for number in range(len(order)):
                current = ahead or pool.submit(self.gather, order[number], epoch)
                more = number + 1 < len(order)
                batch = current.result()
                ahead = pool.submit(self.gather, order[number + 1], epoch) if more else None
                yield batch

    def gather(self, rows: np.ndarray, epoch: int) -> CaptionBatch:
        """Choose captions and make one batch."""
        chosen = [self.plan.captions(len(self.split.ids[row]), int(row), epoch) for row in rows]
        return self.split.batch(rows, chosen, self.plan.max_regions)

    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on."""
        plan = self.plan
        return {
            "seed": plan.seed,
            "batch_size": plan.batch_size,
            "captions_per_image": plan.captions_per_image,
            "max_regions": plan.max_regions,
            "num_replicas": plan.num_replicas,
            "images": len(self.split),
            "captions": sum(map(len, self.split.ids)),
        }


class StatefulCaptionLoader(StatefulLoader[CaptionBatch], CaptionLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores."""
