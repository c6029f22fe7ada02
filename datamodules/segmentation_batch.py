"""The batch that segmentation models are trained and evaluated on."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass
class SegmentationBatch:
    """B images of one size.

    Attributes:
        images_B3HW: normalised, float32; 0 in padding.
        labels_BHW: class of each pixel from 0, int64; 255 is ignored.
        names: of the images.
        index_B: position of each image in its split, from 0.
    """

    images_B3HW: Tensor
    labels_BHW: Tensor
    names: tuple[str, ...]
    index_B: Tensor

    def __len__(self) -> int:
        """Give the number of images."""
        return self.images_B3HW.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> SegmentationBatch:
        """Give the same batch on another device; Lightning calls this too."""
        moved = copy.copy(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(moved, field.name, value.to(device, non_blocking=non_blocking))
        return moved
