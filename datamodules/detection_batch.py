"""The batch that detectors are trained and evaluated on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class DetectionTarget:
    """The N boxes of one image.

    Attributes:
        boxes_N4: x1, y1, x2, y2 in pixels of the image, float32.
        labels_N: number of each class from 1, int64.
        area_N: in square pixels, as annotated where it is, float32.
        crowd_N: True at boxes around many things; never in training.
    """

    boxes_N4: Tensor
    labels_N: Tensor
    area_N: Tensor
    crowd_N: Tensor

    def without_crowds(self) -> DetectionTarget:
        """Give the boxes of single things, as training has them."""
        parts = (self.boxes_N4, self.labels_N, self.area_N, self.crowd_N)
        return DetectionTarget(*(part[~self.crowd_N] for part in parts))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> DetectionTarget:
        """Give the same boxes on another device."""
        parts = (self.boxes_N4, self.labels_N, self.area_N, self.crowd_N)
        return DetectionTarget(*(part.to(device, non_blocking=non_blocking) for part in parts))


@dataclass(frozen=True)
class DetectionBatch:
    """B images, each of its own size.

    Attributes:
        images: uint8 (3, H, W) each, red green blue.
        targets: the boxes of each.
        image_ids: the data set's own ids.
        index_B: position of each image in its split, from 0.
    """

    images: tuple[Tensor, ...]
    targets: tuple[DetectionTarget, ...]
    image_ids: tuple[int | str, ...]
    index_B: Tensor

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.images)

    def without_crowds(self) -> DetectionBatch:
        """Give the same images with the boxes of single things."""
        return replace(self, targets=tuple(target.without_crowds() for target in self.targets))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> DetectionBatch:
        """Give the same batch on another device; Lightning calls this too."""
        return DetectionBatch(
            images=tuple(image.to(device, non_blocking=non_blocking) for image in self.images),
            targets=tuple(target.to(device, non_blocking) for target in self.targets),
            image_ids=self.image_ids,
            index_B=self.index_B.to(device, non_blocking=non_blocking),
        )
