"""2-D deformable convolution in loops, straight from the formula, to be run in float64.

y_q = sum_m W_m (a_m(q) x(q + p_m + d_m(q))) + b with bilinear x(s), 0 outside of the map; Dai et
al., ICCV 2017, equations 2 to 4, and Zhu et al., CVPR 2019, equation 1.
"""

import math

import torch
from torch import Tensor


def bilinear(x_CHW: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Values (C,) at a fractional place; differentiable in map and place."""
    value = x_CHW.new_zeros(x_CHW.shape[0])
    low_y, low_x = math.floor(y.item()), math.floor(x.item())
    for row in (low_y, low_y + 1):
        for column in (low_x, low_x + 1):
            if 0 <= row < x_CHW.shape[1] and 0 <= column < x_CHW.shape[2]:
                share = (1 - (y - row).abs()) * (1 - (x - column).abs())
                value = value + share * x_CHW[:, row, column]
    return value


def deform_conv2d(
    x_BCHW: Tensor,
    offset: Tensor,
    weight_OCKK: Tensor,
    bias_O: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """(B, O, H', W').

    Args:
        x_BCHW: input map.
        offset: (B, 2 offset_groups K K, H', W'), dy then dx for each group and tap.
        weight_OCKK: (O, C / groups, K, K).
        bias_O: added at the end.
        mask: modulations, (B, offset_groups K K, H', W').
        stride, padding, dilation: in cells.
        groups: groups of the convolution.
        offset_groups: groups of channels with offsets of their own.
    """
    batch, channels = x_BCHW.shape[:2]
    side, (height, width) = weight_OCKK.shape[-1], offset.shape[-2:]
    share = channels // offset_groups
    weight_GOCK = weight_OCKK.flatten(2).unflatten(0, (groups, -1))
    cells = []
    for b in range(batch):
        for row in range(height):
            for column in range(width):
                taps = []  # (C,) each
                for tap in range(side * side):
                    i, j = divmod(tap, side)
                    values = []
                    for g in range(offset_groups):
                        at = g * side * side + tap
                        y = row * stride - padding + i * dilation + offset[b, 2 * at, row, column]
                        x = (
                            column * stride
                            - padding
                            + j * dilation
                            + offset[b, 2 * at + 1, row, column]
                        )
                        value = bilinear(x_BCHW[b, g * share : (g + 1) * share], y, x)
                        values.append(value if mask is None else mask[b, at, row, column] * value)
                    taps.append(torch.cat(values))
                sampled_GCK = torch.stack(taps, -1).unflatten(0, (groups, -1))
                cells.append(torch.einsum("gck,gock->go", sampled_GCK, weight_GOCK).flatten())
    y_BOHW = torch.stack(cells, -1).unflatten(1, (batch, height, width)).transpose(0, 1)
    return y_BOHW if bias_O is None else y_BOHW + bias_O[:, None, None]
