"""Where regions of an image stand: boxes."""

from __future__ import annotations

import torch
from torch import Tensor

from .geometry import Geometry

SMALLEST_DISTANCE = 1e-3
"""|dx| / w and |dy| / h are at least this, as in the Object Relation Transformer's public code."""

SMALLEST_SIDE = 1e-4
"""Width and height are at least this share of the extent of all boxes of the image."""


class Boxes(Geometry):
    """Boxes of the regions of each image; queries and keys are the same regions.

    Only relations between boxes of one image are used, and they don't change with translation
    or scale: any unit will do, pixels or fractions of the image. Boxes are data: no gradient
    flows into them.

    Args:
        boxes_BN4: x1, y1, x2, y2 of each region; B may be 1 for boxes that all items share.
        valid_BN: bool, True where a region is real; None if all are. What stands in padding is
            never read.
    """

    name = "Boxes"

    def __init__(self, boxes_BN4: Tensor, valid_BN: Tensor | None = None) -> None:
        if boxes_BN4.dim() != 3 or boxes_BN4.shape[-1] != 4:
            raise ValueError(f"boxes have the shape (B, N, 4), not {tuple(boxes_BN4.shape)}")
        kind = torch.promote_types(boxes_BN4.dtype, torch.float32)
        self.boxes_BN4 = boxes_BN4.detach().to(kind)
        self.valid_BN = valid_BN
        self.queries = self.keys = boxes_BN4.shape[1]
        self._log_ratios: Tensor | None = None

    def log_ratios(self) -> Tensor:
        """Relation of box j to box i, (B, N, N, 4), computed once for all layers.

        Equation 8 of "Normalized and Geometry-Aware Self-Attention Network for Image Captioning"
        (Guo et al., CVPR 2020), x and y being centres::

            log(|x_i - x_j| / w_i), log(|y_i - y_j| / h_i), log(w_i / w_j), log(h_i / h_j)

        The first two are clamped where the difference is (nearly) 0, on the diagonal above all;
        so is a side of (nearly) no length. 0 where i or j is padding.
        """
        if self._log_ratios is None:
            self._log_ratios = self._make_log_ratios()
        return self._log_ratios

    def _make_log_ratios(self) -> Tensor:
        low_BN2, high_BN2 = self.boxes_BN4.split(2, -1)
        if self.valid_BN is not None:
            hidden_BN1 = ~self.valid_BN[..., None]
            low_BN2, high_BN2 = (x.masked_fill(hidden_BN1, 0) for x in (low_BN2, high_BN2))
        centre_BN2 = (low_BN2 + high_BN2) / 2
        side_BN2 = torch.maximum(high_BN2 - low_BN2, SMALLEST_SIDE * self._extent_B12())
        distance_BNN2 = (centre_BN2[:, :, None] - centre_BN2[:, None]).abs()
        near_BNN2 = (distance_BNN2 / side_BN2[:, :, None]).clamp_min(SMALLEST_DISTANCE)
        # The log of a quotient, not a difference of logs: ``encode_ratios`` magnifies the rounding.
        sides_BNN2 = side_BN2[:, :, None] / side_BN2[:, None]
        ratios_BNN4 = torch.cat([near_BNN2, sides_BNN2], -1).log_()
        if self.valid_BN is not None:
            pair_BNN = self.valid_BN[:, :, None] & self.valid_BN[:, None]
            ratios_BNN4 = ratios_BNN4.masked_fill(~pair_BNN[..., None], 0)
        return ratios_BNN4

    def _extent_B12(self) -> Tensor:
        """Width and height of what all real boxes of an image cover; 1 where that is nothing."""
        low_BN2, high_BN2 = self.boxes_BN4.split(2, -1)
        if self.valid_BN is not None:
            hidden_BN1 = ~self.valid_BN[..., None]
            low_BN2 = low_BN2.masked_fill(hidden_BN1, torch.inf)
            high_BN2 = high_BN2.masked_fill(hidden_BN1, -torch.inf)
        if not self.queries:
            return low_BN2.new_ones(len(low_BN2), 1, 2)
        extent_B12 = high_BN2.amax(1, keepdim=True) - low_BN2.amin(1, keepdim=True)
        return torch.where(extent_B12 > 0, extent_B12, torch.ones_like(extent_B12))


def encode_ratios(ratios: Tensor, dim: int, wave: float) -> Tensor:
    """Sinusoidal encoding of 100 times the log-ratios (..., 4): (..., dim).

    As "Relation Networks for Object Detection" (Hu et al., CVPR 2018, section 3.1) and the Object
    Relation Transformer have it: dim / 8 wavelengths from 2 pi to wave x 2 pi for each of the
    four numbers; all sines, then all cosines.
    """
    each = dim // 8
    index = torch.arange(each, device=ratios.device, dtype=ratios.dtype)
    angle = (100 * ratios[..., None] * wave ** (-index / each)).flatten(-2)
    return torch.cat([angle.sin(), angle.cos()], -1)
