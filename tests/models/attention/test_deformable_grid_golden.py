"""Our 2-D deformable convolution and its loop reference against torchvision's numbers."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnbench.models.attention.deformable_grid import DeformableConv2d
from tests.models.attention.golden import Case, case_files, read_case
from tests.models.attention.naive_deformable_grid import deform_conv2d


@pytest.mark.parametrize("path", case_files("deform_conv"), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read_case(path)
    offset, mask = case.inputs["offset"], case.inputs.get("mask")
    plain = case.outputs["y_zero_offset_no_mask"].float()
    for name in ("y", "y_float64_loops"):
        expected = case.outputs[name].float()
        close(by_loops(case, offset, mask), expected)
        close(by_module(case, offset, mask), expected)
    close(by_loops(case, torch.zeros_like(offset), None), plain)
    close(by_module(case, torch.zeros_like(offset), None), plain)


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def by_loops(case: Case, offset: Tensor, mask: Tensor | None) -> Tensor:
    names = ("stride", "padding", "dilation", "groups", "offset_groups")
    y = deform_conv2d(
        case.inputs["x"].double(),
        offset.double(),
        case.state["weight"].double(),
        case.state["bias"].double(),
        None if mask is None else mask.double(),
        **{name: case.config[name] for name in names},
    )
    return y.float()


def by_module(case: Case, offset: Tensor, mask: Tensor | None) -> Tensor:
    """Groups of the convolution, which the module doesn't have, as blocks of one weight."""
    config, x, weight = case.config, case.inputs["x"], case.state["weight"]
    module = DeformableConv2d(
        x.shape[1],
        len(weight),
        config["kernel"],
        stride=config["stride"],
        dilation=config["dilation"],
        bias=True,
        modulated=config["modulated"],
        groups=config["offset_groups"],
    )
    assert module.padding == config["padding"]
    blocks = weight.unflatten(0, (config["groups"], -1))
    dense = torch.zeros_like(module.weight)
    for g, (rows, block) in enumerate(zip(dense.chunk(config["groups"]), blocks, strict=True)):
        rows[:, g * block.shape[1] : (g + 1) * block.shape[1]] = block
    module.load_state_dict({"weight": dense, "bias": case.state["bias"]}, strict=False)
    return module.convolve(x, offset, mask).detach()
