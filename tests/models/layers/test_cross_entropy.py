"""The projected cross-entropy equals torch's on whole logits, value and gradient."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.models.layers import cross_entropy
from attnbench.models.layers import projected_cross_entropy as projected

N, D, V = 37, 6, 11


@pytest.fixture(params=[1, 3 * V, 10**6], ids=["a row", "three rows", "all rows"], autouse=True)
def logits_at_a_time(request, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CPU_LOGITS", request.param)


def made(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return (3 * torch.randn(*shape, generator=generator, dtype=dtype)).requires_grad_()

    return normal(N, D), normal(V, D), normal(V), torch.randint(V, (N,), generator=generator)


def dense(x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, smoothing: float):
    return F.cross_entropy(F.linear(x, weight, bias), target, label_smoothing=smoothing)


@pytest.mark.parametrize(
    ("smoothing", "with_bias"), list(itertools.product([0.0, 0.1, 0.9], [False, True]))
)
def test_value_and_gradients_equal_torch(smoothing, with_bias):
    x, weight, bias, target = made()
    inputs = [x, weight, bias] if with_bias else [x, weight]
    used = bias if with_bias else None
    loss = projected(x, weight, target, bias_V=used, smoothing=smoothing)
    expected = dense(x, weight, target, used, smoothing)
    torch.testing.assert_close(loss, expected)
    for found, wanted in zip(
        torch.autograd.grad(3 * loss, inputs),
        torch.autograd.grad(3 * expected, inputs),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted)


def test_huge_logits_stay_finite():
    x, weight, _, target = made(torch.float32)
    loss = projected(1e4 * x, weight, target, smoothing=0.1)
    torch.testing.assert_close(loss, dense(1e4 * x, weight, target, None, 0.1))
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(loss, [x, weight]))


def test_a_weight_shared_with_an_embedding_gets_both_gradients():
    x, weight, _, target = made()
    grads = []
    for loss_of in (lambda e: projected(x + e, weight, target), lambda e: dense(x + e, weight,
                    target, None, 0.0)):  # fmt: skip
        grads.append(torch.autograd.grad(loss_of(F.embedding(target, weight)), weight)[0])
    torch.testing.assert_close(*grads)


def test_only_what_is_needed_is_differentiated():
    x, weight, _, target = made()
    loss = projected(x.detach(), weight, target)
    loss.backward()
    assert x.grad is None
    assert weight.grad is not None
    with torch.no_grad():
        assert not projected(x, weight, target).requires_grad


def test_mixed_precision_keeps_the_loss_in_float32():
    x, weight, bias, target = made(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = projected(x, weight, target, bias_V=bias, smoothing=0.1)
        expected = dense(x, weight, target, bias, 0.1)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected.float(), rtol=0.02, atol=0.02)
    for found, wanted in zip(
        torch.autograd.grad(loss, [x, weight, bias]),
        torch.autograd.grad(expected, [x, weight, bias]),
        strict=True,
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.02)


def test_half_precision_with_a_loss_scale_does_not_underflow():
    """Gradients of 1e-7 a token survive in float16, since they're scaled before they're stored."""
    x, weight, _, target = made(torch.float32)
    many = torch.arange(N).repeat(400)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = projected(x[many], weight, target[many])
    scale = 2.0**10
    grad = torch.autograd.grad(scale * loss, x)[0] / scale
    wanted = torch.autograd.grad(dense(x[many], weight, target[many], None, 0.0), x)[0]
    torch.testing.assert_close(grad, wanted, rtol=0.05, atol=1e-3)


def test_a_graph_that_is_kept_can_be_differentiated_twice():
    x, weight, _, target = made()
    loss = projected(x, weight, target)
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(first, second)


def test_no_tokens_give_nan_like_a_mean_over_nothing():
    x, weight, _, target = made()
    assert projected(x[:0], weight, target[:0]).isnan()
