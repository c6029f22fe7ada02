"""Parallel streams of features, one a modality, as the sentiment models read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MODALITIES = ("text", "audio", "vision")
"""The names of the streams, in the order in which they are listed and concatenated."""


@dataclass(frozen=True)
class Streams:
    """One batch: for each modality its features, which steps are real and which one is read.

    Attributes:
        features: (B, T, F) by modality; T and F differ between modalities.
        valid: (B, T) bool by modality, True at real steps.
        read_at: (B,) int64 by modality: the step whose output stands for the item, usually the
            last real one; -1 where the item has no step in that modality.
    """

    features: Mapping[str, Tensor]
    valid: Mapping[str, Tensor]
    read_at: Mapping[str, Tensor]

    @property
    def items(self) -> int:
        """Number of items B."""
        return next(iter(self.features.values())).shape[0]


@dataclass(frozen=True)
class StreamsOutput:
    """What a sentiment model says of a batch.

    Attributes:
        prediction_BO: scores, logits or a regression, O numbers an item.
        losses: further terms of the training loss by name, scalars not weighted yet; empty in
            most models and in evaluation.
        weights: attention weights (B, H, Q, K) by name and layer, where they were asked for:
            ``text from audio`` is the crossmodal attention of text queries over audio keys.
    """

    prediction_BO: Tensor
    losses: Mapping[str, Tensor]
    weights: Mapping[str, Sequence[Tensor]]


def read_out(x_BTD: Tensor, read_at_B: Tensor) -> Tensor:
    """(B, T, D) and the step of each item, -1 for none, to (B, D); zeros where there is none."""
    index_B11 = read_at_B.clamp_min(0)[:, None, None].expand(-1, 1, x_BTD.shape[-1])
    return x_BTD.gather(1, index_B11).squeeze(1) * (read_at_B >= 0)[:, None].to(x_BTD.dtype)


def last_valid(valid_BT: Tensor) -> Tensor:
    """The last real step of each item, int64 (B,); -1 where there is none."""
    steps_T = torch.arange(1, valid_BT.shape[1] + 1, device=valid_BT.device)
    return (valid_BT * steps_T).amax(1) - 1
