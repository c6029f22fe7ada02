"""Attention with scores of pairs of cells of a feature map, one row of queries at a time.

All cells are boxes of one size, so what two of them are to each other depends on how many rows
and columns they are apart only: H x W different pairs and not (H W)^2. Their embeddings are made
once; the scores of a row of queries are put into place from there and made again in the backward
pass, so that neither N x N x G nor N x N numbers are ever held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .grid import Grid2D

if TYPE_CHECKING:
    from .kernels import Energy


@dataclass(frozen=True)
class CellScores:
    """What the places of two cells add to their energy; the parts that are there are summed.

    T = H W are the pairs that differ, T = (rows apart) W + (columns apart).

    Attributes:
        where: the feature map, without strides.
        table_HT: a score of each head for each pair.
        embedding_RTG: an embedding of each pair; R is 1 (all heads share it) or H.
        query_BNHG: what each head and query asks of the embeddings of its pairs.
        key_BNHG: likewise each key.
    """

    where: Grid2D
    table_HT: Tensor | None = None
    embedding_RTG: Tensor | None = None
    query_BNHG: Tensor | None = None
    key_BNHG: Tensor | None = None

    def of_row(self, row: int) -> Tensor:
        """Scores (B or 1, H, X, K) of the X queries of a row of the map, or a zero for none."""
        size = self.where.height, self.where.width
        parts = []
        rows_Y, columns_XX = self._apart(row)
        if self.table_HT is not None:
            table_HYX = self.table_HT.unflatten(1, size).index_select(1, rows_Y)
            parts.append(table_HYX[:, :, columns_XX].transpose(1, 2)[None])
        if self.embedding_RTG is not None and self.query_BNHG is not None:
            asking_BHXG = self.query_BNHG.unflatten(1, size)[:, row].transpose(1, 2)
            scores_BHXT = asking_BHXG @ self.embedding_RTG.mT
            scores_BHXYX = scores_BHXT.unflatten(-1, size).index_select(3, rows_Y)
            index = columns_XX[:, None, :].expand(*scores_BHXYX.shape)
            parts.append(scores_BHXYX.gather(-1, index))
        if self.embedding_RTG is not None and self.key_BNHG is not None:
            embedding_RYXG = self.embedding_RTG.unflatten(1, size).index_select(1, rows_Y)
            asking_BHYXG = self.key_BNHG.unflatten(1, size).permute(0, 3, 1, 2, 4)
            scores_BHYXX = asking_BHYXG @ embedding_RYXG.mT
            scores_BHYXX = scores_BHYXX.gather(-1, columns_XX.expand(*scores_BHYXX.shape))
            parts.append(scores_BHYXX.permute(0, 1, 4, 2, 3))
        return sum(parts[1:], start=parts[0]).flatten(-2)

    def _apart(self, row: int) -> tuple[Tensor, Tensor]:
        """Rows apart of the row and each other, (Y,); columns apart of each two, (X, X)."""
        tensor = next(x for x in (self.table_HT, self.embedding_RTG) if x is not None)
        columns_XX = self.where.columns.offsets(tensor.device).abs()
        return self.where.rows.offsets(tensor.device)[row].abs(), columns_XX


def attend_by_rows(
    energy: Energy,
    value_BHKE: Tensor,
    mask: Tensor | None,
    dropout: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Context (B, H, Q, E), and the weights (B, H, Q, K) if asked for.

    Args:
        energy: scores with a product and ``cells``.
        value_BHKE: values.
        mask: bool, broadcastable to (B, H, Q, K) with the same keys for all queries.
        dropout: probability of dropping a weight.
        need_weights: return the weights too.
    """
    cells, query, key = energy.cells, energy.query_BHQE, energy.key_BHKE
    assert cells is not None and query is not None and key is not None
    query_BHYXE = query.unflatten(2, (cells.where.height, -1))

    def one_row(row: int) -> tuple[Tensor, Tensor]:
        scores = query_BHYXE[:, :, row] @ key.mT + cells.of_row(row)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        return F.dropout(weights, dropout) @ value_BHKE, weights

    contexts, kept = [], []
    again = torch.is_grad_enabled() and not value_BHKE.is_meta and not need_weights
    for row in range(cells.where.height):
        if again:
            context = checkpoint(lambda row: one_row(row)[0], row, use_reentrant=False)
        else:
            context, weights = one_row(row)
            if need_weights:
                kept.append(weights)
        contexts.append(context)
    return torch.cat(contexts, 2), torch.cat(kept, 2) if need_weights else None
