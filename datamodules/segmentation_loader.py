"""Loaders of segmentation batches; the one for training can be resumed within an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .errors import DataError
from .images import read_image
from .loading import Loader, StatefulLoader, epoch_order
from .prefetch import ahead
from .segmentation_batch import SegmentationBatch
from .segmentation_crops import Crops, Kind, normalise
from .segmentation_records import IGNORED, LabelCode, LabelledImage


@dataclass(frozen=True)
class SegmentationSplit:
    """N images of a split, read when they are asked for.

    Attributes:
        images: the files.
        code: what the values in the label files mean.
        keep: whether what has been read stays in memory.
    """

    images: Sequence[LabelledImage]
    code: LabelCode
    keep: bool = False
    _kept: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.images)

    def read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Read an image, uint8 (H, W, 3), and its classes, uint8 (H, W).

        All classes are 255 in a split without labels.

        Raises:
            DataError: a file can't be read, or the two differ in size.
        """
        if number in self._kept:
            return self._kept[number]
        item = self.images[number]
        image_HW3 = read_image(item.image)
        if item.labels is None:
            labels_HW = np.full(image_HW3.shape[:2], IGNORED, np.uint8)
        else:
            labels_HW = self.code.read(item.labels)
            check_size(item, image_HW3.shape[1::-1], labels_HW.shape[::-1])
        if self.keep:
            self._kept[number] = image_HW3, labels_HW
        return image_HW3, labels_HW


def check_size(item: LabelledImage, image: Sequence[int], labels: Sequence[int]) -> None:
    """Refuse labels that are not as large as their image; sizes are width and height."""
    if tuple(image) != tuple(labels):
        raise DataError(
            f"{item.labels} has {labels[0]}x{labels[1]} pixels, but its image {item.image} has "
            f"{image[0]}x{image[1]}; give labels of the image's size."
        )


@dataclass(frozen=True)
class SegmentationPlan:
    """What the batches of a split are made from; equal plans give equal batches.

    Attributes:
        batch_size: images a batch.
        seed: seed of the order and of the crops.
        workers: threads that read ahead; changes nothing else.
        crops: how training crops are made; None for evaluation: whole images, in order, one by one.
        normalisation: of the pixel values.
        num_replicas: processes that share the images.
        rank: number of this process. Every rank gets equally many batches.
    """

    batch_size: int
    seed: int
    workers: int
    crops: Crops | None
    normalisation: Kind
    num_replicas: int = 1
    rank: int = 0

    def length(self, images: int) -> int:
        """Give the number of batches that one rank gets in an epoch."""
        return -(-images // (self.batch_size * self.num_replicas))

    def rows(self, images: int, epoch: int) -> list[np.ndarray]:
        """Give the image numbers of each of this rank's batches.

        Training batches are all full: the last ones are filled with the first images of the epoch,
        as batch statistics of a single image would be poor.
        """
        order = epoch_order(images, seed=self.seed, epoch=epoch, shuffle=self.crops is not None)
        length = self.length(images)
        if self.crops is not None or self.num_replicas > 1:
            order = np.resize(order, length * self.batch_size * self.num_replicas)
        order = order[self.rank :: self.num_replicas]
        size = self.batch_size
        return [order[start : start + size] for start in range(0, len(order), size)]


class SegmentationLoader(Loader[SegmentationBatch]):
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        split: the images.
        plan: how they are batched.
    """

    def __init__(self, split: SegmentationSplit, plan: SegmentationPlan) -> None:
        self.split, self.plan = split, plan

    def __len__(self) -> int:
        return self.plan.length(len(self.split))

    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the images of each batch of an epoch."""
        return self.plan.rows(len(self.split), epoch)

    def batches(self, order: Sequence[np.ndarray], epoch: int) -> Iterator[SegmentationBatch]:
        """Make the batches one after the other; threads read and crop images ahead of their use."""
        items = ahead(
            lambda row: self._item(int(row), epoch),
            (row for rows in order for row in rows),
            workers=self.plan.workers,
            depth=2 * max(self.plan.batch_size, self.plan.workers),
        )
        for rows in order:
            yield self._collated(rows, [next(items) for _ in rows])

    def gather(self, rows: np.ndarray, epoch: int) -> SegmentationBatch:
        """Make one batch in this thread."""
        return self._collated(rows, [self._item(int(row), epoch) for row in rows])

    def _item(self, row: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        image_HW3, labels_HW = self.split.read(row)
        if self.plan.crops is None:
            return normalise(image_HW3, self.plan.normalisation), labels_HW
        random = np.random.default_rng([self.plan.seed, epoch, row])
        return self.plan.crops.cut(image_HW3, labels_HW, random)

    def _collated(
        self, rows: np.ndarray, items: list[tuple[np.ndarray, np.ndarray]]
    ) -> SegmentationBatch:
        images, labels = zip(*items, strict=True)
        return SegmentationBatch(
            images_B3HW=torch.from_numpy(np.stack(images)),
            labels_BHW=torch.from_numpy(np.stack(labels).astype(np.int64)),
            names=tuple(self.split.images[row].name for row in rows),
            index_B=torch.from_numpy(rows.astype(np.int64)),
        )

    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on."""
        plan, crops = self.plan, self.plan.crops
        cut = {} if crops is None else {f"crop {key}": value for key, value in vars(crops).items()}
        return {
            "seed": plan.seed,
            "batch_size": plan.batch_size,
            "normalisation": plan.normalisation,
            "num_replicas": plan.num_replicas,
            "images": len(self.split),
            **cut,
        }


class StatefulSegmentationLoader(StatefulLoader[SegmentationBatch], SegmentationLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores."""
