"""Relative positions of queries and keys."""

import math

import pytest
import torch

from attnbench.models.attention import Sequence1D
from attnbench.models.attention.geometry import sinusoid
from tests.models.attention import naive


@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 5), (5, 1), (4, 7), (7, 4), (63, 111)])
@pytest.mark.parametrize("start", [0, 3])
def test_skew_puts_each_offset_in_its_place(queries: int, keys: int, start: int) -> None:
    where = Sequence1D(queries, keys, query_start=start)
    low, high = where.offsets
    assert (low, high) == (-(start + queries - 1), keys - 1 - start)
    offsets = torch.arange(low, high + 1)
    placed = where.skew(offsets.expand(2, 3, queries, -1))
    expected = torch.arange(keys) - (start + torch.arange(queries))[:, None]
    assert torch.equal(placed, expected.expand(2, 3, -1, -1))


@pytest.mark.parametrize("queries", [1, 4])
def test_beams_of_one_item_stand_at_one_position(queries: int) -> None:
    where = Sequence1D(queries, 6, query_start=2, query_step=0)
    assert where.offsets == (-2, 3)
    placed = where.skew(torch.arange(-2, 4).expand(1, 1, queries, -1))
    assert torch.equal(placed[0, 0], (torch.arange(6) - 2).expand(queries, -1))


def test_the_skew_is_differentiable() -> None:
    where = Sequence1D(4, 7)
    scores = torch.randn(1, 2, 4, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(where.skew, (scores,))


@pytest.mark.parametrize("dim", [1, 2, 7, 8])
@pytest.mark.parametrize("base", [10000.0, 1000.0])
def test_encoding(dim: int, base: float) -> None:
    like = torch.zeros((), dtype=torch.float64)
    table = sinusoid(-3, 5, dim, base, like)
    expected = [naive.relative_encoding(offset, dim, base) for offset in range(-3, 6)]
    torch.testing.assert_close(table, torch.stack(expected))
    assert table[3, 0] == 0 and math.isclose(table[4, 0].item(), math.sin(1))


def test_the_encoding_is_made_once_for_all_layers() -> None:
    where = Sequence1D(4, 4)
    like = torch.zeros(())
    assert where.encoding(-3, 3, 8, 1e4, like) is where.encoding(-3, 3, 8, 1e4, like)
    assert where.encoding(-3, 3, 8, 1e3, like) is not where.encoding(-3, 3, 8, 1e4, like)
    assert where.encoding(-3, 3, 8, 1e4, like.double()).dtype == torch.float64


def test_other_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="query_step is 0 or 1, not 2"):
        Sequence1D(3, 3, query_step=2)
