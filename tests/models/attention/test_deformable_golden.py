"""Our 1-D sampling against torchvision's 2-D deformable convolution, every case found.

Bilinear sampling is linear along a row, then linear across the rows, so the 2-D cases test
``sample_linear`` as it stands: each row is sampled at x and weighted by its distance to y.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnbench.models.attention.deformable import sample_linear
from tests.models.attention.golden import Case, case_files, read_case


@pytest.mark.parametrize("path", case_files("deform_conv"), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read_case(path)
    y = deform_conv_2d(case, case.inputs["offset"], case.inputs.get("mask"))
    for name in ("y", "y_float64_loops"):
        torch.testing.assert_close(y, case.outputs[name].float(), rtol=1e-5, atol=1e-5)
    plain = deform_conv_2d(case, torch.zeros_like(case.inputs["offset"]), None)
    torch.testing.assert_close(
        plain, case.outputs["y_zero_offset_no_mask"].float(), rtol=1e-5, atol=1e-5
    )


def deform_conv_2d(case: Case, offset: Tensor, mask: Tensor | None) -> Tensor:
    """(B, O, H, W) from the case's map, weight and bias."""
    config, weight_OCKK = case.config, case.state["weight"]
    x_BCHW, taps = case.inputs["x"], config["kernel"]
    batch, channels = x_BCHW.shape[:2]
    height, width = offset.shape[-2:]
    share = channels // config["offset_groups"]
    offset = offset.reshape(batch, config["offset_groups"], taps * taps, 2, height, width)
    if mask is not None:
        mask = mask.reshape(batch, config["offset_groups"], taps * taps, 1, height, width)
    sampled = x_BCHW.new_zeros(batch, channels, taps * taps, height, width)
    for group in range(config["offset_groups"]):
        part = slice(group * share, (group + 1) * share)
        for tap in range(taps * taps):
            row, column = divmod(tap, taps)
            values = sample_bilinear(
                x_BCHW[:, part],
                starts(height, row, config)[:, None] + offset[:, group, tap, 0],
                starts(width, column, config) + offset[:, group, tap, 1],
            )
            sampled[:, part, tap] = values if mask is None else values * mask[:, group, tap]
    grouped = sampled.unflatten(1, (config["groups"], -1))
    weight = weight_OCKK.flatten(2).unflatten(0, (config["groups"], -1))
    y = torch.einsum("bgckhw,gock->bgohw", grouped, weight).flatten(1, 2)
    return y + case.state["bias"][:, None, None]


def starts(size: int, tap: int, config: dict[str, int]) -> Tensor:
    """Where tap ``tap`` of every output position stands without an offset."""
    return torch.arange(size) * config["stride"] - config["padding"] + tap * config["dilation"]


def sample_bilinear(x_BCHW: Tensor, place_y_BHW: Tensor, place_x_BHW: Tensor) -> Tensor:
    """(B, C, H, W) at fractional places of a map."""
    total = torch.zeros(())
    for row in range(x_BCHW.shape[2]):
        values_BND = sample_linear(x_BCHW[:, :, row].transpose(1, 2), place_x_BHW.flatten(1))
        nearness = (1 - (place_y_BHW - row).abs()).clamp_min(0)
        values_BCHW = values_BND.transpose(1, 2).unflatten(2, place_x_BHW.shape[1:])
        total = total + nearness[:, None] * values_BCHW
    return total
