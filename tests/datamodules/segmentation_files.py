"""Small folders in the layouts of segmentation sets, made by the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attnbench.datamodules.segmentation import SegmentationData
from attnbench.datamodules.segmentation_config import SegmentationDataConfig

TRAIN_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""labelId of each train id, as the data set's documentation lists them."""


def write_image(path: Path, pixels: np.ndarray, mode: str | None = None) -> Path:
    """Write an array as an image; the ending tells the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels, mode).save(path)
    return path


def some_image(seed: int, height: int = 12, width: int = 20) -> np.ndarray:
    """Give random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def frame(
    root: Path, split: str, city: str, number: int, kind: str = "labelIds"
) -> tuple[Path, Path]:
    """Give the places of an image and its labels in the layout of Cityscapes."""
    name = f"{city}/{city}_{number:06}_000019"
    return (
        root / "leftImg8bit" / split / f"{name}_leftImg8bit.png",
        root / "gtFine" / split / f"{name}_gtFine_{kind}.png",
    )


def write_frame(
    root: Path, split: str, city: str, number: int, values: Any, kind: str = "labelIds"
) -> None:
    """Write an image of 20x12 pixels and labels that repeat the values given."""
    image, labels = frame(root, split, city, number, kind)
    write_image(image, some_image(number))
    write_image(labels, np.resize(np.array(values, np.uint8), (12, 20)))


def write_cityscapes(root: Path, kind: str = "labelIds") -> Path:
    """Write a folder in the exact layout of Cityscapes: 3 training, 2 validation, 1 test image."""
    values = [*TRAIN_IDS, 0, 4] if kind == "labelIds" else [*range(19), 255, 255]
    for split, city, number in (
        ("train", "aachen", 0),
        ("train", "aachen", 1),
        ("train", "ulm", 0),
        ("val", "lindau", 0),
        ("val", "lindau", 1),
    ):
        write_frame(root, split, city, number, np.roll(values, number), kind)
    write_frame(root, "test", "berlin", 0, [0, 1, 3], kind)  # dummies, as in the archive
    return root


def write_folders(root: Path, values: Any = tuple(range(12)), *, nested: bool = False) -> Path:
    """Write two images of 20x12 pixels for each split, and their labels, in plain folders."""
    for split in ("train", "val", "test"):
        images = root / "images" / split if nested else root / split
        labels = root / "labels" / split if nested else root / f"{split}annot"
        for number in range(2):
            write_image(images / f"frame {number}.jpg", some_image(number))
            write_image(
                labels / f"frame {number}.png", np.resize(np.array(values, np.uint8), (12, 20))
            )
    return root


def data(root: Path | None, dataset: str = "cityscapes", **settings: Any) -> SegmentationData:
    """Open a folder with small crops."""
    settings = {"batch_size": 2, "crop_height": 8, "crop_width": 10, **settings}
    return SegmentationData(SegmentationDataConfig(dataset=dataset, root=root, **settings))
