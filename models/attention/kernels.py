"""Softmax attention from scores, on three exact paths. This file alone chooses among them.

``explicit``  scores, softmax, weights times values; where weights are asked for, for counting
              multiply-accumulates and as the reference of the other two.
``mask``      the biases are added up into one additive mask of a fused
              ``scaled_dot_product_attention`` call.
``fold``      the biases become extra features of query and key, so that the fused kernel needs
              no Q x K mask: the query holds its score against every coordinate of an axis, the
              key a one-hot of its own coordinate.
``blocks``    the biases as one additive mask, a block of scores at a time (``blocks.py``).

All give the same numbers, values and gradients (tests/models/attention/test_kernels.py); dropout
draws other random numbers on each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .blocks import attend_in_blocks
from .masks import Allowed

Path = Literal["explicit", "mask", "fold", "blocks"]

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
    """

    query_BHQE: Tensor | None = None
    key_BHKE: Tensor | None = None
    key_bias_BHK: Tensor | None = None
    axes: tuple[AxisScores, ...] = ()

    def bias(self) -> Tensor | None:
        """All parts but the product, broadcastable to (B, H, Q, K)."""
        parts = [axis.dense() for axis in self.axes]
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
        context (B, H, Q, E) and weights (B, H, Q, K) or None.
    """
    path = "explicit" if need_weights else _choose(energy, value_BHKE)
    if path == "explicit":
        context, weights = _explicit(energy, value_BHKE, allowed, dropout)
        batch, heads, keys, _ = value_BHKE.shape
        weights = weights.expand(batch, heads, queries, keys) if need_weights else None
    else:
        fused = {"mask": _mask, "fold": _fold, "blocks": _blocks}[path]
        context, weights = fused(energy, value_BHKE, allowed, dropout), None
    if allowed.any_BHQ1 is not None:
        context = context * allowed.any_BHQ1
        weights = None if weights is None else weights * allowed.any_BHQ1
    return context.expand(-1, -1, queries, -1), weights


def _choose(energy: Energy, value_BHKE: Tensor) -> Path:
    """The fastest path in one dimension, as ``benchmarks.speed.terms --paths`` measures them.

    On a CPU the fused kernel costs 1.1 to 1.5 times the explicit path for sentences, and more for
    the few queries of a decoding step; from 32 queries and keys on they are within 10 % of each
    other, the fused one with less memory. The fold is never ahead there: its heads grow by the
    length.

    Blocks of narrow heads (E of 5 or 10, 8 heads, 16 items, forward and backward in one thread)
    take 0.25 of the explicit path's time at 500 x 500 and 0.7 at 50 x 50; with dropout, which the
    fused kernel doesn't have, 0.35 and 0.8. For E = 64 they are at best level.
    """
    if energy.query_BHQE is None or energy.query_BHQE.shape[2] == 1:
        return "explicit"  # no query content: one row of weights, or one for the whole batch
    if _forced:
        return _forced[-1]
    scores = energy.query_BHQE.shape[2] * value_BHKE.shape[2]
    if not value_BHKE.is_cpu:
        return "mask"
    if scores <= FEW_SCORES:
        return "explicit"
    narrow = value_BHKE.shape[-1] <= NARROW and value_BHKE.dtype in (torch.float32, torch.float64)
    return "blocks" if narrow else "mask"


def _explicit(
    energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float
) -> tuple[Tensor, Tensor]:
    scores = energy.bias()
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
    bias = energy.bias()
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
    added = energy.bias()
    if allowed.mask is not None:
        if added is None:
            added = value_BHKE.new_zeros(allowed.mask.shape)
        added = added.masked_fill(~allowed.mask, float("-inf"))
    query, key, value = _same_batch(energy.query_BHQE, energy.key_BHKE, value_BHKE)
    return attend_in_blocks(query, key, value, added, dropout)


def _fold(energy: Energy, value_BHKE: Tensor, allowed: Allowed, dropout: float) -> Tensor:
    assert energy.query_BHQE is not None and energy.key_BHKE is not None
    query, key, value = _same_batch(energy.query_BHQE, energy.key_BHKE, value_BHKE)
    batch, heads, queries, _ = query.shape
    queries_side, keys_side = [query], [key]
    for axis in energy.axes:
        one_hot = axis.one_hot_KW().expand(batch, heads, -1, -1)
        queries_side.append(axis.scores.expand(batch, heads, queries, -1))
        keys_side.append(one_hot)
    if energy.key_bias_BHK is not None:
        queries_side.append(query.new_ones(batch, heads, queries, 1))
        keys_side.append(energy.key_bias_BHK[..., None].expand(batch, -1, -1, -1))
    query, key = torch.cat(queries_side, -1), torch.cat(keys_side, -1)
    # The CPU's fused kernel wants the value as wide as query and key.
    wide = F.pad(value, (0, query.shape[-1] - value.shape[-1]))
    context = F.scaled_dot_product_attention(
        query, key, wide, attn_mask=allowed.mask, dropout_p=dropout, scale=1.0
    )
    return context[..., : value.shape[-1]]


def _same_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch = max(query.shape[0], key.shape[0])
    return query.expand(batch, -1, -1, -1), key, value
