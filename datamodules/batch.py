"""The batch that translation models are trained and evaluated on."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass
class TranslationBatch:
    """B sentence pairs, padded on the right (S source tokens, T target tokens).

    Attributes:
        source_BS: source ids with a final ``</s>``, int64.
        source_valid_BS: True at real tokens, False at padding.
        target_input_BT: decoder input, ``</s>`` followed by the target without its own ``</s>``.
        target_output_BT: what the decoder has to predict, the target with a final ``</s>``.
        target_valid_BT: True at real tokens of ``target_output_BT``.
        index_B: line number of each pair in its split, from 0; puts results back into file order.
    """

    source_BS: Tensor
    source_valid_BS: Tensor
    target_input_BT: Tensor
    target_output_BT: Tensor
    target_valid_BT: Tensor
    index_B: Tensor

    def __post_init__(self) -> None:
        # Counted here, where the tensors still lie in CPU memory: no synchronisation later.
        self._tokens = int(self.target_valid_BT.sum())

    def __len__(self) -> int:
        """Give the number of sentence pairs."""
        return self.source_BS.shape[0]

    @property
    def tokens(self) -> int:
        """Number of real target tokens, each sentence's ``</s>`` included."""
        return self._tokens

    def to(self, device: torch.device | str, non_blocking: bool = False) -> TranslationBatch:
        """Give the same batch on another device; Lightning calls this too."""
        moved = copy.copy(self)
        for field in fields(self):
            tensor: Tensor = getattr(self, field.name)
            setattr(moved, field.name, tensor.to(device, non_blocking=non_blocking))
        return moved
