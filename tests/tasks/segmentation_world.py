"""A tiny world of roads, skies and cars in the layout of Cityscapes, which is learnt in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.datamodules.segmentation_files import frame, write_image

HEIGHT, WIDTH = 24, 40
ROAD, SKY, CAR, VOID = 7, 23, 26, 4

SETTINGS: dict[str, Any] = {
    "dataset": "cityscapes",
    "resnet": "resnet18",
    "decoder": "fpn",
    "decoder_channels": 32,
    "output_stride": 32,
    "heads": 2,
    "auxiliary": False,
    "head_dropout": 0.0,
    "crop_height": HEIGHT,
    "crop_width": WIDTH,
    "scale_min": 1.0,
    "scale_max": 1.0,
    "batch_size": 4,
    "optimiser": "adamw",
    "learning_rate": 5e-3,
    "max_steps": 40,
    "check_every": 20,
    "inference": "whole",
    "threads": 1,
    "accelerator": "cpu",
}


def write_world(root: Path, train: int = 12, val: int = 4) -> Path:
    """Write `train` and `val` images of 40x24 pixels, and one without labels for the server."""
    random = np.random.default_rng(0)
    for split, number in (("train", train), ("val", val), ("test", 1)):
        for place in range(number):
            image_HW3, values_HW = _scene(random)
            image, labels = frame(root, split, "lindau", place)
            write_image(image, image_HW3)
            write_image(labels, np.zeros_like(values_HW) if split == "test" else values_HW)
    return root


def _scene(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    values_HW = np.full((HEIGHT, WIDTH), ROAD, np.uint8)
    values_HW[: random.integers(6, 12)] = SKY
    left = random.integers(0, WIDTH - 16)
    values_HW[12:20, left : left + 16] = CAR
    values_HW[-2:] = VOID
    colours = np.zeros((34, 3), np.int64)
    colours[[ROAD, SKY, CAR, VOID]] = [[90, 90, 90], [80, 160, 240], [220, 30, 30], [10, 10, 10]]
    noisy_HW3 = colours[values_HW] + random.integers(-10, 11, (HEIGHT, WIDTH, 3))
    return noisy_HW3.clip(0, 255).astype(np.uint8), values_HW
