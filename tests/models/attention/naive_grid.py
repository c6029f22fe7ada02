"""Slow reference of the energy terms on feature maps, loops straight from the formulas."""

import math

import torch
from torch import Tensor

from attnbench.models.attention import Grid2D
from attnbench.models.attention.grid_terms import GridTermsAttention
from tests.models.attention.naive import gather, linear


def cells(height: int, width: int, stride: int) -> list[tuple[int, int]]:
    """Row and column of every cell that a stride keeps, row by row."""
    return [(r, c) for r in range(0, height, stride) for c in range(0, width, stride)]


def axis_encoding(apart: float, dim: int, base: float) -> list[float]:
    """Encoding of the cells apart on one axis, dim / 2 numbers: all sines, then all cosines."""
    angles = [apart / base ** (4 * i / dim) for i in range(dim // 4)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def relative_encoding(module: GridTermsAttention, rows: int, columns: int) -> Tensor:
    """R of one relative position, halves of x and y, each over the root of 2."""
    dim = module.position_dim
    x = axis_encoding(columns * module.magnitude, dim, module.base)
    y = axis_encoding(rows * module.magnitude, dim, module.base)
    return torch.tensor(x + y, dtype=torch.float64) / math.sqrt(2)


def terms(
    module: GridTermsAttention,
    query_BQD: Tensor,
    memory_BKD: Tensor,
    where: Grid2D,
    valid_BK: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Equations 1 and 2 of Zhu et al., one query, key and head at a time."""
    E = module.head_dim
    divisor = math.sqrt(E) if module.scale != 1 else 1.0
    queries = cells(where.height, where.width, where.query_stride)
    keys = cells(where.height, where.width, where.key_stride)

    def apart(q: int, k: int) -> tuple[int, int]:
        return keys[k][0] - queries[q][0], keys[k][1] - queries[q][1]

    def visible(b: int, q: int, k: int) -> bool:
        if valid_BK is not None and not bool(valid_BK[b, k]):
            return False
        return not module.range or max(map(abs, apart(q, k))) <= module.range // 2

    e1, e2, e3, e4 = module.terms
    asking = None if module.query_proj is None else linear(query_BQD, module.query_proj)
    answer = None if module.key_proj is None else linear(memory_BKD, module.key_proj)
    relative: dict[tuple[int, int], Tensor] = {}
    if module.relative_proj is not None:
        for places in {apart(q, k) for q in range(len(queries)) for k in range(len(keys))}:
            relative[places] = linear(relative_encoding(module, *places), module.relative_proj)

    def score(b: int, m: int, q: int, k: int) -> Tensor:
        head = slice(m * E, (m + 1) * E)
        total = torch.zeros((), dtype=torch.float64)
        if e1:
            assert asking is not None and answer is not None
            total = total + asking[b, q, head] @ answer[b, k, head]
        if e2:
            assert asking is not None
            total = total + asking[b, q, head] @ relative[apart(q, k)][head]
        if e3:
            assert module.content_bias_HE is not None and answer is not None
            total = total + module.content_bias_HE[m] @ answer[b, k, head]
        if e4:
            assert module.relative_bias_HE is not None
            total = total + module.relative_bias_HE[m] @ relative[apart(q, k)][head]
        return total / divisor

    value_BKD = linear(memory_BKD, module.value_proj)
    context, weights = gather(score, value_BKD, module.heads, len(queries), visible)
    return linear(context, module.out_proj), weights
