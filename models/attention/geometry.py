"""Where queries and keys stand. Made once a batch and handed to every layer."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor


class Geometry:
    """Base of all geometries: how many queries and keys there are, and in which order.

    Attributes:
        name: what traits and sites call it.
        queries, keys: numbers of queries Q and keys K.
        query_start, query_step: query i stands at ``query_start + i * query_step``, key j at j,
            in the order of the elements (for masks; an order of regions means nothing).
    """

    name: ClassVar[str]
    queries: int
    keys: int
    query_start: int = 0
    query_step: int = 1

    @property
    def layout(self) -> tuple[int, ...]:
        """Numbers that tell apart geometries under which masks differ."""
        return self.queries, self.keys, self.query_start, self.query_step

    @property
    def offsets(self) -> tuple[int, int]:
        """Smallest and largest relative position ``key index - query index``, in elements."""
        last_query = self.query_start + self.query_step * (self.queries - 1)
        return -last_query, self.keys - 1 - self.query_start


class Sequence1D(Geometry):
    """Positions in a sequence, in tokens: query i stands at ``query_start + i``, key j at j.

    In decoding, ``query_step=0`` puts every query at ``query_start``: the beams of one item,
    which all continue the same position.

    Args:
        queries: number of queries Q.
        keys: number of keys K.
        query_start: position of the first query, in tokens.
        query_step: 1 for consecutive queries, 0 for queries that share one position.
    """

    name = "Sequence1D"

    def __init__(
        self, queries: int, keys: int, *, query_start: int = 0, query_step: int = 1
    ) -> None:
        if query_step not in (0, 1):
            raise ValueError(f"query_step is 0 or 1, not {query_step}")
        self.queries = queries
        self.keys = keys
        self.query_start = query_start
        self.query_step = query_step
        self._encodings: dict[tuple[object, ...], Tensor] = {}

    def encoding(self, low: int, high: int, dim: int, base: float, like: Tensor) -> Tensor:
        """Sinusoidal encoding (P, D) of the offsets low..high, computed once for all layers."""
        key = (low, high, dim, base, like.device, like.dtype)
        if key not in self._encodings:
            self._encodings[key] = sinusoid(low, high, dim, base, like)
        return self._encodings[key]

    def skew(self, scores_BHQP: Tensor) -> Tensor:
        """Move scores against the offsets (``offsets`` range) into place: (B, H, Q, K).

        Query q and key k get the score of offset k - q. Views only: nothing of size Q x K x D
        is made and the backward pass is a pad.
        """
        if self.query_step == 0 or self.queries == 1:
            return scores_BHQP
        batch, heads, queries, offsets = scores_BHQP.shape
        flat = scores_BHQP.reshape(batch, heads, queries * offsets)
        flat = flat[..., queries - 1 : queries - 1 + queries * (offsets - 1)]
        return flat.reshape(batch, heads, queries, offsets - 1)[..., : self.keys]


def sinusoid(
    low: int,
    high: int,
    dim: int,
    base: float,
    like: Tensor,
    step: int = 1,
    magnitude: float = 1.0,
) -> Tensor:
    """Sines then cosines of the integers low, low + step, ..., high, times ``magnitude``: (P, dim).

    Frequencies ``base ** (-2 i / dim)`` as in "Attention Is All You Need", section 3.5. Computed
    in float64, then cast to the type of ``like``.
    """
    position_P = torch.arange(low, high + 1, step, device=like.device, dtype=torch.float64)
    index = torch.arange(0, dim, 2, device=like.device, dtype=torch.float64)
    angle = magnitude * position_P[:, None] * torch.exp(index * (-math.log(base) / dim))
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :dim].to(like.dtype)
