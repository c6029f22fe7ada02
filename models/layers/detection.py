"""Parts of torchvision's detectors, for images as thin as one pixel and for mixed precision."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.rpn import RPNHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform, resize_boxes
from torchvision.ops.poolers import LevelMapper, MultiScaleRoIAlign

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Resize(GeneralizedRCNNTransform):
    """torchvision's normalisation, scaling and padding, for images as thin as one pixel too.

    Args:
        shorter: side in pixels that the shorter side is scaled to.
        longer: most pixels of the longer side.
    """

    mean_311: Tensor
    std_311: Tensor

    def __init__(self, shorter: int, longer: int) -> None:
        super().__init__(shorter, longer, list(IMAGENET_MEAN), list(IMAGENET_STD))
        self.shorter = shorter
        self.longer = longer
        # On the device already, so that no image waits for a copy.
        for name, values in (("mean_311", IMAGENET_MEAN), ("std_311", IMAGENET_STD)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def normalize(self, image: Tensor) -> Tensor:
        """ImageNet's mean and deviation taken out of (3, H, W), floating point, 0 to 1."""
        if not image.is_floating_point():
            raise TypeError(f"images are floating point, 0 to 1, not {image.dtype}")
        return (image - self.mean_311.to(image.dtype)) / self.std_311.to(image.dtype)

    def resize(
        self, image: Tensor, target: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor] | None]:
        """Scale the shorter side as wanted, or less where the longer would be too long."""
        height, width = image.shape[-2:]
        shorter, longer = sorted((height, width))
        scale = min(self.shorter / shorter, self.longer / longer)
        # torchvision rounds down too, to nothing where an image is thin and long.
        size = (max(int(height * scale), 1), max(int(width * scale), 1))
        if size != (height, width):
            image = F.interpolate(image[None], size, mode="bilinear", align_corners=False)[0]
        if target is not None:
            boxes = resize_boxes(target["boxes"], [height, width], list(size))
            target = {**target, "boxes": boxes}
        return image, target


class Anchors(AnchorGenerator):
    """torchvision's, in full precision: it makes them in the type of the feature maps.

    A step of bfloat16 is 8 pixels above 1024.

    Args:
        sizes: side of the square anchor of each level, in pixels; there are two more of its area.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(tuple((size,) for size in sizes), ((0.5, 1.0, 2.0),) * len(sizes))

    def set_cell_anchors(self, dtype: torch.dtype, device: torch.device) -> None:
        """Make the anchors of a cell."""
        super().set_cell_anchors(torch.promote_types(dtype, torch.float32), device)


class BoxPool(MultiScaleRoIAlign):
    """torchvision's, told where the levels stand.

    It guesses that from the first batch it sees, by sizes before padding, and keeps the guess: a
    first image that is much larger with its padding would shift the boxes of all others.

    Args:
        first, last: levels of the pyramid; level l has a stride of 2^l pixels.
        side: cells of a box's map in each direction.
    """

    def __init__(self, first: int, last: int, side: int) -> None:
        levels = range(first, last + 1)
        super().__init__([str(level - first) for level in levels], side, sampling_ratio=2)
        self.scales = [2.0**-level for level in levels]
        self.map_levels = LevelMapper(first, last, self.canonical_scale, self.canonical_level)


class ProposalHead(RPNHead):
    """torchvision's, with results in full precision: half of it can't tell pixels apart.

    torchvision computes boxes in the type of what the heads say; a step of bfloat16 is 2 at 300.
    """

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Objectness and box offsets of each level."""
        logits, offsets = super().forward(x)
        return [one.float() for one in logits], [one.float() for one in offsets]


class BoxPredictor(FastRCNNPredictor):
    """torchvision's, with results in full precision, as ``ProposalHead``."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Class scores and box offsets of each proposal."""
        scores, offsets = super().forward(x)
        return scores.float(), offsets.float()
