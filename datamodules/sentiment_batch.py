"""The batch that sentiment models are trained and evaluated on."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class SentimentBatch:
    """B items with one stream of features a modality (``text``, ``audio``, ``vision``).

    Attributes:
        features: (B, T, F) float32 by modality, zeros in padding.
        valid: (B, T) bool by modality, True at real steps.
        read_at: (B,) int64 by modality: the step that stands for the item, the last real one
            unless the data say otherwise; -1 where the item has no step in that modality.
        labels_BL: float32 (B, 1) for a regression or a binary label (0 or 1); int64 (B, 4) for
            four emotions of two classes each, 1 where the emotion is there.
        index_B: position of each item in its split, from 0.
    """

    features: dict[str, Tensor]
    valid: dict[str, Tensor]
    read_at: dict[str, Tensor]
    labels_BL: Tensor
    index_B: Tensor

    def __len__(self) -> int:
        """Give the number of items."""
        return self.labels_BL.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> SentimentBatch:
        """Give the same batch on another device; Lightning calls this too."""
        moved = copy.copy(self)
        for name in ("features", "valid", "read_at"):
            tensors: dict[str, Tensor] = getattr(self, name)
            there = {
                key: each.to(device, non_blocking=non_blocking) for key, each in tensors.items()
            }
            setattr(moved, name, there)
        moved.labels_BL = self.labels_BL.to(device, non_blocking=non_blocking)
        moved.index_B = self.index_B.to(device, non_blocking=non_blocking)
        return moved
