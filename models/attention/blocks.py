"""Softmax attention block by block on a CPU: no Q x K tensor outlives its block.

The fused kernel of torch has no dropout on a CPU, and falls back to whole Q x K tensors (scores,
weights, dropped weights, which are kept for the backward pass). Here a block of scores stays in the
cache, the backward pass makes it again, and a dropout mask is 16 random bits an element, drawn four
at a time. All products are written with the short side (the width of a head) in front, which is
several times faster for narrow heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

BLOCK = 2**17
"""Scores in a block, unless one head of one item has more."""

LEVELS = 2**16
"""Different values of the random number of an element."""


def attend_in_blocks(
    query_BHQE: Tensor,
    key_BHKE: Tensor,
    value_BHKE: Tensor,
    added: Tensor | None,
    dropout: float,
) -> Tensor:
    """``dropout(softmax(Q K^T + added)) V``, (B, H, Q, E); differentiable once in all tensors.

    Args:
        query_BHQE, key_BHKE, value_BHKE: the query with any 1/sqrt(E) in it.
        added: biases and -inf for what is hidden, broadcastable to (B, H, Q, K); no row may be
            -inf throughout.
        dropout: probability of dropping a weight, taken to the nearest 1/65536. The mask follows
            torch's default generator.
    """
    context: Tensor = _Blocks.apply(query_BHQE, key_BHKE, value_BHKE, added, dropout)  # type: ignore[assignment]
    return context


class Dropped:
    """Which weights dropout keeps: the same every time they are drawn in the same order.

    Args:
        dropout: probability of dropping a weight, taken to the nearest 1/65536. The masks follow
            torch's default generator.
    """

    def __init__(self, dropout: float) -> None:
        drop = round(dropout * LEVELS)
        self.scale = LEVELS / (LEVELS - drop) if drop < LEVELS else 0.0
        self.lowest_kept = drop - LEVELS // 2
        self.seed = int(torch.randint(2**62, ())) if drop else None

    def start(self) -> torch.Generator | None:
        """What ``kept`` draws from, at its start; None if nothing is dropped."""
        return None if self.seed is None else torch.Generator().manual_seed(self.seed)

    def kept(self, weights: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Which of the next weights are kept, bool; None if all are."""
        if generator is None:
            return None
        number = weights.numel()
        drawn = torch.empty(-(-number // 4), dtype=torch.int64)
        drawn.random_(-(2**63), None, generator=generator)  # pyright: ignore[reportArgumentType]
        return (drawn.view(torch.int16)[:number] >= self.lowest_kept).view_as(weights)


class _Blocks(torch.autograd.Function):
    """Forward and backward pass of ``attend_in_blocks``."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, dropout: float
    ) -> Tensor:
        """See ``attend_in_blocks``."""
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        work = _Work(query, key, added, dropout)
        context_EQ = query.new_empty(*value.shape[:2], value.shape[3], query.shape[2])
        for rows, weights_QK, keep_QK in work.blocks(query, key):
            if keep_QK is not None:
                weights_QK.mul_(keep_QK)
            torch.bmm(_flat(value, rows).mT, weights_QK.mT, out=_flat(context_EQ, rows))
        context = context_EQ.mul_(work.dropped.scale).mT
        ctx.work = work
        ctx.save_for_backward(query, key, value, context)
        return context

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """The gradients; every block of weights is made again."""
        query, key, value, context = ctx.saved_tensors
        work: _Work = ctx.work
        grad_context = grad_context.contiguous()
        inner_Q1 = (grad_context * context).sum(-1, keepdim=True)  # sum of weight x its gradient
        grad_scaled = grad_context * work.dropped.scale
        grad_query, grad_key, grad_value = (
            one.new_empty(*one.shape[:2], one.shape[3], one.shape[2]) for one in (query, key, value)
        )
        added = work.added
        grad_added = None
        if added is not None and ctx.needs_input_grad[3]:
            grad_added = torch.zeros_like(added, memory_format=torch.contiguous_format)
        for rows, weights_QK, keep_QK in work.blocks(query, key):
            grad_QK = _flat(grad_scaled, rows) @ _flat(value, rows).mT
            seen_QK = weights_QK
            if keep_QK is not None:
                grad_QK.mul_(keep_QK)
                seen_QK = weights_QK * keep_QK
            torch.bmm(_flat(grad_scaled, rows).mT, seen_QK, out=_flat(grad_value, rows))
            grad_QK.sub_(_flat(inner_Q1, rows)).mul_(weights_QK)
            torch.bmm(_flat(key, rows).mT, grad_QK.mT, out=_flat(grad_query, rows))
            torch.bmm(_flat(query, rows).mT, grad_QK, out=_flat(grad_key, rows))
            if grad_added is not None:
                work.part(grad_added, rows).add_(
                    work.unflat(grad_QK, rows).sum_to_size(work.part(grad_added, rows).shape)
                )
        return grad_query.mT, grad_key.mT, grad_value.mT, grad_added, None


class _Work:
    """The blocks of one call: rows are the heads of the items, one after another.

    A block is some whole items, or some heads of one item.
    """

    def __init__(self, query: Tensor, key: Tensor, added: Tensor | None, dropout: float) -> None:
        self.items, self.heads, self.queries, _ = query.shape
        self.keys = key.shape[2]
        self.added = added
        self.dropped = Dropped(dropout)

    def rows(self) -> Iterator[slice]:
        """The rows of each block."""
        fitting = max(1, BLOCK // max(1, self.queries * self.keys))
        step = fitting // self.heads * self.heads or math.gcd(fitting, self.heads)
        total = self.items * self.heads
        for start in range(0, total, step):
            yield slice(start, min(start + step, total))

    def blocks(self, query: Tensor, key: Tensor) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
        """Rows, weights (R, Q, K) and which of them dropout keeps; the same every time."""
        generator = self.dropped.start()
        for rows in self.rows():
            scores_QK = _flat(query, rows) @ _flat(key, rows).mT
            if self.added is not None:
                self.unflat(scores_QK, rows).add_(self.part(self.added, rows))
            weights_QK = scores_QK.softmax(-1)
            yield rows, weights_QK, self.dropped.kept(weights_QK, generator)

    def unflat(self, block: Tensor, rows: slice) -> Tensor:
        """(R, Q, K) to (items, heads, Q, K)."""
        return block.unflatten(0, (-1, min(self.heads, rows.stop - rows.start)))

    def part(self, added: Tensor, rows: slice) -> Tensor:
        """What is added to a block, broadcastable to (items, heads, Q, K)."""
        first, head = divmod(rows.start, self.heads)
        if added.shape[0] > 1:
            added = added[first : -(-rows.stop // self.heads)]
        if added.shape[1] > 1 and rows.stop - rows.start < self.heads:
            added = added[:, head : head + rows.stop - rows.start]
        return added


def _flat(x_BHTE: Tensor, rows: slice) -> Tensor:
    """Some rows of a contiguous (B, H, T, E), as (R, T, E)."""
    return x_BHTE.view(-1, *x_BHTE.shape[2:])[rows]
