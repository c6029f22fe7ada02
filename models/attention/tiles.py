"""Softmax attention tile by tile on a CPU, with a score for each column and row of a feature map.

A tile is a few queries of one head, or a few whole heads, and all keys that its queries may read.
Its scores stay in the cache and are made again in the backward pass, so that nothing of size
Q x K outlives a tile. Scores by columns and rows are added by broadcasting; where no score
depends on query and key content there is no product at all before the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .blocks import Dropped
from .geometric import no_autocast

TILE = 2**18
"""Scores in a tile, 1 MiB of float32."""


@dataclass(frozen=True)
class TileScores:
    """What is added to the product of query and key before the softmax.

    Attributes:
        columns_BHQW, rows_BHQW: scores of each query against each column and each row of keys;
            both or neither. B or H may be 1.
        key_BHK: scores of each key, -inf where it is hidden; B or H may be 1.
        spans: for each of the rows that the queries make, the first row of keys that they may
            read and the first that they may not any more; None reads all.
    """

    columns_BHQW: Tensor | None = None
    rows_BHQW: Tensor | None = None
    key_BHK: Tensor | None = None
    spans: Sequence[tuple[int, int]] | None = None


def attend_in_tiles(
    query_BHQE: Tensor | None,
    key_BHKE: Tensor | None,
    value_BHKE: Tensor,
    scores: TileScores,
    dropout: float,
) -> Tensor:
    """``dropout(softmax(Q K^T + scores)) V``, (B, H, Q, E); differentiable once in all tensors.

    Args:
        query_BHQE, key_BHKE: the query with any 1/sqrt(E) in it; both or neither. B may be 1.
        value_BHKE: values.
        scores: what is added; no row may be -inf throughout.
        dropout: probability of dropping a weight, taken to the nearest 1/65536. The mask follows
            torch's default generator.
    """
    batch, heads = value_BHKE.shape[:2]
    kind = torch.promote_types(value_BHKE.dtype, torch.float32)

    def rows_of_heads(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        return x.to(kind).expand(batch, heads, *x.shape[2:]).flatten(0, 1).contiguous()

    with no_autocast(value_BHKE):
        context: Tensor = _Tiles.apply(  # type: ignore[assignment]
            rows_of_heads(query_BHQE),
            rows_of_heads(key_BHKE),
            rows_of_heads(value_BHKE),
            rows_of_heads(scores.columns_BHQW),
            rows_of_heads(scores.rows_BHQW),
            rows_of_heads(scores.key_BHK),
            _Plan(scores.spans, Dropped(dropout)),
        )
    return context.unflatten(0, (batch, heads)).to(value_BHKE.dtype)


class _Plan(NamedTuple):
    """What the passes need besides tensors."""

    spans: Sequence[tuple[int, int]] | None
    dropped: Dropped


class _Tile(NamedTuple):
    """Which heads, queries, rows of keys and keys a tile has."""

    heads: slice
    queries: slice
    key_rows: slice
    keys: slice


class _Inputs(NamedTuple):
    """Tensors of one call, R rows of heads; see ``attend_in_tiles``."""

    query_RQE: Tensor | None
    key_RKE: Tensor | None
    value_RKE: Tensor
    columns_RQW: Tensor | None
    rows_RQW: Tensor | None
    key_RK: Tensor | None

    @property
    def queries(self) -> int:
        """Number of queries Q."""
        asking = self.columns_RQW if self.query_RQE is None else self.query_RQE
        assert asking is not None
        return asking.shape[1]

    def tiles(self, spans: Sequence[tuple[int, int]] | None) -> Iterator[_Tile]:
        """Every tile once."""
        total, keys = self.value_RKE.shape[:2]
        width = keys if self.columns_RQW is None else self.columns_RQW.shape[2]
        if spans is None:
            spans = [(0, keys // width)]
        per_span = self.queries // len(spans)
        for number, (first, last) in enumerate(spans):
            if first >= last:  # no key in reach: left at zero
                continue
            start, stop = number * per_span, (number + 1) * per_span
            key_rows, read = slice(first, last), slice(first * width, last * width)
            fitting = max(1, TILE // ((last - first) * width))
            heads = max(1, fitting // per_span)
            step = -(-per_span // -(-per_span // fitting))  # tiles of one size
            for head in range(0, total, heads):
                some = slice(head, min(head + heads, total))
                for query in range(start, stop, step):
                    yield _Tile(some, slice(query, min(query + step, stop)), key_rows, read)

    def memory(self) -> tuple[Tensor, Tensor]:
        """Two places for the scores of a tile, which all tiles of a pass use in turn."""
        total, keys = self.value_RKE.shape[:2]
        size = min(max(TILE, keys), total * self.queries * keys)
        return self.value_RKE.new_empty(size), self.value_RKE.new_empty(size)

    def weights(self, tile: _Tile, memory: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Softmax of the scores of a tile, (R, Q, K), and a place of that shape; in ``memory``."""
        heads, queries, key_rows, keys = tile
        shape = [one.stop - one.start for one in (heads, queries, keys)]
        scores, weights = (place[: math.prod(shape)].view(shape) for place in memory)
        if self.columns_RQW is not None and self.rows_RQW is not None:
            columns = self.columns_RQW[heads, queries, None, :]
            rows = self.rows_RQW[heads, queries, key_rows, None]
            torch.add(columns, rows, out=scores.unflatten(2, (-1, columns.shape[-1])))
        else:
            scores.zero_()
        if self.key_RK is not None:
            scores.add_(self.key_RK[heads, None, keys])
        if self.query_RQE is not None and self.key_RKE is not None:
            scores.baddbmm_(self.query_RQE[heads, queries], self.key_RKE[heads, keys].mT)
        return torch.softmax(scores, -1, out=weights), scores


class _Tiles(torch.autograd.Function):
    """Forward and backward pass of ``attend_in_tiles``."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """See ``attend_in_tiles``."""
        inputs, plan = _Inputs(*arguments[:-1]), arguments[-1]
        value = inputs.value_RKE
        context = value.new_zeros(len(value), inputs.queries, value.shape[2])
        generator = plan.dropped.start()
        memory = inputs.memory()
        for tile in inputs.tiles(plan.spans):
            weights, _ = inputs.weights(tile, memory)
            kept = plan.dropped.kept(weights, generator)
            if kept is not None:
                weights.mul_(kept)
            place = context[tile.heads, tile.queries]
            torch.bmm(weights, value[tile.heads, tile.keys], out=place)
        context.mul_(plan.dropped.scale)
        ctx.plan = plan
        ctx.save_for_backward(*inputs, context)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """The gradients; every tile of weights is made again."""
        *saved, context = ctx.saved_tensors
        inputs, plan = _Inputs(*saved), ctx.plan
        grads = _Gradients.zeros(inputs)
        grad_context = grad_context.contiguous()
        inner_RQ1 = (grad_context * context).sum(-1, keepdim=True)  # sum of weight x its gradient
        grad_context = grad_context * plan.dropped.scale
        generator = plan.dropped.start()
        memory = inputs.memory()
        for tile in inputs.tiles(plan.spans):
            weights, grad_scores = inputs.weights(tile, memory)
            kept = plan.dropped.kept(weights, generator)
            grad = grad_context[tile.heads, tile.queries]
            torch.bmm(grad, inputs.value_RKE[tile.heads, tile.keys].mT, out=grad_scores)
            seen = weights
            if kept is not None:
                grad_scores.mul_(kept)
                seen = weights * kept
            grads.value_RKE[tile.heads, tile.keys].baddbmm_(seen.mT, grad)
            grad_scores.sub_(inner_RQ1[tile.heads, tile.queries]).mul_(weights)
            grads.add(inputs, tile, grad_scores)
        return *grads, None


class _Gradients(_Inputs):
    """Gradients of ``_Inputs``."""

    @classmethod
    def zeros(cls, inputs: _Inputs) -> _Gradients:
        """Nothing yet."""
        made = (None if x is None else torch.zeros_like(x) for x in inputs)
        return cls(*made)  # type: ignore[arg-type]

    def add(self, inputs: _Inputs, tile: _Tile, grad_RQK: Tensor) -> None:
        """Add what the gradients of a tile's scores give."""
        heads, queries, key_rows, keys = tile
        if self.query_RQE is not None and self.key_RKE is not None:
            assert inputs.query_RQE is not None and inputs.key_RKE is not None
            place = self.query_RQE[heads, queries]
            torch.bmm(grad_RQK, inputs.key_RKE[heads, keys], out=place)
            self.key_RKE[heads, keys].baddbmm_(grad_RQK.mT, inputs.query_RQE[heads, queries])
        if self.columns_RQW is not None and self.rows_RQW is not None:
            by_row = grad_RQK.unflatten(2, (-1, self.columns_RQW.shape[2]))
            self.columns_RQW[heads, queries] = by_row.sum(2)
            self.rows_RQW[heads, queries, key_rows] = by_row.sum(3)
        if self.key_RK is not None:
            self.key_RK[heads, keys] += grad_RQK.sum(1)
