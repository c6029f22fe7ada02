"""The k best of each row, with ties broken by the lower index on every device.

``torch.topk`` picks freely among equal values, so that a batch of another size may give another
hypothesis. Here value and index are one integer key, and no two keys are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64
"""Neighbouring entries that are first reduced to their maximum."""


def top_k(
    values_NV: Tensor, k: int, offset_N: Tensor | None = None, group: int = 1
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest values of each group of rows, largest first, and where they stand.

    For long rows the maxima of blocks are ranked first: the k best entries lie in the k best
    blocks, and only those are looked at one by one. That reads a row once, about ten times
    faster than a ``topk`` over it on a CPU.

    Args:
        values_NV: float32.
        k: at most ``group * V``.
        offset_N: added to the values of each row before they are compared; default 0.
        group: neighbouring rows that are ranked together; divides N.

    Returns:
        values with their offset, and indices (long) into the ``group * V`` entries of the group,
        both (N / group, k).
    """
    if offset_N is None:
        offset_N = values_NV.new_zeros(len(values_NV))
    length = values_NV.shape[1]
    blocks = length // BLOCK
    if group * blocks <= 2 * k:
        values_IC = (values_NV + offset_N[:, None]).view(-1, group * length)
        index_Ik = _ranked(values_IC, torch.arange(group * length, device=values_NV.device), k)
        return values_IC.gather(1, index_Ik), index_Ik
    index_IC, row_IC = _candidates(values_NV, k, offset_N, group)
    values_IC = values_NV.view(-1, group * length).gather(1, index_IC)
    values_IC = values_IC + offset_N.view(-1, group).gather(1, row_IC)
    place_Ik = _ranked(values_IC, index_IC, k)
    return values_IC.gather(1, place_Ik), index_IC.gather(1, place_Ik)


def _candidates(values_NV: Tensor, k: int, offset_N: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """All entries of the k best blocks, and those in no block: indices and rows (N / group, C)."""
    length = values_NV.shape[1]
    blocks = length // BLOCK
    best_NC = values_NV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)).amax(-1)
    best_IC = (best_NC + offset_N[:, None]).view(-1, group * blocks)
    block_Ik = _ranked(best_IC, torch.arange(group * blocks, device=values_NV.device), k)
    row_Ik = block_Ik // blocks
    first_Ik = row_Ik * length + (block_Ik - row_Ik * blocks) * BLOCK
    inside = torch.arange(BLOCK, device=values_NV.device)
    index_IC = (first_Ik[..., None] + inside).flatten(1)
    row_IC = row_Ik.repeat_interleave(BLOCK, 1)
    if blocks * BLOCK == length:
        return index_IC, row_IC
    row_G1 = torch.arange(group, device=values_NV.device)[:, None]
    last = torch.arange(blocks * BLOCK, length, device=values_NV.device)
    rest = (row_G1 * length + last).flatten().expand(len(index_IC), -1)
    rest_row = row_G1.expand(-1, len(last)).flatten().expand(len(index_IC), -1)
    return torch.cat([index_IC, rest], 1), torch.cat([row_IC, rest_row], 1)


def _ranked(values_IC: Tensor, index: Tensor, k: int) -> Tensor:
    """Places (I, k) of the largest values, largest first; of equal ones the lowest index first.

    Value and index become one integer. The bits of a float32 order like a signed integer once
    those of negative numbers, except the sign, are flipped; adding 0 turns -0 into 0.
    NaN ranks as infinity, so that it isn't overlooked.
    """
    bits = (values_IC + 0.0).nan_to_num(torch.inf, torch.inf, -torch.inf).view(torch.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return ((ordered.long() << 32) - index).topk(k).indices
