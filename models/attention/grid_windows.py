"""Attention in a square window of a feature map, at the cost that is counted on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from .grid_scores import BLOCKED
from .windows import dynamic_convolution_2d, window_scores_2d

if TYPE_CHECKING:
    from .kernels import Energy


def attend_in_windows(
    energy: Energy, value_BHKE: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Context (B, H, Q, E) where each query reads n x n cells around it: N n n C a product.

    Scores of positions are made for the 2 n rows and columns in reach only.

    Args:
        energy: the scores; its range gives n, and its map has no strides.
        value_BHKE: values.
        mask: bool (B, 1, 1, K), True where a key is real; None if all are.
        dropout: probability of dropping a weight.
    """
    grid = energy.grid
    assert grid is not None and grid.reach is not None and not energy.axes
    size = grid.where.height, grid.where.width
    side = 2 * grid.reach + 1
    heads = value_BHKE.shape[1]

    def cells(x_BHKE: Tensor) -> Tensor:
        return x_BHKE.transpose(1, 2).flatten(2).unflatten(1, size)

    key_BHK = energy.key_bias_BHK
    if key_BHK is None:
        key_BHK = value_BHKE.new_zeros(1, 1, grid.where.keys)
    if mask is not None:
        key_BHK = torch.where(mask[:, :, 0], key_BHK, BLOCKED)
    padded_BHYX = F.pad(key_BHK.unflatten(2, size), (grid.reach,) * 4, value=float("-inf"))
    scores = padded_BHYX.unfold(2, side, 1).unfold(3, side, 1)  # (B, H, Y, X, n, n)
    taps = grid.taps()
    if taps is not None:
        columns, rows = (one.expand(-1, -1, grid.where.queries, -1) for one in taps)
        relative = rows[..., :, None] + columns[..., None, :]
        scores = scores + relative.unflatten(2, size)
    if energy.query_BHQE is not None and energy.key_BHKE is not None:
        products_BYXHT = window_scores_2d(
            cells(energy.query_BHQE), cells(energy.key_BHKE), side, heads, unfold=True
        )
        scores = scores + products_BYXHT.permute(0, 3, 1, 2, 4).unflatten(-1, (side, side))
    weights = F.dropout(scores.flatten(-2).softmax(-1), dropout)
    weights_BYXHT = weights.permute(0, 2, 3, 1, 4).expand(len(value_BHKE), -1, -1, heads, -1)
    context_BYXD = dynamic_convolution_2d(cells(value_BHKE), weights_BYXHT, unfold=True)
    return context_BYXD.flatten(1, 2).unflatten(-1, (heads, -1)).transpose(1, 2)
