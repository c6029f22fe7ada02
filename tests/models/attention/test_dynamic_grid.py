"""2-D dynamic convolution (Wu et al., 2019; Table 3 of Zhu et al., 2019) against loops."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnbench.benchmarks.speed.measure import in_process, peak_growth
from attnbench.models.attention import (
    AttentionMask,
    Grid2D,
    SiteError,
    SpecError,
    build_attention,
)
from attnbench.models.attention.dynamic_grid import DynamicGrid
from attnbench.models.attention.kernels import Path, force_path
from tests.models.attention import naive_dynamic_grid as naive
from tests.models.attention.compare import assert_same, padding


def disturbed_module(spec: str) -> DynamicGrid:
    module = build_attention(spec, dim=4, heads=2, axes=2).double()
    assert isinstance(module, DynamicGrid)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return module


@pytest.mark.parametrize("path", ["explicit", "mask"])
@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("options", ["", ",glu=false", ",softmax=false"])
def test_convolution(options: str, kernel: int, path: Path) -> None:
    """Odd sizes, H != W, padding, and a kernel larger than the map."""
    module = disturbed_module(f"dynamic(groups=2,kernel={kernel}{options})")
    x = torch.randn(2, 15, 4, dtype=torch.float64, requires_grad=True)
    valid = padding(15, 8)

    def fast() -> torch.Tensor:
        with force_path(path):
            return module(x, geometry=Grid2D(3, 5), mask=AttentionMask(valid)).context_BQD

    assert_same(module, {"x": x}, fast, lambda: naive.dynamic(module, x, valid, (3, 5))[0])


@pytest.mark.parametrize("size", [(1, 9), (9, 1), (1, 1)])
def test_maps_of_one_row_or_column(size: tuple[int, int]) -> None:
    module = disturbed_module("dynamic(groups=2,kernel=13)")
    cells = size[0] * size[1]
    x = torch.randn(1, cells, 4, dtype=torch.float64, requires_grad=True)
    valid = torch.ones(1, cells, dtype=torch.bool)
    assert_same(
        module,
        {"x": x},
        lambda: module(x, geometry=Grid2D(*size)).context_BQD,
        lambda: naive.dynamic(module, x, valid, size)[0],
    )


def test_weights_are_the_kernels() -> None:
    module = disturbed_module("dynamic(groups=2,kernel=3)")
    x, valid = torch.randn(2, 12, 4).double(), padding(12, 5)
    output = module(x, geometry=Grid2D(4, 3), mask=AttentionMask(valid), need_weights=True)
    _, kernels = naive.dynamic(module, x, valid, (4, 3))
    assert output.weights is not None and output.weights.shape == (2, 2, 12, 9)
    torch.testing.assert_close(output.weights, kernels)
    torch.testing.assert_close(output.weights.sum(-1), torch.ones(2, 2, 12).double())


def test_dropout_drops_taps_in_training_only() -> None:
    module = build_attention("dynamic(groups=2,kernel=3)", dim=8, heads=2, dropout=0.5, axes=2)
    x, grid = torch.randn(2, 6, 8), Grid2D(2, 3)
    assert not torch.equal(module(x, geometry=grid)[0], module(x, geometry=grid)[0])
    module.eval()
    assert torch.equal(module(x, geometry=grid)[0], module(x, geometry=grid)[0])


def counted(dim: int, kernel: int, height: int, width: int) -> int:
    """Multiply-accumulates of one forward pass of one module."""
    with torch.device("meta"):
        module = build_attention(f"dynamic(kernel={kernel})", dim=dim, axes=2)
        x = torch.empty(1, height * width, dim)
    with torch.no_grad(), FlopCounterMode(display=False) as counter, force_path("explicit"):
        module(x, geometry=Grid2D(height, width))
    return counter.get_total_flops() // 2


@pytest.mark.parametrize(("kernel", "published"), [(13, 30.6), (31, 139.2)])
def test_cost_is_what_table_3_adds_in_detection(kernel: int, published: float) -> None:
    """6 modules in conv4 and 3 in conv5 of a ResNet-50 at 800 x 1344, GFLOPs."""
    conv4, conv5 = counted(256, kernel, 50, 84), counted(512, kernel, 25, 42)
    for dim, cells, found in ((256, 50 * 84, conv4), (512, 25 * 42, conv5)):
        assert found == 3 * cells * dim**2 + 16 * cells * dim * kernel**2 + cells * dim * kernel**2
    assert abs((6 * conv4 + 3 * conv5) / 1e9 - published) < 0.05


def peak_of(kernel: int) -> int:
    def step(size: tuple[int, int]) -> None:
        module: nn.Module = build_attention(f"dynamic(kernel={kernel},groups=1)", dim=64, axes=2)
        x = torch.randn(1, size[0] * size[1], 64, requires_grad=True)
        module(x, geometry=Grid2D(*size)).context_BQD.square().mean().backward()

    torch.set_num_threads(1)
    return peak_growth(lambda: step((2, 3)), lambda: step((40, 60)))


def test_the_backward_pass_keeps_no_windows_and_no_bands() -> None:
    """Kernels take 4 x 2400 x 361 bytes; the windows would take 64 times as much."""
    kernels = 4 * 40 * 60 * 19**2
    assert in_process(peak_of, 19) < 10 * kernels


def test_what_it_can_not_do() -> None:
    module = build_attention("dynamic(groups=2,kernel=3)", dim=8, heads=2, axes=2)
    x, grid = torch.randn(2, 12, 8), Grid2D(3, 4)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module(x, torch.randn(2, 3, 8), geometry=grid)
    with pytest.raises(SiteError, match="no cell comes before another"):
        module(x, geometry=grid, mask=AttentionMask(causal=True))
    with pytest.raises(SiteError, match="needs a Grid2D geometry"):
        module(x)
    with pytest.raises(SiteError, match="set key_stride and query_stride to 1"):
        module(x, geometry=Grid2D(3, 4, query_stride=2))
    with pytest.raises(SiteError, match="can't decode step by step"):
        module.begin()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dynamic(kernel=4)", "kernel is the side of a square of cells, odd, not 4"),
        ("dynamic(kernel=0)", "kernel is the side of a square of cells, odd, not 0"),
        ("dynamic(groups=0)", "groups is 1 or more, not 0"),
        ("dynamic(groups=3)", "3 groups don't divide the width 8; choose a divisor"),
        ("dynamic(glu=1)", "glu is true or false, not 1"),
    ],
)
def test_options_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(spec, dim=8, heads=2, axes=2)
