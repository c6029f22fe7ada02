"""Attention as a module of a backbone: identity at the start, strides, padding, geometry."""

import copy

import pytest
import torch
import torch.nn.functional as F

from attnbench.models.attention import SiteError, build_attention
from attnbench.models.attention.latest import KEPT
from attnbench.models.attention.terms import NO_MASK
from attnbench.models.layers.spatial import (
    Gate,
    Grids,
    Padding,
    SpatialAttention,
    build_spatial,
    stride_refusal,
)

CHANNELS, HEIGHT, WIDTH = 16, 5, 7
SIXTEEN = [f"terms({number:04b})" for number in range(16)]


def spatial(spec: str = "dot", **options) -> SpatialAttention:
    torch.manual_seed(0)
    module = build_spatial(spec, CHANNELS, heads=2, **options)
    assert module is not None
    return module


def feature_map(height: int = HEIGHT, width: int = WIDTH, items: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(items, CHANNELS, height, width, generator=generator)


@pytest.mark.parametrize("spec", ["dot", "dynamic(kernel=3,groups=2)", "nsa", "terms(1111)"])
def test_a_module_changes_nothing_at_the_start(spec: str) -> None:
    x_BCHW = feature_map()
    assert torch.equal(spatial(spec)(x_BCHW, Grids()), x_BCHW)


@pytest.mark.parametrize("spec", SIXTEEN)
def test_all_sixteen_run_on_a_map_that_is_no_square(spec: str) -> None:
    module = build_spatial(spec, CHANNELS, heads=2, gate="none")
    if spec == "terms(0000)":
        assert module is None
        return
    assert module is not None
    y_BCHW = module(feature_map(), Grids())
    assert y_BCHW.shape == (2, CHANNELS, HEIGHT, WIDTH)
    y_BCHW.square().sum().backward()
    assert [n for n, p in module.named_parameters() if p.grad is None] == []


def test_the_gate_adds_and_none_replaces() -> None:
    x_BCHW, grids = feature_map(), Grids()
    added, replaced = spatial(gate="one"), spatial(gate="none")
    torch.testing.assert_close(added(x_BCHW, grids), x_BCHW + replaced(x_BCHW, grids))
    gates: list[Gate] = ["zero", "one"]
    for gate in gates:  # sharded training refuses parameters without an axis
        assert dict(spatial(gate=gate).named_parameters())["gate"].shape == (1,)


def test_the_first_step_moves_the_gate_and_the_second_everything() -> None:
    module = spatial("terms(1111)")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    moving = []
    for _ in range(2):
        optimizer.zero_grad()
        (module(feature_map(), Grids()) * feature_map(items=1)).sum().backward()
        moving.append(
            {n for n, p in module.named_parameters() if p.grad is not None and p.grad.any()}
        )
        optimizer.step()
    assert moving == [{"gate"}, {name for name, _ in module.named_parameters()}]


def test_cells_are_read_row_by_row() -> None:
    module, x_BCHW = spatial(gate="none"), feature_map()
    rows = [x_BCHW[:, :, row, column] for row in range(HEIGHT) for column in range(WIDTH)]
    expected_BQD = module.attention(torch.stack(rows, 1)).context_BQD
    y_BCHW = module(x_BCHW, Grids())
    torch.testing.assert_close(y_BCHW[:, :, 3, 2], expected_BQD[:, 3 * WIDTH + 2])


@pytest.mark.parametrize("cell", [(0, 0), (1, 0), (2, 3), (4, 6), (4, 5)])
def test_a_key_stride_reads_every_second_row_and_column(cell: tuple[int, int]) -> None:
    module, x_BCHW = spatial(gate="none", key_stride=2), feature_map()
    moved = x_BCHW.clone()
    moved[:, :, *cell] += 1
    change_HW = (module(moved, Grids()) - module(x_BCHW, Grids())).abs().amax((0, 1))
    change_HW[cell] = 0  # its own query
    read = cell[0] % 2 == 0 and cell[1] % 2 == 0
    assert bool((change_HW > 1e-6).any()) == read


def test_a_query_stride_interpolates_between_every_second_query() -> None:
    module, x_BCHW = spatial(gate="none", query_stride=2), feature_map()
    queries_BCYX = x_BCHW[..., ::2, ::2]
    attended = module.attention(
        queries_BCYX.flatten(2).transpose(1, 2), x_BCHW.flatten(2).transpose(1, 2)
    ).context_BQD
    few_BCYX = attended.transpose(1, 2).reshape(2, CHANNELS, 3, 4)
    expected = F.interpolate(few_BCYX, (HEIGHT, WIDTH), mode="bilinear", align_corners=False)
    torch.testing.assert_close(module(x_BCHW, Grids()), expected)


@pytest.mark.parametrize("strides", [(2, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("spec", ["terms(1111)", "terms(0010)", "terms(0100,range=3)"])
def test_strides_work_with_positions(spec: str, strides: tuple[int, int]) -> None:
    module = spatial(spec, key_stride=strides[0], query_stride=strides[1], gate="one")
    y_BCHW = module(feature_map(), Grids())
    assert y_BCHW.shape == feature_map().shape
    assert y_BCHW.isfinite().all()


@pytest.mark.parametrize("spec", ["dynamic(kernel=3)", "gsa(query)", "terms(0010)+dynamic"])
def test_what_reads_no_memory_is_refused_with_strides(spec: str) -> None:
    assert stride_refusal(spec, 1, 1) is None
    with pytest.raises(SiteError, match=r"key_stride=2 .* set both to 1") as caught:
        build_spatial(spec, 64, heads=2, key_stride=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["none", "terms(0000)"])
def test_no_attention_is_no_module(spec: str) -> None:
    assert build_spatial(spec, CHANNELS, key_stride=2) is None


def test_strides_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="strides are 1 or more"):
        SpatialAttention(build_attention("dot", dim=8, heads=2, axes=2), key_stride=0)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (1, 2)])
def test_hidden_padding_changes_no_real_cell(strides: tuple[int, int]) -> None:
    module = spatial(gate="none", key_stride=strides[0], query_stride=strides[1])
    x_BCHW = feature_map(4, 6)
    moved = x_BCHW.clone()
    moved[1, :, 2:] += 1
    moved[1, :, :, 4:] += 1
    sizes = [(64, 96), (32, 64)]  # the second is 2 x 4 cells of 16 pixels
    padding = Padding(sizes, 64, 96)
    assert padding.valid(4, 6).sum((1, 2)).tolist() == [24, 8]
    real = (1, slice(None), slice(0, 1), slice(0, 3))  # away from interpolation with padding
    before, after = (module(x, Grids(), padding)[real] for x in (x_BCHW, moved))
    torch.testing.assert_close(before, after)
    seen = [module(x, Grids())[real] for x in (x_BCHW, moved)]
    assert not torch.allclose(*seen)


def test_a_cell_with_one_real_pixel_is_real() -> None:
    valid_BRC = Padding([(33, 1)], 64, 32).valid(4, 2)
    assert valid_BRC[0].tolist() == [[True, False]] * 3 + [[False, False]]


def test_geometry_is_made_once_a_size_and_forgotten_at_last() -> None:
    grids = Grids()
    first = grids(4, 5)
    assert grids(4, 5) is first
    assert grids(5, 4) is not first
    assert (grids(4, 5, key_stride=2).keys, first.keys) == (6, 20)
    for size in range(1, 3 * KEPT):
        grids(size, 1)
    assert grids(4, 5) is not first
    assert copy.deepcopy(grids)(7, 1) is not grids(7, 1)  # nothing made is copied along


@pytest.mark.parametrize(
    ("spec", "stride"),
    [("terms(1111)", 1), ("terms(1111,range=3)", 4)],  # the second leaves cells without any key
)
def test_a_look_under_inference_mode_leaves_training_possible(spec: str, stride: int) -> None:
    for grids in (Grids(), None):  # of one model, and of another one in the same process
        module = spatial(spec, gate="one", key_stride=stride)
        with torch.inference_mode():
            module(feature_map(), grids or Grids())
        module(feature_map(), grids or Grids()).sum().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())


def test_masks_of_many_sizes_are_forgotten_at_last() -> None:
    module = spatial("terms(0100,range=3)")
    for size in range(1, 3 * KEPT):
        module(feature_map(size, 1), Grids())
    assert len(NO_MASK._allowed) <= KEPT


def test_half_precision_stays_half() -> None:
    module = spatial(gate="one").bfloat16()
    assert module.gate is not None
    module.gate.data = module.gate.data.float()  # as with weights kept in full precision
    x_BCHW = feature_map().bfloat16()
    assert module(x_BCHW, Grids()).dtype == torch.bfloat16
