"""Slow references of the variants that read boxes, loops straight from the formulas."""

import math

import torch
from torch import Tensor

from attnbench.models.attention.boxes import SMALLEST_DISTANCE, SMALLEST_SIDE
from attnbench.models.attention.gsa import GeometryAttention, NormalisedGeometryAttention
from attnbench.models.attention.relation import RelationAttention
from tests.models.attention import naive


def log_ratios(boxes_N4: Tensor, valid_N: Tensor, i: int, j: int) -> list[float]:
    """The four numbers of equation 8 for one pair of real boxes."""
    real = [tuple(box.tolist()) for box, valid in zip(boxes_N4, valid_N, strict=True) if valid]
    numbers = []
    for axis in (0, 1):
        extent = max(box[axis + 2] for box in real) - min(box[axis] for box in real)
        floor = SMALLEST_SIDE * (extent if extent > 0 else 1)

        def side(k: int, axis: int = axis, floor: float = floor) -> float:
            return max(float(boxes_N4[k, axis + 2] - boxes_N4[k, axis]), floor)

        centres = [float(boxes_N4[k, axis] + boxes_N4[k, axis + 2]) / 2 for k in (i, j)]
        near = abs(centres[0] - centres[1]) / side(i)
        numbers.append((math.log(max(near, SMALLEST_DISTANCE)), math.log(side(i) / side(j))))
    return [numbers[0][0], numbers[1][0], numbers[0][1], numbers[1][1]]


def geometry_score(
    module: GeometryAttention | NormalisedGeometryAttention, form: str, m: int, f: Tensor, z: Tensor
) -> Tensor:
    """One phi of Guo et al. for one head and pair; ``z`` is the element that asks."""
    scores = module.geometry
    G = scores.geometry_dim
    share = slice(m * G, (m + 1) * G) if scores.shares > 1 else slice(0, G)
    embedding = torch.relu(scores.embed.weight[share] @ f + scores.embed.bias[share])
    if form == "content":
        assert scores.content_HG is not None
        return torch.relu(scores.content_HG[m] @ embedding)
    linear = scores.asking[form]
    assert isinstance(linear, torch.nn.Linear)
    row = slice(m * G, (m + 1) * G)
    asking = linear.weight[row] @ z + linear.bias[row]
    return asking @ embedding / (math.sqrt(G) if scores.scale != 1 else 1.0)


def gsa(
    module: GeometryAttention | NormalisedGeometryAttention,
    x_BND: Tensor,
    boxes_BN4: Tensor,
    valid_BN: Tensor,
    forms: list[str],
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(E) + phi) V, and its weights."""
    assert module.query_proj is not None and module.key_proj is not None
    E = module.head_dim
    queries, keys = naive.linear(x_BND, module.query_proj), naive.linear(x_BND, module.key_proj)
    if isinstance(module, NormalisedGeometryAttention):
        if module.query_norm is not None:
            queries = naive.element_norm(module.query_norm, queries, valid_BN)
        if module.key_norm is not None:
            keys = naive.element_norm(module.key_norm, keys, valid_BN)

    def score(b: int, m: int, q: int, k: int) -> Tensor:
        row = slice(m * E, (m + 1) * E)
        total = queries[b, q, row] @ keys[b, k, row] / math.sqrt(E)
        if not valid_BN[b, q]:  # an output that nobody reads
            return total
        f = x_BND.new_tensor(log_ratios(boxes_BN4[b], valid_BN[b], q, k))
        for form in forms:
            asks = k if form == "key" else q
            total = total + geometry_score(module, form, m, f, x_BND[b, asks])
        return total

    value_BND = naive.linear(x_BND, module.value_proj)
    visible = naive.visibility(valid_BN)
    context, weights = naive.gather(score, value_BND, module.heads, x_BND.shape[1], visible)
    return naive.linear(context, module.out_proj), weights


def relation_encoding(f: list[float], dim: int, wave: float) -> list[float]:
    """Sines, then cosines, of 100 f at dim / 8 wavelengths."""
    each = dim // 8
    angles = [100 * number / wave ** (n / each) for number in f for n in range(each)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def relation(
    module: RelationAttention, x_BND: Tensor, boxes_BN4: Tensor, valid_BN: Tensor
) -> tuple[Tensor, Tensor]:
    """Equations 3 to 5 of Hu et al., the gate as a factor and not in the exponent."""
    assert module.query_proj is not None and module.key_proj is not None
    E = module.head_dim
    queries, keys = naive.linear(x_BND, module.query_proj), naive.linear(x_BND, module.key_proj)

    def score(b: int, m: int, q: int, k: int) -> Tensor:
        row = slice(m * E, (m + 1) * E)
        total = queries[b, q, row] @ keys[b, k, row] / math.sqrt(E)
        if not valid_BN[b, q]:
            return total
        f = log_ratios(boxes_BN4[b], valid_BN[b], q, k)
        if module.features == "sinusoid":
            f = relation_encoding(f, module.geometry_dim, module.wave)
        gate = torch.relu(module.gate.weight[m] @ x_BND.new_tensor(f) + module.gate.bias[m])
        return (torch.clamp(gate, min=1e-6) * total.exp()).log()

    value_BND = naive.linear(x_BND, module.value_proj)
    visible = naive.visibility(valid_BN)
    context, weights = naive.gather(score, value_BND, module.heads, x_BND.shape[1], visible)
    return naive.linear(context, module.out_proj), weights
