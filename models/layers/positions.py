"""Absolute sinusoidal positions, added to the embeddings."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

PositionForm = Literal["sinusoidal", "sinusoidal-fairseq"]


class SinusoidalPositions(nn.Module):
    """Sines and cosines of the position, without parameters.

    ``sinusoidal`` is section 3.5 of "Attention Is All You Need": wavelengths from 2 pi to
    10000 x 2 pi, the first token at 0, sine and cosine interleaved. ``sinusoidal-fairseq`` is
    what fairseq (and tensor2tensor) compute: all sines then all cosines, one frequency fewer in
    the exponent, and the first token at ``first`` = padding index + 1.

    Args:
        dim: model width D.
        form: which of the two.
        first: position of the first token in the fairseq form.
    """

    def __init__(self, dim: int, form: PositionForm, *, first: int = 2) -> None:
        super().__init__()
        self.dim = dim
        self.form = form
        self.first = first

    def forward(self, position_BT: Tensor, like: Tensor) -> Tensor:
        """Encode positions (B, T), in tokens from 0, to (B, T, D) of the type of ``like``."""
        half = self.dim // 2
        index = torch.arange(half, device=position_BT.device, dtype=torch.float64)
        if self.form == "sinusoidal":
            frequency = torch.exp(index * (-2 * math.log(10000.0) / self.dim))
            angle = position_BT[..., None] * frequency
            encoding = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        else:
            frequency = torch.exp(index * (-math.log(10000.0) / max(half - 1, 1)))
            angle = (position_BT + self.first)[..., None] * frequency
            encoding = torch.cat([angle.sin(), angle.cos()], -1)
        encoding = nn.functional.pad(encoding, (0, self.dim - encoding.shape[-1]))
        return encoding.to(like.dtype)
