"""Random changes of an image's colours, for training."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def jitter_colours(image_3HW: Tensor, most: float, random: np.random.Generator) -> Tensor:
    """Change brightness, contrast and saturation, in this order, by factors of their own.

    Args:
        image_3HW: uint8, or float from 0 to 1.
        most: each factor is drawn from 1 - most to 1 + most.
        random: where chance comes from; three numbers are taken.
    """
    from torchvision.transforms.v2 import functional

    brightness, contrast, saturation = map(float, random.uniform(1 - most, 1 + most, size=3))
    image_3HW = functional.adjust_brightness(image_3HW, brightness)
    image_3HW = functional.adjust_contrast(image_3HW, contrast)
    return functional.adjust_saturation(image_3HW, saturation)
