"""The batch that captioning models are trained and evaluated on."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass
class CaptionBatch:
    """B images with N regions (padded) and C captions each of T positions (padded on the right).

    Attributes:
        features_BNF: float32, zeros in padding.
        valid_BN: True at real regions.
        boxes_BN4: x1, y1, x2, y2 in pixels, float32, zeros in padding; None without boxes.
        size_B2: width and height of each image in pixels, float32.
        input_BCT: decoder input, 0 followed by the words' ids, int64.
        output_BCT: what the decoder has to predict: the words' ids, then 0; 0 in padding too.
        token_valid_BCT: True at the words and the one 0 that ends each caption.
        index_B: position of each image in its split, from 0.
        references: all captions of each image as word ids without the final 0.
    """

    features_BNF: Tensor
    valid_BN: Tensor
    boxes_BN4: Tensor | None
    size_B2: Tensor
    input_BCT: Tensor
    output_BCT: Tensor
    token_valid_BCT: Tensor
    index_B: Tensor
    references: list[list[list[int]]]

    def __post_init__(self) -> None:
        # Counted here, where the tensors still lie in CPU memory: no synchronisation later.
        self._tokens = int(self.token_valid_BCT.sum())

    def __len__(self) -> int:
        """Give the number of images."""
        return self.features_BNF.shape[0]

    @property
    def tokens(self) -> int:
        """Number of predicted positions, each caption's end included."""
        return self._tokens

    def to(self, device: torch.device | str, non_blocking: bool = False) -> CaptionBatch:
        """Give the same batch on another device; Lightning calls this too."""
        moved = copy.copy(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(moved, field.name, value.to(device, non_blocking=non_blocking))
        return moved
