"""Which keys a query may read. Made once a batch and handed to every layer."""

from __future__ import annotations

import torch
from torch import Tensor

from .geometry import Geometry
from .grid import Grid2D
from .latest import Latest


class AttentionMask:
    """Padding of keys and queries, and whether the future is hidden.

    Args:
        keys_BK: bool, True where a key is real; None if all are.
        queries_BQ: bool, True where a query is real. None in self-attention, where the queries
            are the keys. Used by variants that take statistics over the queries.
        causal: query i may read keys up to its own position only.
    """

    def __init__(
        self,
        keys_BK: Tensor | None = None,
        queries_BQ: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> None:
        self.keys_BK = keys_BK
        self._queries_BQ = queries_BQ
        self.causal = causal
        self._allowed: Latest[Allowed] = Latest()

    @property
    def queries_BQ(self) -> Tensor | None:
        """True where a query is real; in self-attention the key mask."""
        return self.queries_of(memory=False)

    def queries_of(self, *, memory: bool) -> Tensor | None:
        """True where a query is real, None if all are; ``memory``: the keys are other elements."""
        if self._queries_BQ is None and not memory:
            return self.keys_BK
        return self._queries_BQ

    def allowed(
        self,
        where: Geometry,
        window: tuple[int, int] | None,
        device: torch.device,
        reach: int | None = None,
    ) -> Allowed:
        """The mask of one call, remembered for the layers that follow.

        Args:
            where: positions of queries and keys.
            window: smallest and largest offset ``key - query`` that may be read, or None.
            device: where to make it.
            reach: on a feature map, cells to each side on either axis that may be read; None: all.
        """

        def make() -> Allowed:
            made = Allowed.make(self, where, window, device)
            if reach is not None and isinstance(where, Grid2D):
                made.restrict(where.reads_any(reach, self.keys_BK, device))
            return made

        return self._allowed.get((where.name, *where.layout, window, reach, device), make)


class Allowed:
    """Boolean mask of one attention call, broadcastable to (B, H, Q, K); None allows all."""

    def __init__(self, mask: Tensor | None) -> None:
        self.mask = mask
        self.any_BHQ1: Tensor | None = None
        """True where a query may read some key; None if every query may."""
        if mask is not None:
            some = mask.any(-1, keepdim=True)
            if mask.is_meta:
                return
            if not bool(some.all()):
                self.any_BHQ1 = some
                # Softmax over nothing is undefined: such a row reads all keys and is zeroed after.
                self.mask = mask | ~some

    @property
    def of_keys_only(self) -> bool:
        """Whether all queries of an item may read the same keys."""
        return self.mask is None or self.mask.shape[2] == 1

    def restrict(self, some_BHQ1: Tensor) -> None:
        """Only the queries that are True here may read a key; the scores hide the others'."""
        if some_BHQ1.is_meta or not bool(some_BHQ1.all()):
            self.any_BHQ1 = some_BHQ1

    @classmethod
    def make(
        cls,
        mask: AttentionMask,
        where: Geometry,
        window: tuple[int, int] | None,
        device: torch.device,
    ) -> Allowed:
        """Put padding, causality and window together; None stays None where nothing is hidden."""
        combined = None if mask.keys_BK is None else mask.keys_BK[:, None, None, :]
        lowest, highest = where.offsets
        low, high = window if window is not None else (lowest, highest)
        if mask.causal:
            high = min(high, 0)
        if low > lowest or high < highest:
            query_Q = where.query_start + where.query_step * torch.arange(
                where.queries, device=device
            )
            offset_QK = torch.arange(where.keys, device=device) - query_Q[:, None]
            inside = (offset_QK >= low) & (offset_QK <= high)
            combined = inside[None, None] if combined is None else combined & inside
        return cls(combined)
