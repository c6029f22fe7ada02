"""2-D deformable convolution (Dai et al., 2017; Zhu et al., 2019) against loops."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import deform_conv2d as torchvision_deform_conv2d

from attnbench.models.attention import (
    AttentionMask,
    Grid2D,
    Site,
    SiteError,
    SpecError,
    build_attention,
    split_convolution,
)
from attnbench.models.attention.deformable_grid import DeformableConv2d, DeformableGrid
from tests.models.attention.compare import assert_same, padding, relative_error
from tests.models.attention.naive_deformable_grid import deform_conv2d


def disturbed_convolution(amount: float = 0.5, **options: Any) -> DeformableConv2d:
    module = DeformableConv2d(4, 3, bias=True, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += amount * torch.randn_like(parameter)
    return module


def looped(module: DeformableConv2d, x: Tensor, offset: Tensor, mask: Tensor | None) -> Tensor:
    return deform_conv2d(
        x,
        offset,
        module.weight,
        module.bias,
        mask,
        stride=module.stride,
        padding=module.padding,
        dilation=module.dilation,
        offset_groups=module.groups,
    )


@pytest.mark.parametrize("amount", [0.1, 5.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"modulated": True},
        {"kernel": 1, "groups": 2},
        {"kernel": 5},
        {"kernel": 3, "modulated": True, "groups": 2},
        {"stride": 2},
        {"dilation": 2, "modulated": True},
        {"stride": 2, "dilation": 3, "groups": 4},
    ],
)
def test_convolution(options: dict[str, Any], amount: float) -> None:
    """Offsets within a cell and far beyond all four sides; gradients of x and all parameters."""
    module = disturbed_convolution(amount, **options)
    x = torch.randn(2, 4, 5, 3, dtype=torch.float64, requires_grad=True)

    def slow() -> Tensor:
        predicted = F.conv2d(
            x,
            module.offset_conv.weight,
            module.offset_conv.bias,
            stride=module.stride,
            padding=module.dilation * (module.kernel // 2),
            dilation=module.dilation,
        )
        taps = module.groups * module.kernel**2
        mask = predicted[:, 2 * taps :].sigmoid() if module.modulated else None
        return looped(module, x, predicted[:, : 2 * taps], mask)

    assert_same(module, {"x": x}, lambda: module(x), slow)


def test_gradients_of_given_offsets_and_modulations() -> None:
    module = disturbed_convolution(modulated=True, groups=2)
    inputs = {
        "x": torch.randn(1, 4, 3, 5, dtype=torch.float64, requires_grad=True),
        "offset": (3 * torch.randn(1, 36, 3, 5, dtype=torch.float64)).requires_grad_(),
        "mask": torch.rand(1, 18, 3, 5, dtype=torch.float64, requires_grad=True),
    }
    x, offset, mask = inputs.values()
    assert_same(
        module,
        inputs,
        lambda: module.convolve(x, offset, mask),
        lambda: looped(module, x, offset, mask),
    )


@pytest.mark.parametrize("amount", [0.0, 0.3, 6.0])
@pytest.mark.parametrize("modulated", [False, True])
@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 3, 4)])
def test_gathering_is_torchvisions_operator(
    stride: int, dilation: int, groups: int, modulated: bool, amount: float
) -> None:
    """Also at whole places, where slopes to the left and to the right differ."""
    module = DeformableConv2d(
        4, 3, bias=True, stride=stride, dilation=dilation, groups=groups, modulated=modulated
    ).double()
    x = torch.randn(2, 4, 6, 9, dtype=torch.float64, requires_grad=True)
    offset, mask = module.offsets(x)
    offset = (amount * torch.randn_like(offset)).requires_grad_()
    inputs = {"x": x, "offset": offset}
    if mask is not None:
        mask = inputs["mask"] = torch.rand_like(mask).requires_grad_()
    assert_same(
        module,
        inputs,
        lambda: module.convolve(x, offset, mask),
        lambda: torchvision_deform_conv2d(
            x,
            offset,
            module.weight,
            module.bias,
            stride=(stride, stride),
            padding=(dilation, dilation),
            dilation=(dilation, dilation),
            mask=mask,
        ),
    )


@pytest.mark.parametrize("modulated", [False, True])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 4)])
def test_training_begins_from_an_ordinary_convolution(
    stride: int, dilation: int, modulated: bool
) -> None:
    """Half of one in version 2, whose modulation is a sigmoid."""
    module = DeformableConv2d(4, 6, stride=stride, dilation=dilation, modulated=modulated)
    plain = nn.Conv2d(4, 6, 3, stride, dilation, dilation, bias=False)
    loaded = module.load_state_dict(plain.state_dict(), strict=False)
    assert loaded.missing_keys == ["offset_conv.weight", "offset_conv.bias"]
    x = torch.randn(2, 4, 7, 10)
    torch.testing.assert_close(module(x), plain(x) * (0.5 if modulated else 1))


def test_the_offsets_learn_ten_times_slower() -> None:
    module = build_attention("deformable(modulated=true)", dim=8, heads=2, axes=2)
    slow = {
        name: getattr(parameter, "lr_scale")  # noqa: B009
        for name, parameter in module.named_parameters()
        if hasattr(parameter, "lr_scale")
    }
    assert slow == {
        "convolution.offset_conv.weight": 0.1,
        "convolution.offset_conv.bias": 0.1,
    }


@pytest.mark.parametrize("place", [1e30, -1e30, float("inf")])
def test_far_places_read_zero(place: float) -> None:
    module = DeformableConv2d(4, 3)
    offset = torch.full((1, 18, 4, 5), place)
    assert not module.convolve(torch.randn(1, 4, 4, 5), offset, None).any()


@pytest.mark.parametrize("size", [(1, 9), (9, 1), (1, 1)])
def test_maps_of_one_row_or_column(size: tuple[int, int]) -> None:
    module = disturbed_convolution(modulated=True)
    x = torch.randn(1, 4, *size, dtype=torch.float64)
    offset, mask = module.offsets(x)
    torch.testing.assert_close(module(x), looped(module, x, offset, mask))


def test_a_diverged_offset_is_not_a_crash() -> None:
    module = DeformableConv2d(4, 3)
    offset = torch.full((1, 18, 4, 5), float("nan"))
    assert module.convolve(torch.randn(1, 4, 4, 5), offset, None).isnan().all()


def test_half_precision_samples_in_full_precision() -> None:
    module = DeformableConv2d(4, 3, modulated=True)
    x = torch.randn(1, 4, 2, 600)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = module(x.bfloat16())
    assert mixed.dtype == torch.bfloat16
    assert relative_error(mixed.float(), module(x)) < 0.02


def test_shapes_without_numbers() -> None:
    """On the meta device, as costs are counted."""
    with torch.device("meta"):
        module = DeformableConv2d(4, 6, stride=2, modulated=True)
        y = module(torch.empty(2, 4, 7, 10))
    assert y.shape == (2, 6, 4, 5) and y.is_meta


def test_the_module_says_how_far_its_offsets_reach() -> None:
    module = build_attention("deformable", dim=8, heads=2, axes=2)
    assert isinstance(module, DeformableGrid)
    x, grid = torch.randn(2, 15, 8), Grid2D(3, 5)
    assert module(x, geometry=grid).aux["offset_abs_mean"] == 0
    bias = module.convolution.offset_conv.bias
    assert bias is not None
    with torch.no_grad():
        bias.copy_(torch.tensor([1.0, -2.0, 3.0] * 6))
    torch.testing.assert_close(module(x, geometry=grid).aux["offset_abs_mean"], torch.tensor(2.0))
    torch.testing.assert_close(module.convolution.offset_abs_mean, torch.tensor(2.0))


@pytest.mark.parametrize("spec", ["deformable", "deformable(kernel=5,modulated=true,groups=2)"])
def test_the_attention_variant(spec: str) -> None:
    """Row by row; padding cells count as 0."""
    module = build_attention(spec, dim=8, heads=2, axes=2).double()
    assert isinstance(module, DeformableGrid)
    convolution = module.convolution
    with torch.no_grad():
        for parameter in convolution.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    valid = padding(12, 7)
    context = module(x, geometry=Grid2D(3, 4), mask=AttentionMask(valid)).context_BQD
    x_BDHW = (x * valid[..., None]).transpose(1, 2).reshape(2, 8, 3, 4)
    expected = looped(convolution, x_BDHW, *convolution.offsets(x_BDHW))
    torch.testing.assert_close(context, expected.flatten(2).transpose(1, 2))


def test_in_front_of_attention() -> None:
    """Outside of residual blocks the convolution stands in front, as in one dimension."""
    chain = build_attention("terms(0010)+deformable", dim=8, heads=2, axes=2)
    output = chain(torch.randn(2, 12, 8), geometry=Grid2D(3, 4))
    assert output.context_BQD.shape == (2, 12, 8)
    assert output.aux["offset_abs_mean"] == 0


def test_a_block_takes_it_as_its_convolution() -> None:
    rest, options = split_convolution("terms(0010)+deformable(modulated=true,groups=2)")
    assert str(rest) == "terms(0010)"
    assert options is not None and options == {"modulated": True, "groups": 2}
    assert DeformableConv2d(4, 4, **options).modulated


def test_what_it_can_not_do() -> None:
    module = build_attention("deformable", dim=8, heads=2, axes=2)
    x, grid = torch.randn(2, 12, 8), Grid2D(3, 4)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module(x, torch.randn(2, 3, 8), geometry=grid)
    with pytest.raises(SiteError, match="no cell comes before another"):
        module(x, geometry=grid, mask=AttentionMask(causal=True))
    with pytest.raises(SiteError, match="needs a Grid2D geometry"):
        module(x)
    with pytest.raises(SiteError, match="set key_stride and query_stride to 1"):
        module(x, geometry=Grid2D(3, 4, key_stride=2))
    with pytest.raises(SiteError, match="can't decode step by step"):
        module.begin()
    site = Site("decoder", needs=frozenset({"causal"}), axes=2)
    with pytest.raises(SiteError, match="no cell comes before another"):
        build_attention("deformable", dim=8, site=site)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("deformable(kernel=2)", "kernel is an odd number of cells, not 2"),
        ("deformable(kernel=-1)", "kernel is an odd number of cells, not -1"),
        ("deformable(groups=0)", "groups is 1 or more, not 0"),
        ("deformable(groups=3)", "3 groups of offsets don't divide 8 channels"),
        ("deformable(modulated=2)", "modulated is true or false, not 2"),
    ],
)
def test_options_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(spec, dim=8, heads=2, axes=2)
