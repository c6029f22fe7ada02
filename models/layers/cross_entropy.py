"""Cross-entropy of a vocabulary projection that never holds the logits of a whole batch.

The logits of N tokens over V symbols are by far the largest tensor of a small model: written,
normalised, smoothed and differentiated as a whole they cost more than the layers. Here a few rows
at a time are projected and turned into their gradient in place, while they're in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

CPU_LOGITS = 2**22
"""Logits held at a time on a CPU, few enough to stay in its caches."""

GPU_LOGITS = 2**26


def projected_cross_entropy(
    features_ND: Tensor,
    weight_VD: Tensor,
    target_N: Tensor,
    *,
    bias_V: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """Mean label-smoothed cross-entropy of ``features @ weight.T + bias``, in nats.

    Equals ``F.cross_entropy(F.linear(features, weight, bias), target, label_smoothing=smoothing)``
    in value and gradient ("Rethinking the Inception Architecture", Szegedy et al. 2016, section
    7): the target distribution has 1 - smoothing on the target and smoothing / V on each symbol.
    The loss is float32 under autocast, where the products run in its type.

    Args:
        features_ND: what is projected.
        weight_VD: the projection; it may be shared with an embedding.
        target_N: symbol ids, each in 0..V-1.
        bias_V: bias of the projection.
        smoothing: 0 <= smoothing < 1.

    Returns:
        A scalar; nan for no tokens at all, as a mean over nothing is.
    """
    device = features_ND.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    differentiate = torch.is_grad_enabled()
    loss: Tensor = _ProjectedCrossEntropy.apply(
        features_ND, weight_VD, bias_V, target_N, smoothing, dtype, differentiate
    )  # type: ignore[assignment]
    return loss


class _ProjectedCrossEntropy(Function):
    """Computes the gradients together with the loss: they need the same logits."""

    @staticmethod
    def forward(
        ctx: Any,
        features_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        smoothing: float,
        dtype: torch.dtype | None,
        differentiate: bool,
    ) -> Tensor:
        device = features_ND.device.type
        with torch.autocast(device, enabled=False):
            return _forward(ctx, features_ND, weight_VD, bias_V, target_N, smoothing, dtype,
                            differentiate)  # fmt: skip

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        scale = grad / ctx.tokens
        scaled = [None if part is None else (part * scale).to(part.dtype) for part in ctx.gradients]
        return *scaled, None, None, None, None


def _forward(
    ctx: Any,
    features_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    target_N: Tensor,
    smoothing: float,
    dtype: torch.dtype | None,
    differentiate: bool,
) -> Tensor:
    tokens, symbols = features_ND.shape[0], weight_VD.shape[0]
    x_ND, w_VD = features_ND.to(dtype), weight_VD.to(dtype)
    wanted = [differentiate and needed for needed in ctx.needs_input_grad[:3]]
    made: list[Tensor | None] = [
        torch.empty_like(features_ND) if wanted[0] else None,
        torch.zeros_like(weight_VD) if wanted[1] else None,
        torch.zeros_like(bias_V) if wanted[2] and bias_V is not None else None,
    ]
    total = torch.zeros((), dtype=torch.promote_types(features_ND.dtype, torch.float32),
                        device=features_ND.device)  # fmt: skip
    most = GPU_LOGITS if features_ND.is_cuda else CPU_LOGITS
    rows = max(1, min(tokens, most // symbols))
    for start in range(0, tokens, rows):
        part = slice(start, min(start + rows, tokens))
        x, target = x_ND[part], target_N[part, None]
        logits = x @ w_VD.T if bias_V is None else torch.addmm(bias_V.to(dtype), x, w_VD.T)
        logits = logits.to(total.dtype)
        logits.sub_(logits.amax(1, keepdim=True))
        total -= (1 - smoothing) * logits.gather(1, target).sum()
        if smoothing:
            total -= smoothing * logits.mean(1).sum()
        mass = logits.exp_().sum(1, keepdim=True)
        total += mass.log().sum()
        if any(wanted):
            _differentiate(logits, mass, target, smoothing)
            _add_gradients(made, logits.to(x.dtype), x, w_VD, part)
    ctx.tokens, ctx.gradients = tokens, made
    return total / tokens if tokens else total + math.nan


def _differentiate(exp: Tensor, mass: Tensor, target: Tensor, smoothing: float) -> None:
    """Turn exp(logits) into the gradient of N times the loss: softmax minus target distribution."""
    exp.div_(mass)
    if smoothing:
        exp.sub_(smoothing / exp.shape[1])
    exp.scatter_add_(1, target, torch.full_like(mass, smoothing - 1))


def _add_gradients(
    made: list[Tensor | None], gradient: Tensor, x: Tensor, weight_VD: Tensor, part: slice
) -> None:
    features_ND, summed_VD, summed_V = made
    if features_ND is not None:
        features_ND[part] = gradient @ weight_VD
    if summed_VD is not None:
        if summed_VD.dtype == gradient.dtype:
            summed_VD.addmm_(gradient.T, x)
        else:
            summed_VD += gradient.T @ x
    if summed_V is not None:
        summed_V += gradient.sum(0)
