"""Slow references, loops straight from the formulas, to be run in float64.

They take the parameters of a module and nothing else of it: no kernel, no mask, no view trick.
Every value stays differentiable, so that gradients are compared too.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnbench.models.attention.deformable import DeformableConvolution
from attnbench.models.attention.dynamic import DynamicConvolution
from attnbench.models.attention.nsa import ElementNorm, NormalisedAttention
from attnbench.models.attention.terms import TermsAttention

Visible = Callable[[int, int, int], bool]
"""(item, query, key) -> whether the query may read the key."""


def everything_visible(item: int, query: int, key: int) -> bool:
    return True


def visibility(valid_BK: Tensor | None, *, causal: bool = False, reach: int = 0) -> Visible:
    """What padding, causality and a range of ``reach`` keys leave to read."""

    def visible(item: int, query: int, key: int) -> bool:
        if valid_BK is not None and not bool(valid_BK[item, key]):
            return False
        if causal and key > query:
            return False
        if not reach:
            return True
        return query - key < reach if causal else abs(query - key) <= reach // 2

    return visible


def relative_encoding(offset: int, dim: int, base: float) -> Tensor:
    """R of one relative position: all sines, then all cosines."""
    angles = [offset / base ** (2 * i / dim) for i in range(math.ceil(dim / 2))]
    values = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return torch.tensor(values[:dim], dtype=torch.float64)


def gather(
    score: Callable[[int, int, int, int], Tensor],
    value_BKD: Tensor,
    heads: int,
    queries: int,
    visible: Visible,
) -> tuple[Tensor, Tensor]:
    """Softmax of ``score(item, head, query, key)`` and the weighted sum: (B, Q, D), weights."""
    batch, keys, dim = value_BKD.shape
    width = dim // heads
    weights = value_BKD.new_zeros(batch, heads, queries, keys)
    rows = []
    for b in range(batch):
        for q in range(queries):
            for m in range(heads):
                read = [k for k in range(keys) if visible(b, q, k)]
                if not read:
                    rows.append(value_BKD.new_zeros(width))
                    continue
                exps = torch.stack([score(b, m, q, k) for k in read]).exp()
                alphas = exps / exps.sum()
                values = [value_BKD[b, k, m * width : (m + 1) * width] for k in read]
                rows.append(sum(a * v for a, v in zip(alphas, values, strict=True)))
                for alpha, k in zip(alphas, read, strict=True):
                    weights[b, m, q, k] = alpha.detach()
    return torch.stack(rows).reshape(batch, queries, dim), weights


def linear(x: Tensor, module: torch.nn.Linear) -> Tensor:
    y = x @ module.weight.T
    return y if module.bias is None else y + module.bias


def terms(
    module: TermsAttention,
    query_BQD: Tensor,
    memory_BKD: Tensor,
    visible: Visible = everything_visible,
) -> tuple[Tensor, Tensor]:
    """Equations 1 and 2 of Zhu et al., one query, key and head at a time."""
    E, base = module.head_dim, module.base
    divisor = math.sqrt(E) if module.scale != 1 else 1.0

    def of_head(m: int, module: torch.nn.Linear | None, x: Tensor) -> Tensor:
        assert module is not None
        row = slice(m * E, (m + 1) * E)
        y = module.weight[row] @ x
        return y if module.bias is None else y + module.bias[row]

    def score(b: int, m: int, q: int, k: int) -> Tensor:
        e1, e2, e3, e4 = module.terms
        z, x, R = query_BQD[b, q], memory_BKD[b, k], relative_encoding(k - q, module.dim, base)
        total = torch.zeros((), dtype=torch.float64)
        if e1:
            total = total + of_head(m, module.query_proj, z) @ of_head(m, module.key_proj, x)
        if e2:
            total = total + of_head(m, module.query_proj, z) @ of_head(m, module.relative_proj, R)
        if e3:
            assert module.content_bias_HE is not None
            total = total + module.content_bias_HE[m] @ of_head(m, module.key_proj, x)
        if e4:
            assert module.relative_bias_HE is not None
            total = total + module.relative_bias_HE[m] @ of_head(m, module.relative_proj, R)
        return total / divisor

    value_BKD = linear(memory_BKD, module.value_proj)
    context, weights = gather(score, value_BKD, module.heads, query_BQD.shape[1], visible)
    return linear(context, module.out_proj), weights


def element_norm(norm: ElementNorm, x_BTD: Tensor, valid_BT: Tensor) -> Tensor:
    """Normalise the real elements, one channel or element at a time; padded ones are 0."""
    batch, length, dim = x_BTD.shape
    real = [(b, t) for b in range(batch) for t in range(length) if bool(valid_BT[b, t])]
    groups: list[list[tuple[int, int, int]]]
    if norm.norm == "instance":
        groups = [[(b, t, d) for b, t in real if b == i] for i in range(batch) for d in range(dim)]
    elif norm.norm == "batch":
        groups = [[(b, t, d) for b, t in real] for d in range(dim)]
    else:
        groups = [[(b, t, d) for d in range(dim)] for b, t in real]
    done: dict[tuple[int, int, int], Tensor] = {}
    for group in groups:
        values = [x_BTD[place] for place in group]
        if not values:
            continue
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        for place, value in zip(group, values, strict=True):
            done[place] = (value - mean) / (variance + norm.eps) ** 0.5
            if norm.scale_D is not None and norm.shift_D is not None:
                done[place] = done[place] * norm.scale_D[place[2]] + norm.shift_D[place[2]]
    zero = x_BTD.new_zeros(())
    flat = [
        done.get((b, t, d), zero) for b in range(batch) for t in range(length) for d in range(dim)
    ]
    return torch.stack(flat).reshape(batch, length, dim)


def nsa(
    module: NormalisedAttention,
    query_BQD: Tensor,
    memory_BKD: Tensor,
    valid_BQ: Tensor,
    valid_BK: Tensor,
    visible: Visible,
) -> tuple[Tensor, Tensor]:
    """softmax(IN(Q) K^T / sqrt(E)) V of Guo et al., and its relatives."""
    assert module.query_proj is not None and module.key_proj is not None
    E = module.head_dim
    queries, keys = linear(query_BQD, module.query_proj), linear(memory_BKD, module.key_proj)
    if module.query_norm is not None:
        queries = element_norm(module.query_norm, queries, valid_BQ)
    if module.key_norm is not None:
        keys = element_norm(module.key_norm, keys, valid_BK)

    def score(b: int, m: int, q: int, k: int) -> Tensor:
        row = slice(m * E, (m + 1) * E)
        return queries[b, q, row] @ keys[b, k, row] / math.sqrt(E)

    value_BKD = linear(memory_BKD, module.value_proj)
    context, weights = gather(score, value_BKD, module.heads, query_BQD.shape[1], visible)
    return linear(context, module.out_proj), weights


def dynamic(
    module: DynamicConvolution, x_BTD: Tensor, valid_BT: Tensor, *, causal: bool
) -> tuple[Tensor, Tensor]:
    """Wu et al., equations 3 to 5, one output number at a time; also the kernels (B, G, T, K)."""
    batch, length, dim = x_BTD.shape
    groups, taps = module.groups, module.kernel
    back = taps - 1 if causal else (taps - 1) // 2
    gated = linear(x_BTD, module.in_proj)
    if module.glu:
        gated = gated[..., :dim] * torch.sigmoid(gated[..., dim:])
    gated = gated * valid_BT[..., None]
    kernels = linear(gated, module.kernel_proj).reshape(batch, length, groups, taps)
    if module.softmax:
        kernels = kernels.exp() / kernels.exp().sum(-1, keepdim=True)
    numbers = []
    for b in range(batch):
        for t in range(length):
            for c in range(dim):
                total = x_BTD.new_zeros(())
                for k in range(taps):
                    source = t + k - back
                    if 0 <= source < length:
                        g = c // (dim // groups)
                        total = total + kernels[b, t, g, k] * gated[b, source, c]
                numbers.append(total)
    mixed = torch.stack(numbers).reshape(batch, length, dim)
    return linear(mixed, module.out_proj), kernels.transpose(1, 2)


def deformable(
    module: DeformableConvolution, x_BTD: Tensor, valid_BT: Tensor, *, causal: bool
) -> Tensor:
    """Dai et al., equations 2 to 4 in one dimension, one position and tap at a time."""
    batch, length, dim = x_BTD.shape
    taps = module.kernel
    first = 1 - taps if causal else -(taps // 2)
    x_BTD = x_BTD * valid_BT[..., None]
    rows = []
    for b in range(batch):
        for q in range(length):
            near = {m: q + first + m for m in range(taps)}
            near = {m: t for m, t in near.items() if 0 <= t < length}
            row = module.bias_D
            for m in range(taps):
                offset = module.offset_bias_K[m]
                for n, t in near.items():
                    offset = offset + module.offset_weight_KDK[m, :, n] @ x_BTD[b, t]
                place = q + first + m + offset
                if causal:
                    place = torch.clamp(place, max=float(q))
                sampled = sum(
                    torch.clamp(1 - (place - k).abs(), min=0) * x_BTD[b, k] for k in range(length)
                )
                row = row + module.weight_DDK[:, :, m] @ sampled
            rows.append(row)
    return torch.stack(rows).reshape(batch, length, dim)
