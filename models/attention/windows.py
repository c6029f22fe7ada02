"""Products of a feature map with a window of n x n cells around every cell, exact, without copies
of the windows: one row of taps at a time, by small band matrices along the rows of the map.

Three products of the same three tensors, x of the cells read, y of the cells that read, and one
weight k for each reading cell (r, c), group g and tap (i, j); a group has D / G channels::

    mix     y[r, c] = sum_ij k[r, c, g, i, j] x[r + i - n // 2, c + j - n // 2]
    score   k[r, c, g, i, j] = y[r, c] . x[r + i - n // 2, c + j - n // 2]
    spread  x[r, c] = the sum of k y over all cells and taps that read x[r, c]

Each is the gradient of the others, so nothing but the inputs is kept for the backward pass. Cells
outside of the map are 0. ``unfold`` reads the taps of each cell apart, at exactly the N D n n
multiply-accumulates counted on paper; the band matrices do more, but much faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .bands import Blocks, dynamic_convolution


def dynamic_convolution_2d(x_BYXD: Tensor, kernel_BYXGK: Tensor, *, unfold: bool = False) -> Tensor:
    """``mix``: each cell sums the cells around it with weights of its own: (B, Y, X, D).

    Args:
        x_BYXD: map of Y rows and X columns.
        kernel_BYXGK: weights of each cell and group over K = n x n taps, row by row; n is odd.
        unfold: N D K multiply-accumulates, as counted on paper, and not more but faster.
    """
    kind = _kind(x_BYXD)
    return _Mix.apply(
        _rows_around(x_BYXD.to(kind), _side(kernel_BYXGK), unfold), kernel_BYXGK.to(kind), unfold
    )


def window_scores_2d(
    query_BYXD: Tensor, key_BYXD: Tensor, side: int, groups: int, *, unfold: bool = False
) -> Tensor:
    """``score``: products of each cell's query with the keys around it: (B, Y, X, G, K).

    Args:
        query_BYXD, key_BYXD: two maps of the same size.
        side: n, odd; K = n x n taps, row by row. Taps outside of the map score 0.
        groups: groups of channels (heads) G that are summed apart.
        unfold: N D K multiply-accumulates, as counted on paper, and not more but faster.
    """
    kind = _kind(query_BYXD)
    return _Score.apply(
        query_BYXD.to(kind), _rows_around(key_BYXD.to(kind), side, unfold), side, groups, unfold
    )


class _Mix(torch.autograd.Function):
    """``mix``; what it keeps for the backward pass are its inputs."""

    @staticmethod
    def forward(ctx: Any, x_BYXD: Tensor, kernel_BYXGK: Tensor, unfold: bool) -> Tensor:
        ctx.save_for_backward(x_BYXD, kernel_BYXGK)
        ctx.unfold = unfold
        return _mix(x_BYXD, kernel_BYXGK, unfold)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BYXD: Tensor) -> tuple[Tensor | None, ...]:
        x_BYXD, kernel_BYXGK = ctx.saved_tensors
        side, groups = _side(kernel_BYXGK), kernel_BYXGK.shape[3]
        for_x, for_kernel, _ = ctx.needs_input_grad
        return (
            _spread(grad_BYXD, kernel_BYXGK, x_BYXD.shape[1], ctx.unfold) if for_x else None,
            _score(grad_BYXD, x_BYXD, side, groups, ctx.unfold) if for_kernel else None,
            None,
        )


class _Score(torch.autograd.Function):
    """``score``; what it keeps for the backward pass are its inputs."""

    @staticmethod
    def forward(
        ctx: Any, query_BYXD: Tensor, key_BYXD: Tensor, side: int, groups: int, unfold: bool
    ) -> Tensor:
        ctx.save_for_backward(query_BYXD, key_BYXD)
        ctx.unfold = unfold
        return _score(query_BYXD, key_BYXD, side, groups, unfold)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BYXGK: Tensor) -> tuple[Tensor | None, ...]:
        query_BYXD, key_BYXD = ctx.saved_tensors
        for_query, for_key = ctx.needs_input_grad[:2]
        return (
            _mix(key_BYXD, grad_BYXGK, ctx.unfold) if for_query else None,
            _spread(query_BYXD, grad_BYXGK, key_BYXD.shape[1], ctx.unfold) if for_key else None,
            *(None, None, None),
        )


class _TapRow(NamedTuple):
    """One row of taps: which rows of the map it reads and writes, and its place among the taps.

    Attributes:
        read: rows of x.
        write: rows of y and of the weights.
        taps: the taps of this row among all K.
        padding_left: how far the first of them reaches back along the row.
    """

    read: slice
    write: slice
    taps: slice
    padding_left: int

    @property
    def count(self) -> int:
        """Number of taps."""
        return self.taps.stop - self.taps.start


def _tap_rows(source: int, rows: int, columns: int, side: int, unfold: bool) -> Iterator[_TapRow]:
    """Every row of taps that meets the map, without taps that miss it (``unfold``: with them).

    Args:
        source: rows of x; those of y, or side // 2 more on either side.
        rows, columns: of y.
        side: n.
    """
    half = side // 2
    top = half - (source - rows) // 2  # how far the first row of taps reaches up
    reach = half if unfold else min(half, columns - 1)
    for row in range(side):
        low, high = max(0, top - row), min(rows, source + top - row)
        if low < high:
            first = row * side + half - reach
            yield _TapRow(
                slice(low + row - top, high + row - top),
                slice(low, high),
                slice(first, first + 2 * reach + 1),
                reach,
            )


def _mix(x_BYXD: Tensor, kernel_BYXGK: Tensor, unfold: bool) -> Tensor:
    """(B, Y, X, D) from x with Y rows, or as many more as ``_rows_around`` adds."""
    batch, rows, columns = kernel_BYXGK.shape[:3]
    y_BYXD = x_BYXD.new_zeros(batch, rows, columns, x_BYXD.shape[-1], dtype=_wide(x_BYXD))
    for row in _tap_rows(x_BYXD.shape[1], rows, columns, _side(kernel_BYXGK), unfold):
        part_BXD = dynamic_convolution(
            x_BYXD[:, row.read].flatten(0, 1),
            kernel_BYXGK[:, row.write, ..., row.taps].flatten(0, 1),
            row.padding_left,
            unfold=unfold,
        )
        y_BYXD[:, row.write] += part_BXD.unflatten(0, (batch, -1))
    return y_BYXD.to(x_BYXD.dtype)


def _score(y_BYXD: Tensor, x_BYXD: Tensor, side: int, groups: int, unfold: bool) -> Tensor:
    """(B, Y, X, G, K); 0 for taps that miss the map."""
    batch, rows, columns = y_BYXD.shape[:3]
    kernel_BYXGK = y_BYXD.new_zeros(batch, rows, columns, groups, side * side)
    for row in _tap_rows(x_BYXD.shape[1], rows, columns, side, unfold):
        blocks = Blocks.of(columns, row.count, unfold=unfold)
        x_BXD, y_BXD = x_BYXD[:, row.read].flatten(0, 1), y_BYXD[:, row.write].flatten(0, 1)
        full_BNGLW = blocks.cut(y_BXD, groups) @ blocks.windows(x_BXD, row.padding_left, groups)
        part_BXGK = blocks.from_band(full_BNGLW)
        kernel_BYXGK[:, row.write, ..., row.taps] = part_BXGK.unflatten(0, (batch, -1))
    return kernel_BYXGK


def _spread(y_BYXD: Tensor, kernel_BYXGK: Tensor, source: int, unfold: bool) -> Tensor:
    """(B, ``source``, X, D)."""
    batch, rows, columns, groups = kernel_BYXGK.shape[:4]
    x_BYXD = y_BYXD.new_zeros(batch, source, columns, y_BYXD.shape[-1], dtype=_wide(y_BYXD))
    for row in _tap_rows(source, rows, columns, _side(kernel_BYXGK), unfold):
        blocks = Blocks.of(columns, row.count, unfold=unfold)
        band_BNGLW = blocks.band(kernel_BYXGK[:, row.write, ..., row.taps].flatten(0, 1))
        y_BNGLR = blocks.cut(y_BYXD[:, row.write].flatten(0, 1), groups)
        windows_BNGWR = band_BNGLW.transpose(-2, -1) @ y_BNGLR
        part_BXD = blocks.overlap(windows_BNGWR, row.padding_left, columns)
        x_BYXD[:, row.read] += part_BXD.unflatten(0, (batch, -1))
    return x_BYXD.to(y_BYXD.dtype)


def _side(kernel_BYXGK: Tensor) -> int:
    side = math.isqrt(kernel_BYXGK.shape[-1])
    if side * side != kernel_BYXGK.shape[-1] or side % 2 == 0:
        raise ValueError(f"{kernel_BYXGK.shape[-1]} taps are no square window of odd side")
    return side


def _rows_around(x_BYXD: Tensor, side: int, unfold: bool) -> Tensor:
    """With rows of zeros above and below, so that taps outside of the map are counted too."""
    return F.pad(x_BYXD, (0, 0, 0, 0, side // 2, side // 2)) if unfold else x_BYXD


def _wide(like: Tensor) -> torch.dtype:
    """The type in which many parts are added up."""
    return torch.promote_types(like.dtype, torch.float32)


def _kind(like: Tensor) -> torch.dtype:
    """The type of the products: autocast's where it is on, which custom functions don't see."""
    device = like.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return like.dtype
