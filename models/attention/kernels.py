"""Softmax attention from scores, on exact paths. This file alone chooses among them.

``explicit``  scores, softmax, weights times values; where weights are asked for, for counting
              multiply-accumulates and as the reference of the other two.
``mask``      the biases are added up into one additive mask of a fused
              ``scaled_dot_product_attention`` call.
``fold``      the biases become extra features of query and key, so that the fused kernel needs
              no Q x K mask: the query holds its score against every coordinate of an axis, the
              key a one-hot of its own coordinate.
``blocks``    the biases as one additive mask, a block of scores at a time (``blocks.py``).

On feature maps nothing of size Q x K is ever made but on the first two, which are there to compare
with; two more paths serve them:

``tiles``     some queries at a time, scores of columns and rows added in place (``tiles.py``).
``separable`` weights that depend on the places only are a product of a weight by columns and one
              by rows (E4 alone): two small products, H + W and not H W numbers a query.

All give the same numbers, values and gradients (tests/models/attention/test_kernels.py); dropout
draws other random numbers on each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .blocks import attend_in_blocks
from .grid_pairs import CellScores, attend_by_rows
from .grid_scores import BLOCKED, GridScores
from .grid_windows import attend_in_windows
from .masks import Allowed
from .tiles import TILE, TileScores, attend_in_tiles

Path = Literal["explicit", "mask", "fold", "blocks", "tiles", "separable"]

FEW_SCORES = 1024
"""Q x K up to which the explicit path is the fastest on a CPU."""

NARROW = 16
"""Width of a head up to which the path by blocks is the fastest on a CPU."""

_forced: list[Path] = []


@dataclass(frozen=True)
class AxisScores:
    """Scores of each query against every coordinate of one axis.

    Attributes:
        scores: (B or 1, H, Q, W) for an axis of W coordinates.
        coordinate_K: coordinate of each key on that axis, long; None if key k stands at k.
    """

    scores: Tensor
    coordinate_K: Tensor | None = None

    def dense(self) -> Tensor:
        """(B or 1, H, Q, K)."""
        if self.coordinate_K is None:
            return self.scores
        return self.scores.index_select(-1, self.coordinate_K)

    def one_hot_KW(self) -> Tensor:
        """(K, W): the key's side of the fold."""
        width = self.scores.shape[-1]
        eye = torch.eye(width, dtype=self.scores.dtype, device=self.scores.device)
        return eye if self.coordinate_K is None else eye.index_select(0, self.coordinate_K)


@dataclass(frozen=True)
class Energy:
    """The scores of one attention call, before mask and softmax, as a sum of parts.

    Attributes:
        query_BHQE, key_BHKE: their product is added; both None if no part needs it. The query
            may have B = 1 or Q = 1; any 1/sqrt(E) is already multiplied into it.
        key_bias_BHK: a score that depends on the key only.
        axes: scores by relative position, one entry an axis.
        grid: scores by relative position on a feature map.
        cells: scores of pairs of cells of a feature map.
    """

    query_BHQE: Tensor | None = None
    key_BHKE: Tensor | None = None
    key_bias_BHK: Tensor | None = None
    axes: tuple[AxisScores, ...] = ()
    grid: GridScores | None = None
    cells: CellScores | None = None

    @property
    def same_for_all(self) -> bool:
        """Whether one row of scores serves every query."""
        if self.grid is not None:
            return False
        return self.query_BHQE is None or self.query_BHQE.shape[2] == 1

    @property
    def by_place_only(self) -> bool:
        """Whether the scores are those of a place on a feature map, whatever stands there."""
        if self.grid is None or self.grid.varied:
            return False
        return self.query_BHQE is None and self.key_bias_BHK is None and not self.axes

    def bias(self, like: Tensor) -> Tensor | None:
        """All parts but the product, broadcastable to (B, H, Q, K); ``like`` gives the type."""
        parts = [axis.dense() for axis in self.axes]
        if self.grid is not None:
            parts.append(self.grid.dense(like))
        if self.key_bias_BHK is not None:
            parts.append(self.key_bias_BHK[:, :, None, :])
        return sum(parts[1:], start=parts[0]) if parts else None


@contextlib.contextmanager
def force_path(path: Path) -> Iterator[None]:
    """Make every attention call inside the block take ``path`` (tests, counting, benchmarks)."""
    _forced.append(path)
    try:
        yield
    finally:
        _forced.pop()


def forced_path() -> Path | None:
    """The path that ``force_path`` asks for, or None: size decides."""
    return _forced[-1] if _forced else None


def attend(
    energy: Energy,
    value_BHKE: Tensor,
    allowed: Allowed,
    *,
    queries: int,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Softmax over the keys and the weighted sum of the values.

    Args:
        energy: the scores.
        value_BHKE: values.
        allowed: which keys each query may read; rows that may read none give 0.
        queries: number of queries Q (the energy may not depend on the query).
        dropout: probability of dropping a weight.
        need_weights: return the weights too (before dropout); takes the explicit path.

    Returns:
        context (B, H, Q, E), with 1 for Q where all queries read the same, and weights
        (B, H, Q, K) or None.
    """
    path = "explicit" if need_weights else _choose(energy, value_BHKE, allowed, dropout)
    if energy.cells is not None:  # on every path
        context, weights = attend_by_rows(energy, value_BHKE, allowed.mask, dropout, need_weights)
    elif (
        path == "explicit" and not need_weights and energy.grid is not None and energy.grid.windowed
    ):
        context, weights = attend_in_windows(energy, value_BHKE, allowed.mask, dropout), None
    elif path == "explicit":
        context, weights = _explicit(energy, value_BHKE, allowed, dropout)
        batch, heads, keys, _ = value_BHKE.shape
        weights = weights.expand(batch, heads, queries, keys) if need_weights else None
    else:
        context, weights = _PATHS[path](energy, value_BHKE, allowed, dropout), None
    if allowed.any_BHQ1 is not None:
        context = context * allowed.any_BHQ1
        weights = None if weights is None else weights * allowed.any_BHQ1
    return context, weights


def _choose(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Path:
    """The fastest path for elements in a row, as ``benchmarks.speed.terms --paths`` measures them.

    On a CPU the fused kernel costs 1.1 to 1.5 times the explicit path for sentences, and more for
    the few queries of a decoding step; from 32 queries and keys on they are within 10 % of each
    other, the fused one with less memory. The fold is never ahead there: its heads grow by the
    length.

    Blocks of narrow heads (E of 5 or 10, 8 heads, 16 items, forward and backward in one thread)
    take 0.25 of the explicit path's time at 500 x 500 and 0.7 at 50 x 50; with dropout, which the
    fused kernel doesn't have, 0.35 and 0.8. For E = 64 they are at best level.
    """
    if energy.same_for_all:
        return "explicit"  # no query content: one row of weights, or one for the whole batch
    if energy.grid is not None:
        return _choose_on_grid(energy, value_BHKE, allowed, dropout)
    if _forced:
        return "mask" if _forced[-1] == "separable" else _forced[-1]
    assert energy.query_BHQE is not None
    scores = energy.query_BHQE.shape[2] * value_BHKE.shape[2]
    if not value_BHKE.is_cpu:
        return "mask"
    if scores <= FEW_SCORES:
        return "explicit"
    narrow = value_BHKE.shape[-1] <= NARROW and value_BHKE.dtype in (torch.float32, torch.float64)
    if scores > TILE and (narrow or dropout) and not energy.axes and allowed.of_keys_only:
        return "tiles"  # all of a head at a time would be too much
    return "blocks" if narrow else "mask"


def _choose_on_grid(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Path:
    """The fastest path on a feature map, without a tensor of queries by keys.

    On a CPU (C = 256, 8 heads, forward and backward in one thread) tiles take 0.4 to 0.5 of the
    fold's time: on 50 x 84 cells 1.7 s and 4.5 s, on 25 x 42 0.10 s and 0.20 s, where the fused
    call without positions takes 1.0 s and 0.07 s. Without a product of contents they take half
    of that, 0.9 s and 0.055 s. The fold multiplies heads of W + H + E features instead of E; on
    a GPU it is the only way to add scores inside the fused kernel without a mask in memory.
    """
    forced = _forced[-1] if _forced else None
    plain = energy.by_place_only and allowed.mask is None and not dropout
    if forced in ("mask", "blocks") and energy.query_BHQE is None:
        return "explicit"
    if forced == "separable":
        return "separable" if plain else "tiles"
    if forced is not None:
        return forced
    if plain:
        return "separable"
    if not value_BHKE.is_cpu:
        return "fold"
    assert energy.grid is not None
    few = energy.grid.where.queries * energy.grid.where.keys <= FEW_SCORES
    return "explicit" if few else "tiles"


def _explicit(
    energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float
) -> tuple[Tensor, Tensor]:
    scores = energy.bias(value_BHKE)
    if energy.query_BHQE is not None and energy.key_BHKE is not None:
        product = energy.query_BHQE @ energy.key_BHKE.transpose(-2, -1)
        scores = product if scores is None else product + scores
    if scores is None:
        raise ValueError("an energy needs at least one part")
    if allowed.mask is not None:
        scores = scores.masked_fill(~allowed.mask, float("-inf"))
    weights = scores.softmax(-1)
    return F.dropout(weights, dropout) @ value_BHKE, weights


def _mask(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    assert energy.query_BHQE is not None and energy.key_BHKE is not None
    bias = energy.bias(value_BHKE)
    if bias is not None and allowed.mask is not None:
        bias = bias.masked_fill(~allowed.mask, float("-inf"))
    return F.scaled_dot_product_attention(
        *_same_batch(energy.query_BHQE, energy.key_BHKE, value_BHKE),
        attn_mask=allowed.mask if bias is None else bias,
        dropout_p=dropout,
        scale=1.0,
    )


def _blocks(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    assert energy.query_BHQE is not None and energy.key_BHKE is not None
    added = energy.bias(value_BHKE)
    if allowed.mask is not None:
        if added is None:
            added = value_BHKE.new_zeros(allowed.mask.shape)
        added = added.masked_fill(~allowed.mask, float("-inf"))
    query, key, value = _same_batch(energy.query_BHQE, energy.key_BHKE, value_BHKE)
    return attend_in_blocks(query, key, value, added, dropout)


def _fold(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    axes = [(axis.scores, axis.one_hot_KW()) for axis in energy.axes]
    if energy.grid is not None:
        axes += _one_hots(energy.grid, value_BHKE)
    batch, heads, keys, _ = value_BHKE.shape
    queries_side, keys_side = [], []
    if energy.query_BHQE is not None and energy.key_BHKE is not None:
        queries_side.append(energy.query_BHQE)
        keys_side.append(energy.key_BHKE)
    queries = (queries_side or [axes[0][0]])[0].shape[2]
    for scores, one_hot in axes:
        queries_side.append(scores)
        keys_side.append(one_hot[None, None])
    if energy.key_bias_BHK is not None:
        queries_side.append(value_BHKE.new_ones(1, 1, queries, 1))
        keys_side.append(energy.key_bias_BHK[..., None])
    query = torch.cat([x.expand(batch, heads, queries, -1) for x in queries_side], -1)
    key = torch.cat([x.expand(batch, heads, keys, -1) for x in keys_side], -1)
    # The CPU's fused kernel wants the value as wide as query and key, a GPU's multiples of 8.
    width = max(query.shape[-1], value_BHKE.shape[-1])
    width += 0 if value_BHKE.is_cpu else -width % 8
    query, key, value = (F.pad(x, (0, width - x.shape[-1])) for x in (query, key, value_BHKE))
    context = F.scaled_dot_product_attention(
        query, key, value, attn_mask=allowed.mask, dropout_p=dropout, scale=1.0
    )
    return context[..., : value_BHKE.shape[-1]]


def _one_hots(grid: GridScores, like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Scores of the queries against columns and rows, each with the place of every key on it."""
    columns, rows = grid.each(like)
    cell_K = torch.arange(grid.where.keys, device=like.device)
    width, height = grid.where.key_width, grid.where.key_height
    column_KW = F.one_hot(cell_K % width, width).to(columns.dtype)
    row_KW = F.one_hot(cell_K // width, height).to(rows.dtype)
    return [(columns, column_KW), (rows, row_KW)]


def _tiles(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    columns, rows, spans, hidden = None, None, None, float("-inf")
    if energy.grid is not None:
        columns, rows = energy.grid.each(value_BHKE)
        spans = energy.grid.spans()
        if spans is not None:  # all keys of a span may be hidden
            hidden = BLOCKED
    elif energy.axes:
        raise ValueError("tiles have no scores of elements in a row")
    key_BHK = energy.key_bias_BHK
    if allowed.mask is not None:
        read_BHK = allowed.mask[:, :, 0]
        key_BHK = value_BHKE.new_zeros(1, 1, 1) if key_BHK is None else key_BHK
        key_BHK = torch.where(read_BHK, key_BHK, hidden)
    scores = TileScores(columns, rows, key_BHK, spans)
    return attend_in_tiles(energy.query_BHQE, energy.key_BHKE, value_BHKE, scores, dropout)


def _separable(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    grid = energy.grid
    assert grid is not None
    columns_BHQK = grid.columns(value_BHKE)[:, :, 0].softmax(-1)
    rows_BHQK = grid.rows(value_BHKE)[:, :, :, 0].softmax(-1)
    value_BHYXE = value_BHKE.unflatten(2, (grid.where.key_height, -1))
    by_column = columns_BHQK[:, :, None] @ value_BHYXE
    by_row = rows_BHQK @ by_column.flatten(3)
    return by_row.unflatten(3, by_column.shape[3:]).flatten(2, 3)


def _same_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch = max(query.shape[0], key.shape[0])
    return query.expand(batch, -1, -1, -1), key, value


_PATHS: dict[Path, Callable[[Energy, Tensor, Allowed, float], Tensor]] = {
    "mask": _mask,
    "fold": _fold,
    "blocks": _blocks,
    "tiles": _tiles,
    "separable": _separable,
}
