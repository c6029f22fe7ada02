"""Scores by relative position on a feature map: one of the columns plus one of the rows.

The encoding of a relative position is that of its columns beside that of its rows, so that

    asking . V^R R_{k-q} = asking . V_x R_x(columns apart) + asking . V_y R_y(rows apart)

and a query has a score for each column and each row of keys, W + H numbers and not W x H.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from .grid import Grid2D, GridAxis

BLOCKED = -1e4
"""Score of a column or row out of reach: exp makes it 0, also in half precision.

Finite, since the fused kernel multiplies it with zeros; a query without any key in reach is
zeroed afterwards, as ``Allowed`` says.
"""


@dataclass(frozen=True)
class GridScores:
    """What the queries ask of relative positions, and the range they may read.

    Attributes:
        where: the feature map.
        asking_BHQE: (B or 1, H, Q or 1, E); None if relative positions give no score.
        columns_HPE, rows_HPE: projected encodings of the relative positions of either axis.
        reach: cells that a query may read to each side on either axis; None reads all.
    """

    where: Grid2D
    asking_BHQE: Tensor | None = None
    columns_HPE: Tensor | None = None
    rows_HPE: Tensor | None = None
    reach: int | None = None

    @property
    def varied(self) -> bool:
        """Whether the scores depend on the content of the query, and not only on its place."""
        return self.asking_BHQE is not None and self.asking_BHQE.shape[2] != 1

    @property
    def windowed(self) -> bool:
        """Whether each query reads a square of cells around it, a range without strides."""
        return self.reach is not None and self.where.key_stride == self.where.query_stride == 1

    def spans(self) -> list[tuple[int, int]] | None:
        """First row of keys in reach of each row of queries, and the first after; None: all."""
        if self.reach is None:
            return None
        rows = self.where.rows
        return [rows.span(query, self.reach) for query in range(rows.queries)]

    def columns(self, like: Tensor) -> Tensor:
        """Scores of each query against each column of keys: (B or 1, H or 1, Hq or 1, Wq, Wk)."""
        asking, table = self.asking_BHQE, self.columns_HPE
        if asking is not None and self.varied:
            by_column = asking.unflatten(2, (self.where.query_height, -1)).transpose(2, 3)
            return self._varied(self.where.columns, by_column, table).transpose(2, 3)
        return self._placed(self.where.columns, table, like)[:, :, None]

    def rows(self, like: Tensor) -> Tensor:
        """Scores of each query against each row of keys: (B or 1, H or 1, Hq, Wq or 1, Hk)."""
        asking, table = self.asking_BHQE, self.rows_HPE
        if asking is not None and self.varied:
            by_row = asking.unflatten(2, (self.where.query_height, -1))
            return self._varied(self.where.rows, by_row, table)
        return self._placed(self.where.rows, table, like)[:, :, :, None]

    def each(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """``columns`` and ``rows`` of every query: (B or 1, H, Q, Wk) and (B or 1, H, Q, Hk)."""
        size = self.where.query_height, self.where.query_width
        columns, rows = self.columns(like), self.rows(like)
        return (
            columns.expand(-1, -1, *size, -1).flatten(2, 3),
            rows.expand(-1, -1, *size, -1).flatten(2, 3),
        )

    def dense(self, like: Tensor) -> Tensor:
        """All scores, (B or 1, H or 1, Q, K)."""
        columns, rows = self.each(like)
        return (rows[..., :, None] + columns[..., None, :]).flatten(-2)

    def taps(self) -> tuple[Tensor, Tensor] | None:
        """Scores against the columns and the rows in reach only: 2 (B or 1, H, Q or 1, n).

        For a map without strides; n = 2 reach + 1. A tap that no query has a key for scores 0.
        """
        if self.asking_BHQE is None or self.reach is None:
            return None
        scores = []
        axes = (self.where.columns, self.columns_HPE), (self.where.rows, self.rows_HPE)
        for axis, table in axes:
            assert table is not None
            low, high = axis.reached(self.reach)
            missing = (low + self.reach, self.reach - high)
            scores.append(F.pad(self.asking_BHQE @ table.mT, missing))
        return scores[0], scores[1]

    def _varied(self, axis: GridAxis, asking_BHLTE: Tensor, table_HPE: Tensor | None) -> Tensor:
        """Scores (B, H, L, T, K) of T queries at each of the L places of an axis.

        Each query meets exactly the K relative positions that its place has, so that the cost is
        T L K E: the table is copied into place, (L, K, E) a head, not multiplied as a whole.
        """
        assert table_HPE is not None
        place_LK = axis.place(self.reach, table_HPE.device)
        table_HLKE = table_HPE.index_select(1, place_LK.flatten()).unflatten(1, place_LK.shape)
        asking_HLBTE = asking_BHLTE.permute(1, 2, 0, 3, 4)
        scores_HLSK = asking_HLBTE.flatten(2, 3) @ table_HLKE.mT
        scores_BHLTK = scores_HLSK.unflatten(2, (len(asking_BHLTE), -1)).permute(2, 0, 1, 3, 4)
        if self.reach is None:
            return scores_BHLTK
        outside_L1K = axis.outside(self.reach, table_HPE.device)[:, None]
        return scores_BHLTK.masked_fill(outside_L1K, BLOCKED)

    def _placed(self, axis: GridAxis, table_HPE: Tensor | None, like: Tensor) -> Tensor:
        """Scores (B or 1, H or 1, L, K) that depend on the place on the axis only."""
        if self.asking_BHQE is None or table_HPE is None:
            scores_BHLK = like.new_zeros(1, 1, axis.queries, axis.keys)
        else:
            scores_BHP = (self.asking_BHQE @ table_HPE.mT)[:, :, 0]
            place_LK = axis.place(self.reach, like.device)
            scores_BHLK = scores_BHP.index_select(2, place_LK.flatten())
            scores_BHLK = scores_BHLK.unflatten(2, place_LK.shape)
        if self.reach is None:
            return scores_BHLK
        return scores_BHLK.masked_fill(axis.outside(self.reach, like.device), BLOCKED)
