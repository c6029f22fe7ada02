"""Products of a map with windows of cells, by bands and unfolded, against loops."""

import pytest
import torch
from torch import Tensor

from attnbench.models.attention.bands import BLOCK
from attnbench.models.attention.windows import dynamic_convolution_2d, window_scores_2d
from tests.models.attention import naive_dynamic_grid as naive
from tests.models.attention.compare import relative_error

SIZES = [(5, 3, 3), (1, 6, 5), (4, 1, 3), (3, 2, 7), (2, BLOCK + 3, 3), (3, 5, 1)]
"""Rows, columns and side of the window: one row, one column, a window larger than the map."""


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check(ours: Tensor, reference: Tensor, inputs: tuple[Tensor, Tensor]) -> None:
    assert relative_error(ours, reference) < 1e-12
    cotangent = torch.randn_like(reference)
    for a, b in zip(
        torch.autograd.grad((ours * cotangent).sum(), inputs),
        torch.autograd.grad((reference * cotangent).sum(), inputs),
        strict=True,
    ):
        assert relative_error(a, b) < 1e-12


@pytest.mark.parametrize("unfold", [False, True])
@pytest.mark.parametrize(("rows", "columns", "side"), SIZES)
def test_weighted_sums(rows: int, columns: int, side: int, unfold: bool) -> None:
    x, kernel = made(2, rows, columns, 6), made(2, rows, columns, 3, side * side)
    ours = dynamic_convolution_2d(x, kernel, unfold=unfold)
    check(ours, naive.mix(x, kernel), (x, kernel))


@pytest.mark.parametrize("unfold", [False, True])
@pytest.mark.parametrize(("rows", "columns", "side"), SIZES)
def test_scores(rows: int, columns: int, side: int, unfold: bool) -> None:
    query, key = made(2, rows, columns, 6), made(2, rows, columns, 6)
    ours = window_scores_2d(query, key, side, 3, unfold=unfold)
    check(ours, naive.score(query, key, side, 3), (query, key))


def test_a_kernel_that_needs_no_gradient() -> None:
    x, kernel = made(1, 3, 4, 4), torch.randn(1, 3, 4, 2, 9).double()
    (ours,) = torch.autograd.grad(dynamic_convolution_2d(x, kernel).square().sum(), x)
    (reference,) = torch.autograd.grad(naive.mix(x, kernel).square().sum(), x)
    torch.testing.assert_close(ours, reference)


def test_many_taps_add_up_in_full_precision() -> None:
    """Sums of 169 products by rows of 13 in bfloat16 would drift."""
    x, kernel = torch.ones(1, 5, 40, 4), torch.full((1, 5, 40, 1, 169), 1 / 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = dynamic_convolution_2d(x, kernel)
    assert low.dtype == torch.bfloat16
    assert relative_error(low.float(), dynamic_convolution_2d(x, kernel)) < 2**-8


def test_windows_of_even_side_are_refused() -> None:
    with pytest.raises(ValueError, match="4 taps are no square window of odd side"):
        dynamic_convolution_2d(torch.zeros(1, 3, 4, 4), torch.zeros(1, 3, 4, 2, 4))
