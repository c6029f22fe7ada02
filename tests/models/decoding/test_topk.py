"""The k best with ties by index, against a stable sort."""

import pytest
import torch
from torch import Tensor

from attnbench.models.decoding.topk import BLOCK, top_k


def expected(values_NV: Tensor, k: int, offset_N: Tensor, group: int) -> tuple[Tensor, Tensor]:
    total = (values_NV + offset_N[:, None]).reshape(len(values_NV) // group, -1)
    values, index = total.sort(dim=1, descending=True, stable=True)
    return values[:, :k], index[:, :k]


@pytest.mark.parametrize("length", [1, 5, BLOCK, BLOCK + 1, 511, 1000, 32 * BLOCK])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("kind", ["continuous", "ties", "all equal", "minus infinity", "zeros"])
def test_equals_a_stable_sort(length: int, group: int, kind: str) -> None:
    values = torch.randn(4 * group, length)
    offset = torch.randn(4 * group)
    if kind == "ties":
        values, offset = torch.round(values), torch.round(offset)
    elif kind == "all equal":
        values, offset = torch.ones_like(values), torch.zeros_like(offset)
    elif kind == "minus infinity":
        values[torch.rand_like(values) < 0.9] = float("-inf")
        offset[::2] = float("-inf")
    elif kind == "zeros":
        values, offset = torch.zeros_like(values), torch.zeros_like(offset)
        values[:, ::2] = -0.0
    for k in {1, min(2, length), min(9, length * group), length * group}:
        found, index = top_k(values, k, offset, group)
        best, place = expected(values, k, offset, group)
        assert torch.equal(found, best)
        assert torch.equal(index, place)


def test_offset_and_group_are_optional() -> None:
    values = torch.randn(3, 900)
    found, index = top_k(values, 5)
    assert torch.equal(found, values.topk(5).values)
    assert torch.equal(values.gather(1, index), found)
