"""Where a cell looks: the weights, kernels and places that the run's modules really use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attnbench.models.attention import Grid2D, build_attention, traits_of, variant_examples
from attnbench.models.attention.deformable_grid import DeformableConv2d
from attnbench.models.attention.terms import TermsAttention
from attnbench.models.backbones import AttendedResNet
from attnbench.tasks.cell_parts import Samples, Weights, calls_of, weights_of_query
from attnbench.tasks.cell_views import (
    CellChoice,
    CellMap,
    CellView,
    Place,
    choose_place,
    places_of,
    view_of,
)
from attnbench.tasks.errors import ConfigError

DENSE = [spec for spec in variant_examples(axes=2) if traits_of(spec, 2).weights == "dense"]


@pytest.mark.parametrize("spec", [*DENSE, "terms(0010)+dynamic(groups=2,kernel=3)"])
def test_weights_of_a_query_are_those_that_the_module_would_give(spec: str) -> None:
    module = build_attention(spec, dim=16, heads=2, axes=2).eval()
    strides = [1] if "cross" in traits_of(spec, 2).lacks else [1, 2]
    for stride in strides:
        grid = Grid2D(3, 5, key_stride=stride)
        x_BKD = 2 * torch.randn(1, 15, 16)
        cells_BKD = x_BKD.unflatten(1, (3, 5))[:, ::stride, ::stride].flatten(1, 2)
        call = {"memory_BKD": cells_BKD if stride > 1 else None, "geometry": grid}
        inner = next(part for part in module.modules() if isinstance(part, TermsAttention))
        with calls_of([inner]) as calls, torch.no_grad():
            weights_HQK = module(x_BKD, **call, need_weights=True).weights[0]
        args, kwargs = calls[inner].args, {**calls[inner].kwargs, "need_weights": False}
        for query in (0, 7, 14):
            weights_HK = weights_of_query(inner, args, kwargs, query)
            torch.testing.assert_close(weights_HK, weights_HQK[:, query], rtol=1e-4, atol=1e-6)
            assert weights_HK.sum(1).tolist() == pytest.approx([1, 1], abs=1e-4)


def test_a_cell_stands_where_its_map_centres_it() -> None:
    """With equal positive weights a cell's gradient is symmetrical around its pixel."""
    body = AttendedResNet("resnet18").eval()
    body.add_module(
        "maxpool", nn.AvgPool2d(3, 2, 1)
    )  # of equal numbers the largest is the first one
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 1e-3)
    image_B3HW = torch.ones(1, 3, 85, 93, requires_grad=True)
    body(image_B3HW)["c2"][0, 0, 10, 12].backward()
    assert image_B3HW.grad is not None
    seen_HW = image_B3HW.grad[0, 0]
    rows, columns = seen_HW.sum(1), seen_HW.sum(0)
    centre = [float((x * torch.arange(len(x))).sum() / x.sum()) for x in (rows, columns)]
    over = CellMap(22, 24, 4)
    assert over.pixel(10, 12) == (40, 48) == pytest.approx(tuple(centre), abs=1e-2)


def test_places_are_in_pixels_of_the_stored_image() -> None:
    twice = CellMap(rows=4, columns=6, stride=16, scale=(2.0, 2.0))
    assert twice.pixel(0, 0) == (-0.25, -0.25)  # half a pixel of the larger image
    assert twice.pixel(1, 2) == (7.75, 15.75)
    for cell in ((0, 0), (3, 5), (1, 2)):
        assert twice.cell(*twice.pixel(*cell)) == cell
    assert twice.cell(500, 500) == (3, 5)


def place_of(module: nn.Module, stride: int = 8) -> Place:
    assert isinstance(module, DeformableConv2d)
    return Place("deformable", None, module, stride)


def look(
    forward: Callable[[], Any], place: Place, cell: tuple[int, int], name: str = "layer3.1"
) -> CellView:
    image = np.zeros((48, 64, 3), np.uint8)
    return view_of(forward, name, place, image, (1, 1), CellChoice(cell))


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_sampling_places_are_those_that_the_convolution_reads(stride: int, dilation: int) -> None:
    options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": 2}
    convolution = DeformableConv2d(4, 1, modulated=True, **options)
    with torch.no_grad():
        moves = torch.randint(-2, 3, (36,)).float()  # whole cells: nothing is interpolated
        assert convolution.offset_conv.bias is not None
        convolution.offset_conv.bias[:36] = moves
        convolution.offset_conv.bias[36:] = torch.randn(18)
    x_BCHW = torch.randn(1, 4, 7, 10)
    view = look(lambda: convolution(x_BCHW), place_of(convolution), (1, 3))
    (part,) = view.parts
    assert isinstance(part, Samples)
    assert (view.map.rows, view.map.columns) == (-(-7 // stride), -(-10 // stride))
    expected = 0.0
    weights = convolution.weight.detach()[0].flatten(1)  # (channel, tap)
    for number, (row, column) in enumerate((part.sampled_N2 * stride).tolist()):
        group, tap = divmod(number, 9)
        inside = 0 <= row < 7 and 0 <= column < 10
        for channel in (2 * group, 2 * group + 1):
            value = float(x_BCHW[0, channel, round(row), round(column)]) if inside else 0.0
            expected += float(part.strength_N[number]) * value * float(weights[channel, tap])
    assert float(convolution(x_BCHW)[0, 0, 1, 3].detach()) == pytest.approx(expected, abs=1e-4)
    middle = part.regular_N2[4]
    assert middle.tolist() == [1, 3]


def attended(spec: str, image_B3HW: Tensor, **options: Any) -> tuple[AttendedResNet, Any]:
    options = {"heads": 2, "gate": "one", **options}
    body = AttendedResNet("resnet18", spec, **options).eval()
    return body, lambda: body(image_B3HW)


def test_blocks_are_named_as_in_the_state_dict_and_found_by_name_or_number() -> None:
    body, _ = attended("terms(0010)+deformable", torch.rand(1, 3, 48, 64))
    places = places_of(body, "terms(0010)+deformable")
    assert list(places) == ["layer3.0", "layer3.1", "layer4.0", "layer4.1"]
    assert [place.stride for place in places.values()] == [16, 16, 32, 32]
    for layer, name in ((None, "layer4.1"), ("2", "layer3.1"), ("layer3.0", "layer3.0")):
        assert choose_place(places, layer, "") == name
    with pytest.raises(ConfigError, match="no layer 'layer3.2' .* did you mean layer3.1"):
        choose_place(places, "layer3.2", "")
    with pytest.raises(ConfigError, match="no layer '5' .*; there are layer3.0, layer3.1"):
        choose_place(places, "5", "")
    dense = AttendedResNet("resnet18", "dot", heads=2, output_stride=8)
    assert [place.stride for place in places_of(dense, "dot").values()] == [8, 8, 8, 8]


def test_a_block_tells_of_its_convolution_and_of_its_attention() -> None:
    body, forward = attended(
        "terms(0010)+deformable", torch.rand(1, 3, 48, 64), key_stride=2, query_stride=2
    )
    place = places_of(body, "terms(0010)+deformable")["layer3.1"]
    view = look(forward, place, (2, 1))
    samples, weights = view.parts
    assert isinstance(samples, Samples) and isinstance(weights, Weights)
    assert weights.what == "terms(0010), gate 1" and samples.what == "deformable 3 x 3"
    assert weights.weights_HRC.shape == (2, 2, 2) and weights.step == 2  # of 3 x 4 cells
    assert weights.weights_HRC.sum((1, 2)).tolist() == pytest.approx([1, 1], abs=1e-5)
    assert torch.equal(samples.sampled_N2, samples.regular_N2)  # offsets start at 0
    assert view.cell == (2, 0)
    assert view.notes == (
        "with query_stride=2 attention is computed at every second row and column only: drawn is "
        "the cell 2,0",
    )
    with pytest.raises(
        ConfigError, match="cell 3,0 is outside of the map of layer3.1, the last layer: "
    ):
        look(forward, place, (3, 0))


def test_a_dynamic_convolution_tells_its_kernel_around_the_cell() -> None:
    spec = "dynamic(groups=4,kernel=5)"
    body, forward = attended(spec, torch.rand(1, 3, 48, 64))
    (kernel,) = look(forward, places_of(body, spec)["layer3.1"], (1, 2)).parts
    assert isinstance(kernel, Weights) and kernel.kernel
    assert kernel.first == (-1, 0) and kernel.weights_HRC.shape == (4, 5, 5)
    assert kernel.weights_HRC.sum((1, 2)).tolist() == pytest.approx([1] * 4, abs=1e-5)


def test_a_run_that_looks_nowhere_says_so() -> None:
    body, _ = attended("none", torch.rand(1, 3, 32, 32))
    with pytest.raises(ConfigError, match="no block .* neighbourhood .backbone is none., so there"):
        choose_place(places_of(body, "none"), None, "backbone is none")
