"""Attention by blocks: every way to cut the rows, biases, dropout; and where it is chosen."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnbench.models.attention import blocks
from attnbench.models.attention.blocks import attend_in_blocks
from attnbench.models.attention.kernels import Energy, attend, force_path
from attnbench.models.attention.masks import Allowed

ITEMS, HEADS, QUERIES, KEYS, WIDTH = 3, 4, 5, 7, 2


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def parts() -> tuple[Tensor, Tensor, Tensor]:
    return (
        leaf(ITEMS, HEADS, QUERIES, WIDTH),
        leaf(ITEMS, HEADS, KEYS, WIDTH),
        leaf(ITEMS, HEADS, KEYS, WIDTH),
    )


def plain(query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, keep: Tensor) -> Tensor:
    """The formula, with a given dropout mask."""
    scores = query @ key.mT if added is None else query @ key.mT + added
    return (scores.softmax(-1) * keep) @ value


SIZES = [1, 2 * QUERIES * KEYS, 4 * QUERIES * KEYS, 9 * QUERIES * KEYS, 10**6]
SHAPES = [
    None,
    *itertools.product((1, ITEMS), (1, HEADS), (1, QUERIES), (KEYS,)),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_cut_and_any_bias_give_the_formula(
    size: int, shape: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One head, some heads, one item and several items a block; gradients of the bias too."""
    monkeypatch.setattr(blocks, "BLOCK", size)
    query, key, value = parts()
    added = None if shape is None else leaf(*shape)
    if added is not None:
        with torch.no_grad():
            added[..., 3] = -torch.inf
    ours = attend_in_blocks(query, key, value, added, 0.0)
    expected = plain(query, key, value, added, torch.ones(()))
    torch.testing.assert_close(ours, expected)
    wanted = [query, key, value, *([] if added is None else [added])]
    upstream = torch.randn_like(expected)
    for found, true in zip(
        torch.autograd.grad(ours, wanted, upstream),
        torch.autograd.grad(expected, wanted, upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, true)


@pytest.mark.parametrize("size", SIZES)
def test_the_backward_pass_drops_what_the_forward_pass_dropped(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", size)
    query, key, _ = parts()
    # The values are one-hots, so that the context shows the dropped weights themselves.
    value = torch.eye(KEYS, dtype=torch.float64).expand(ITEMS, HEADS, -1, -1).clone()
    value.requires_grad_()
    ours = attend_in_blocks(query, key, value, None, 0.25)
    keep = (ours != 0) / 0.75
    assert 0.1 < (keep == 0).double().mean() < 0.4
    expected = plain(query, key, value, None, keep)
    torch.testing.assert_close(ours, expected)
    upstream = torch.randn_like(expected)
    for found, true in zip(
        torch.autograd.grad(ours, [query, key, value], upstream),
        torch.autograd.grad(expected, [query, key, value], upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, true)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(dropout: float) -> None:
    zeros = torch.zeros(1, 2, 400, 4)
    context = attend_in_blocks(
        zeros, torch.zeros(1, 2, 400, 4), torch.eye(400).expand(1, 2, 400, 400), None, dropout
    )
    kept = (context != 0).double()
    tolerance = 5 * (dropout * (1 - dropout) / kept.numel()) ** 0.5
    assert abs(1 - kept.mean().item() - dropout) < tolerance
    torch.testing.assert_close(context.max().item(), 1 / 400 / (1 - dropout), rtol=1e-4, atol=0)
    assert kept.mean(-1).std() > 0 and not torch.equal(kept[0, 0], kept[0, 1])


def test_all_weights_dropped_give_zero() -> None:
    query, key, value = parts()
    context = attend_in_blocks(query, key, value, None, 1.0)
    assert not context.any()
    for gradient in torch.autograd.grad(context.sum(), [query, key, value]):
        assert not gradient.any()


def test_the_mask_follows_the_seed() -> None:
    query, key, value = parts()

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return attend_in_blocks(query, key, value, None, 0.5)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def largest_of(width: int, items: int = 4, length: int = 160) -> int:
    """Numbers in the largest tensor of a forward and backward pass with dropout."""
    tensors = [torch.randn(items, 2, length, width, requires_grad=True) for _ in range(3)]
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            largest = max([largest, *(t.numel() for t in made if isinstance(t, Tensor))])
            return result

    with Watch():
        context, _ = attend(
            Energy(tensors[0], tensors[1]), tensors[2], Allowed(None), queries=length, dropout=0.1
        )
        context.sum().backward()
    return largest


def test_narrow_heads_never_make_all_scores_at_once() -> None:
    assert largest_of(width=8) <= blocks.BLOCK < 4 * 2 * 160 * 160
    assert largest_of(width=64) >= 4 * 2 * 160 * 160


def test_weights_can_still_be_asked_for() -> None:
    query, key, value = parts()
    with force_path("blocks"):
        context, weights = attend(
            Energy(query, key), value, Allowed(None), queries=QUERIES, need_weights=True
        )
    assert weights is not None
    torch.testing.assert_close(weights @ value, context)
