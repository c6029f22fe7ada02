"""Training crops: random scale, crop, mirroring and colours; and the scale of pixel values.

A crop depends on the generator alone. Only the part of the scaled image that the crop shows is
computed, so that a crop of a large image costs what its own pixels cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

from .segmentation_config import SegmentationDataConfig
from .segmentation_records import IGNORED

Kind = Literal["imagenet", "caffe"]

# torchvision's weights: RGB from 0 to 1.
_MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32) * 255
# CCNet's public code, whose ResNet has Caffe's kind of weights: blue, green, red from 0 to 255.
_CAFFE_MEAN = np.array([104.00698793, 116.66876762, 122.67891434], np.float32)
_GREY = np.array([0.299, 0.587, 0.114], np.float32)


def normalise(image_HW3: np.ndarray, kind: Kind) -> np.ndarray:
    """Scale RGB values of 0 to 255 as a backbone's weights want them, float32 (3, H, W).

    0 is the mean, with which crops are padded, in both kinds.
    """
    values_HW3 = image_HW3.astype(np.float32)
    if kind == "caffe":
        values_HW3 = values_HW3[..., ::-1] - _CAFFE_MEAN
    else:
        values_HW3 = (values_HW3 - _MEAN) / _DEVIATION
    return np.ascontiguousarray(values_HW3.transpose(2, 0, 1))


@dataclass(frozen=True)
class Crops:
    """How training crops are made.

    Attributes:
        height: of a crop in pixels.
        width: of a crop in pixels.
        scales: that images are scaled by; any between the two, if `continuous`.
        continuous: whether the scales are the ends of a range.
        mirror: probability of mirroring.
        jitter: largest relative change of brightness, contrast and saturation.
        normalisation: of the pixel values.
    """

    height: int
    width: int
    scales: tuple[float, ...]
    continuous: bool
    mirror: float
    jitter: float
    normalisation: Kind

    @classmethod
    def of(cls, config: SegmentationDataConfig) -> Crops:
        """Make the crops of a configuration."""
        low, high, step = config.scale_min, config.scale_max, config.scale_step
        scales = (low, high)
        if step:
            # A step that ends just below the largest scale by rounding still reaches it.
            scales = tuple(low + step * n for n in range(int((high - low) / step + 1e-6) + 1))
        return cls(
            height=config.crop_height,
            width=config.crop_width,
            scales=scales,
            continuous=step == 0,
            mirror=config.mirror,
            jitter=config.jitter,
            normalisation=config.normalisation,
        )

    def _scale(self, random: np.random.Generator) -> float:
        if self.continuous:
            return random.uniform(self.scales[0], self.scales[-1])
        return self.scales[random.integers(len(self.scales))]

    def cut(
        self, image_HW3: np.ndarray, labels_HW: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make one crop.

        Args:
            image_HW3: uint8, of any size.
            labels_HW: its classes, uint8.
            random: where chance comes from.

        Returns:
            The normalised image, float32 (3, height, width), and its classes, uint8 (height,
            width). Where the scaled image is smaller than the crop, it lies at the upper left, the
            rest of the image is the mean (0) and that of the classes 255.
        """
        scale = self._scale(random)
        size = [max(1, round(side * scale)) for side in labels_HW.shape]
        shown = [min(size[0], self.height), min(size[1], self.width)]
        offset = [
            int(random.integers(side - part + 1)) for side, part in zip(size, shown, strict=True)
        ]
        part_HW3 = _scaled_part(image_HW3, size, offset, shown, Image.Resampling.BILINEAR)
        part_HW = _scaled_part(labels_HW, size, offset, shown, Image.Resampling.NEAREST)
        if random.random() < self.mirror:
            part_HW3, part_HW = part_HW3[:, ::-1], part_HW[:, ::-1]
        if self.jitter:
            part_HW3 = _jittered(part_HW3, self.jitter, random)
        out_3HW = np.zeros((3, self.height, self.width), np.float32)
        out_HW = np.full((self.height, self.width), IGNORED, np.uint8)
        out_3HW[:, : shown[0], : shown[1]] = normalise(part_HW3, self.normalisation)
        out_HW[: shown[0], : shown[1]] = part_HW
        return out_3HW, out_HW


def _scaled_part(
    pixels: np.ndarray,
    size: list[int],
    offset: list[int],
    shown: list[int],
    how: Image.Resampling,
) -> np.ndarray:
    """Give `shown` rows and columns, from `offset` on, of an image scaled to `size`.

    Where an image shrinks, Pillow's bilinear filter widens with the scale and so averages.
    """
    (height, width), (y, x), (h, w) = pixels.shape[:2], offset, shown
    if (height, width) == tuple(size):
        return pixels[y : y + h, x : x + w]
    across, down = width / size[1], height / size[0]
    box = (x * across, y * down, min((x + w) * across, width), min((y + h) * down, height))
    return np.asarray(Image.fromarray(pixels).resize((w, h), how, box=box))


def _jittered(image_HW3: np.ndarray, most: float, random: np.random.Generator) -> np.ndarray:
    """Change brightness, then contrast, then saturation by a random factor each; 0 to 255."""
    brightness, contrast, saturation = random.uniform(1 - most, 1 + most, 3)
    values = np.clip(image_HW3 * np.float32(brightness), 0, 255)
    grey = (values @ _GREY).mean()
    values = np.clip(grey + (values - grey) * np.float32(contrast), 0, 255)
    grey_HW1 = (values @ _GREY)[..., None]
    return np.clip(grey_HW1 + (values - grey_HW1) * np.float32(saturation), 0, 255)
