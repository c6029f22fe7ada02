"""Scores of pairs of regions from a learned embedding of their geometry, a few items at a time."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

CPU_NUMBERS = 2**18
"""Numbers of the embedding held at a time on a CPU, few enough to stay in its caches."""

GPU_NUMBERS = 2**26


def no_autocast(like: Tensor) -> contextlib.AbstractContextManager[object]:
    """Inside, products run in the type of their arguments; for the device of ``like``."""
    if like.is_meta:
        return contextlib.nullcontext()
    return torch.autocast(like.device.type, enabled=False)


def geometric_scores(
    ratios_BNN4: Tensor, weight_RG4: Tensor, bias_RG: Tensor, asking_BNHG: Tensor
) -> Tensor:
    """``asking[i] . ReLU(weight @ ratios[i, j] + bias)`` for every pair: (B, H, N, N).

    The embedding of all pairs, (B, N, N, G), is never held: it is made for a few items at a
    time, read by all heads while it is in the cache, and made again in the backward pass.

    Args:
        ratios_BNN4: features of the pairs, without gradient; B may be 1.
        weight_RG4, bias_RG: the map to the embedding; R is 1 (all heads share it) or H.
        asking_BNHG: what each head reads from the embeddings that start at element i.
    """
    weight_RG5 = torch.cat([weight_RG4, bias_RG[..., None]], -1)
    ratios_BNN4 = ratios_BNN4.expand(len(asking_BNHG), -1, -1, -1)
    with no_autocast(asking_BNHG):
        scores_BNHN: Tensor = _GeometricScores.apply(
            ratios_BNN4, weight_RG5.to(asking_BNHG.dtype), asking_BNHG
        )  # type: ignore[assignment]
    return scores_BNHN.transpose(1, 2)


class _GeometricScores(Function):
    """Forward and backward over a few items at a time; the bias stands in a fifth column."""

    @staticmethod
    def forward(ctx: Any, ratios_BNN4: Tensor, weight_RG5: Tensor, asking_BNHG: Tensor) -> Tensor:
        ctx.save_for_backward(ratios_BNN4, weight_RG5, asking_BNHG)
        scores_BNHN = asking_BNHG.new_empty(*asking_BNHG.shape[:3], ratios_BNN4.shape[2])
        for items in items_at_a_time(ratios_BNN4, weight_RG5.shape[1]):
            ratios_P5 = _with_one(ratios_BNN4[items], weight_RG5)
            for heads, weight_G5 in _shares(weight_RG5, asking_BNHG.shape[2]):
                asking = asking_BNHG[items, :, heads].flatten(0, 1)
                embedding = _embedding(ratios_P5, weight_G5, asking)
                product = asking @ embedding.transpose(1, 2)
                place = scores_BNHN[items, :, heads]
                place.copy_(product.view_as(place))
        return scores_BNHN

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BNHN: Tensor) -> Any:  # type: ignore[override]
        ratios_BNN4, weight_RG5, asking_BNHG = ctx.saved_tensors
        grad_weight_RG5 = torch.zeros_like(weight_RG5)
        grad_asking_BNHG = torch.empty_like(asking_BNHG)
        with no_autocast(asking_BNHG):
            for items in items_at_a_time(ratios_BNN4, weight_RG5.shape[1]):
                ratios_P5 = _with_one(ratios_BNN4[items], weight_RG5)
                for share, (heads, weight_G5) in enumerate(
                    _shares(weight_RG5, asking_BNHG.shape[2])
                ):
                    asking = asking_BNHG[items, :, heads].flatten(0, 1)
                    grad = grad_BNHN[items, :, heads].flatten(0, 1)
                    embedding = _embedding(ratios_P5, weight_G5, asking)
                    place = grad_asking_BNHG[items, :, heads]
                    place.copy_((grad @ embedding).view_as(place))
                    grad_embedding = grad.transpose(1, 2) @ asking
                    grad_embedding.mul_(embedding > 0)
                    grad_weight_RG5[share].addmm_(grad_embedding.flatten(0, 1).T, ratios_P5)
        return None, grad_weight_RG5, grad_asking_BNHG


def items_at_a_time(ratios_BNN4: Tensor, width: int) -> list[slice]:
    """Slices of the batch, of as many items as may have ``width`` numbers a pair held together."""
    batch, elements = ratios_BNN4.shape[:2]
    numbers = CPU_NUMBERS if ratios_BNN4.device.type == "cpu" else GPU_NUMBERS
    size = max(1, numbers // max(1, elements**2 * width))
    return [slice(first, first + size) for first in range(0, batch, size)]


def _shares(weight_RG5: Tensor, heads: int) -> list[tuple[slice, Tensor]]:
    """Which heads read which embedding."""
    each = heads // len(weight_RG5)
    return [(slice(r * each, (r + 1) * each), weight) for r, weight in enumerate(weight_RG5)]


def _with_one(ratios: Tensor, like: Tensor) -> Tensor:
    """Features of some items' pairs and a 1 for the bias, (pairs, 5)."""
    return F.pad(ratios.to(like.dtype).flatten(0, -2), (0, 1), value=1.0)


def _embedding(ratios_P5: Tensor, weight_G5: Tensor, asking: Tensor) -> Tensor:
    """ReLU of the map, (items * N, N, G), for ``asking`` (items * N, heads, G)."""
    rows, _, width = asking.shape
    return (ratios_P5 @ weight_G5.T).relu_().view(rows, len(ratios_P5) // max(1, rows), width)
