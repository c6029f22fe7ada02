"""Average the weights of the last checkpoints ("Attention Is All You Need", section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor


def average_checkpoints(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of the ``state_dict`` of Lightning checkpoints, summed in float64.

    Tensors that are no floating-point numbers (counters) are taken from the last one.

    Raises:
        ValueError: no path, or checkpoints of different models.
    """
    if not paths:
        raise ValueError("there is no checkpoint to average: train at least one check_every")
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
        if sums and sums.keys() != state.keys():
            raise ValueError(f"{path.name} holds another model than the checkpoints before it")
        for name, value in state.items():
            kinds[name] = value.dtype
            if not value.is_floating_point():
                sums[name] = value
            else:
                sums[name] = sums.get(name, 0) + value.double()
    return {
        name: (total / len(paths)).to(kinds[name]) if kinds[name].is_floating_point else total
        for name, total in sums.items()
    }
