"""Relations between boxes, against single numbers; grids as boxes."""

import math

import pytest
import torch

from attnbench.models.attention import Boxes, Grid2D
from attnbench.models.attention.boxes import encode_ratios
from tests.models.attention import naive_boxes
from tests.models.attention.compare import padding


def some_boxes(batch: int, regions: int) -> torch.Tensor:
    boxes = 100 * torch.rand(batch, regions, 4, dtype=torch.float64)
    boxes[..., 2:] += boxes[..., :2] + 1
    return boxes


def test_log_ratios_by_hand() -> None:
    boxes = torch.tensor([[[0.0, 0, 2, 4], [3, 2, 5, 10]]])
    ratios = Boxes(boxes).log_ratios()[0]
    # Centres (1, 2) and (4, 6), sides (2, 4) and (2, 8).
    expected = [math.log(3 / 2), math.log(4 / 4), math.log(2 / 2), math.log(4 / 8)]
    torch.testing.assert_close(ratios[0, 1], torch.tensor(expected))
    expected = [math.log(3 / 2), math.log(4 / 8), math.log(2 / 2), math.log(8 / 4)]
    torch.testing.assert_close(ratios[1, 0], torch.tensor(expected))
    same = [math.log(1e-3), math.log(1e-3), 0.0, 0.0]
    torch.testing.assert_close(ratios[0, 0], torch.tensor(same))


@pytest.mark.parametrize("regions", [1, 2, 7])
def test_log_ratios_pair_by_pair(regions: int) -> None:
    boxes, valid = some_boxes(3, regions), padding(regions, (regions + 1) // 2, 1)
    boxes[0, 0, 2] = boxes[0, 0, 0]  # no width
    boxes[~valid] = torch.nan
    ratios = Boxes(boxes, valid).log_ratios()
    assert torch.isfinite(ratios).all()
    for b in range(3):
        for i in range(regions):
            for j in range(regions):
                expected = [0.0] * 4
                if valid[b, i] and valid[b, j]:
                    expected = naive_boxes.log_ratios(boxes[b], valid[b], i, j)
                torch.testing.assert_close(ratios[b, i, j], ratios.new_tensor(expected))


def test_they_do_not_depend_on_the_unit_or_the_origin() -> None:
    boxes = some_boxes(2, 5)
    boxes[0, 1, 3] = boxes[0, 1, 1]  # no height
    expected = Boxes(boxes).log_ratios()
    for other in (boxes / 640, boxes * 7 - 50):
        torch.testing.assert_close(Boxes(other).log_ratios(), expected)


@pytest.mark.parametrize("valid", [None, padding(0, 3)])
def test_boxes_all_in_one_place(valid: torch.Tensor | None) -> None:
    ratios = Boxes(torch.full((2, 3, 4), 5.0), valid).log_ratios()
    assert torch.isfinite(ratios).all()
    assert (ratios[1, :, :, 2:] == 0).all()
    torch.testing.assert_close(ratios[1, :, :, :2], torch.full((3, 3, 2), math.log(1e-3)))


def test_no_region_at_all() -> None:
    assert Boxes(torch.zeros(2, 0, 4)).log_ratios().shape == (2, 0, 0, 4)


def test_they_are_made_once_for_all_layers_and_carry_no_gradient() -> None:
    boxes = Boxes(some_boxes(2, 5).requires_grad_())
    assert boxes.log_ratios() is boxes.log_ratios()
    assert not boxes.log_ratios().requires_grad


def test_half_precision_boxes_are_widened() -> None:
    """A step of bfloat16 at 300 pixels is 2 pixels: ratios are never computed in it."""
    boxes = Boxes(some_boxes(1, 3).to(torch.bfloat16))
    assert boxes.log_ratios().dtype == torch.float32


@pytest.mark.parametrize("dim", [8, 16, 64])
def test_encoding(dim: int) -> None:
    boxes, valid = some_boxes(1, 4), padding(4)
    encoding = encode_ratios(Boxes(boxes).log_ratios(), dim, 1000.0)
    for i in range(4):
        for j in range(4):
            f = naive_boxes.log_ratios(boxes[0], valid[0], i, j)
            expected = naive_boxes.relation_encoding(f, dim, 1000.0)
            torch.testing.assert_close(encoding[0, i, j], encoding.new_tensor(expected))


def test_the_cells_of_a_grid() -> None:
    grid = Grid2D(2, 3)
    assert (grid.queries, grid.keys) == (6, 6)
    boxes = grid.boxes()
    assert boxes is grid.boxes()
    assert boxes.boxes_BN4.tolist() == [
        [[0, 0, 1, 1], [1, 0, 2, 1], [2, 0, 3, 1], [0, 1, 1, 2], [1, 1, 2, 2], [2, 1, 3, 2]]
    ]
    expected = [math.log(2), math.log(1), 0.0, 0.0]  # two columns and a row apart
    torch.testing.assert_close(boxes.log_ratios()[0, 0, 5], torch.tensor(expected))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the shape \(B, N, 4\), not \(2, 4\)"):
        Boxes(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="at least one cell, not 0 x 3"):
        Grid2D(0, 3)
