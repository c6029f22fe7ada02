"""Loaders of detection batches; the one for training can be resumed in the middle of an epoch.

Images are read by threads ahead of their use: decoding lets go of Python's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from .colour import jitter_colours
from .detection_batch import DetectionBatch, DetectionTarget
from .detection_records import DetectionImage
from .errors import DataError
from .images import read_image
from .loading import Loader, StatefulLoader, epoch_order
from .prefetch import ahead


@dataclass(frozen=True)
class DetectionPlan:
    """What the batches of a split are made from; equal plans give equal batches.

    Attributes:
        batch_size: images a batch; the last ones of an epoch may have fewer.
        seed: seed of the order and of augmentation.
        shuffle: training: shuffled and augmented, without crowds; False: evaluation.
        group_by_aspect: wide and tall images in batches of their own, up to the last ones.
        horizontal_flip, vertical_flip: probabilities.
        jitter: largest relative change of brightness, contrast and saturation.
        workers: threads that read; changes no batch.
        num_replicas: processes that share the images.
        rank: number of this process. Every rank gets equally many batches; where they don't
            divide, the first images of the last batch are given out again.
    """

    batch_size: int
    seed: int
    shuffle: bool
    group_by_aspect: bool = False
    horizontal_flip: float = 0.0
    vertical_flip: float = 0.0
    jitter: float = 0.0
    workers: int = 0
    num_replicas: int = 1
    rank: int = 0

    def length(self, images: int) -> int:
        """Give the number of batches that one rank gets in an epoch."""
        return -(-images // (self.batch_size * self.num_replicas))

    def rows(self, wide_N: np.ndarray, epoch: int) -> list[np.ndarray]:
        """Give the image numbers of each of this rank's batches.

        Args:
            wide_N: True at images that are at least as wide as tall.
            epoch: number of the epoch.
        """
        if not (self.shuffle and self.group_by_aspect):
            return self._cut(self._order(len(wide_N), epoch))
        # Batches of all ranks together are formed first, so that every rank has one of a kind.
        order = epoch_order(len(wide_N), seed=self.seed, epoch=epoch, shuffle=True)
        together = self.batch_size * self.num_replicas
        full, rest = [], []
        for kind in (order[wide_N[order]], order[~wide_N[order]]):
            whole = len(kind) // together * together
            full += list(kind[:whole].reshape(-1, together))
            rest.append(kind[whole:])
        mixed = np.concatenate(rest)
        full += [mixed[start : start + together] for start in range(0, len(mixed), together)]
        turns = np.random.default_rng([self.seed, epoch, 1]).permutation(len(full))
        return [self._own(full[turn]) for turn in turns]

    def _order(self, images: int, epoch: int) -> np.ndarray:
        return epoch_order(
            images,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            num_replicas=self.num_replicas,
            rank=self.rank,
        )

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        starts = range(0, len(order), self.batch_size)
        return [order[start : start + self.batch_size] for start in starts]

    def _own(self, rows: np.ndarray) -> np.ndarray:
        share = -(-len(rows) // self.num_replicas)
        return np.resize(rows, share * self.num_replicas)[self.rank :: self.num_replicas]

    def augmentation(self, row: int, epoch: int) -> np.random.Generator:
        """Give the chance of one image, which depends on (seed, epoch, image) alone."""
        return np.random.default_rng([self.seed, epoch, row, 2])


class DetectionLoader(Loader[DetectionBatch]):
    """Batches for evaluation: each ``iter()`` starts from the first one.

    Args:
        images: the images of a split, which all have a file.
        plan: how they are batched.
    """

    def __init__(self, images: Sequence[DetectionImage], plan: DetectionPlan) -> None:
        self.images, self.plan = images, plan
        self._wide_N = np.array([image.size[0] >= image.size[1] for image in images], bool)

    def __len__(self) -> int:
        return self.plan.length(len(self.images))

    def order(self, epoch: int) -> list[np.ndarray]:
        """Give the images of each batch of an epoch."""
        return self.plan.rows(self._wide_N, epoch)

    def batches(self, order: Sequence[np.ndarray], epoch: int) -> Iterator[DetectionBatch]:
        """Make the batches one after the other, reading images up to two batches ahead."""
        items = (int(row) for rows in order for row in rows)
        workers, depth = self.plan.workers, 2 * self.plan.batch_size
        read = ahead(lambda row: self.item(row, epoch), items, workers=workers, depth=depth)
        with closing(cast(Any, read)):
            for rows in order:
                yield self._batch(rows, [next(read) for _ in rows])

    def gather(self, rows: np.ndarray, epoch: int) -> DetectionBatch:
        """Make one batch of images, given by number."""
        return self._batch(rows, [self.item(int(row), epoch) for row in rows])

    def _batch(
        self, rows: np.ndarray, items: Sequence[tuple[Tensor, DetectionTarget]]
    ) -> DetectionBatch:
        return DetectionBatch(
            images=tuple(image for image, _ in items),
            targets=tuple(target for _, target in items),
            image_ids=tuple(self.images[row].id for row in rows),
            index_B=torch.from_numpy(rows.astype(np.int64)),
        )

    def item(self, row: int, epoch: int) -> tuple[Tensor, DetectionTarget]:
        """Read one image (3, H, W) and its boxes.

        Raises:
            DataError: the image can't be read, or has another size than its annotation.
        """
        record = self.images[row]
        pixels_HW3 = read_pixels(record)
        if not self.plan.shuffle:
            return torch.from_numpy(pixels_HW3).permute(2, 0, 1).contiguous(), target_of(record)
        plan, random = self.plan, self.plan.augmentation(row, epoch)
        target, (width, height) = training_target(record), record.size
        boxes_N4 = target.boxes_N4
        mirror, over = random.random(2) < (plan.horizontal_flip, plan.vertical_flip)
        if mirror:
            pixels_HW3 = pixels_HW3[:, ::-1]
            x1, y1, x2, y2 = boxes_N4.unbind(1)
            boxes_N4 = torch.stack([width - x2, y1, width - x1, y2], 1)
        if over:
            pixels_HW3 = pixels_HW3[::-1]
            x1, y1, x2, y2 = boxes_N4.unbind(1)
            boxes_N4 = torch.stack([x1, height - y2, x2, height - y1], 1)
        image_3HW = torch.from_numpy(np.ascontiguousarray(pixels_HW3.transpose(2, 0, 1)))
        if plan.jitter:
            image_3HW = jitter_colours(image_3HW, plan.jitter, random)
        return image_3HW, DetectionTarget(boxes_N4, target.labels_N, target.area_N, target.crowd_N)

    def made_from(self) -> dict[str, Any]:
        """Name what the batches depend on."""
        plan = self.plan
        return {
            "seed": plan.seed,
            "batch_size": plan.batch_size,
            "group_by_aspect": plan.group_by_aspect,
            "horizontal_flip": plan.horizontal_flip,
            "vertical_flip": plan.vertical_flip,
            "jitter": plan.jitter,
            "num_replicas": plan.num_replicas,
            "images": len(self.images),
            "boxes": sum(len(image.labels_N) for image in self.images),
        }


class StatefulDetectionLoader(StatefulLoader[DetectionBatch], DetectionLoader):
    """Batches for training, whose place Lightning saves in checkpoints and restores."""


def read_pixels(record: DetectionImage) -> np.ndarray:
    """Read an image's pixels, uint8 (H, W, 3).

    Raises:
        DataError: it can't be read, or has another size than the annotation says.
    """
    if record.file is None:
        raise DataError(f"Image {record.id} ({record.name}) has no file.")
    pixels_HW3 = read_image(record.file)
    height, width = pixels_HW3.shape[:2]
    if (width, height) != record.size:
        turned = ""
        if (height, width) == record.size:
            turned = "; it may be noted in the file how to turn it: store it turned"
        raise DataError(
            f"{record.file} has {width} x {height} pixels, but its annotation says "
            f"{record.size[0]} x {record.size[1]}, so boxes don't fit{turned or '; correct one'}."
        )
    return pixels_HW3


def target_of(record: DetectionImage) -> DetectionTarget:
    """Give the boxes as annotated, crowds included, for evaluation."""
    return DetectionTarget(
        boxes_N4=torch.from_numpy(record.boxes_N4).float(),
        labels_N=torch.from_numpy(record.labels_N),
        area_N=torch.from_numpy(record.area_N).float(),
        crowd_N=torch.from_numpy(record.crowd_N),
    )


def training_target(record: DetectionImage) -> DetectionTarget:
    """Give the boxes without crowds, clipped to the image."""
    keep_N = ~record.crowd_N
    width, height = record.size
    clipped_N4 = record.boxes_N4[keep_N].clip(0, [width, height, width, height])
    return DetectionTarget(
        boxes_N4=torch.from_numpy(clipped_N4).float(),
        labels_N=torch.from_numpy(record.labels_N[keep_N]),
        area_N=torch.from_numpy(record.area_N[keep_N]).float(),
        crowd_N=torch.zeros(int(keep_N.sum()), dtype=torch.bool),
    )
