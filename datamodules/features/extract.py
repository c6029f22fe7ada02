"""Grid features from raw images: one row a cell of the last map, with the cell's box in pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from ..caption_records import CaptionImage
from ..errors import DataError
from ..image_files import image_files
from .backbones import Backbone, checked_backbone, load_backbone
from .item import FeatureItem

_BATCH = 32


class ImageFeatures:
    """Features of the image files of a data set, by the images' ids.

    The whole image is resized to the backbone's square, so that the cells cover all of it.

    Args:
        images: which images; those without a file are not given.
        root: folder that has the files, in it or below.
        backbone: see `load_backbone`.
        weights: weights file, if the backbone needs one.
        progress: called with the number of images done.

    Raises:
        DataError: no backbone of that name, or none of the images is there.
    """

    def __init__(
        self,
        images: Sequence[CaptionImage],
        root: Path,
        backbone: str,
        weights: Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        checked_backbone(backbone, weights)
        there = image_files(root)
        named = [(str(image.id), PurePosixPath(image.file_name).name) for image in images]
        self._files = [(ident, there[name]) for ident, name in named if name in there]
        if not self._files:
            example = f", such as {named[0][1]}" if named else ""
            raise DataError(
                f"{root} has none of the {len(images):,} images{example}; put them there or in a "
                "folder below it."
            )
        self.backbone = load_backbone(backbone, weights)
        self.layout = f"grid of {backbone} at {self.backbone.size} px"
        self._progress = progress

    def items(self, wanted: frozenset[str] | None = None) -> Iterator[FeatureItem]:
        """Give image after image. Raises DataError for an image that can't be read."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.backbone.module.to(device)
        files = [pair for pair in self._files if wanted is None or pair[0] in wanted]
        with ThreadPoolExecutor(2) as pool:
            for start in range(0, len(files), _BATCH):
                chunk = files[start : start + _BATCH]
                read = list(pool.map(lambda pair: _read(pair[1], self.backbone), chunk))
                pixels = torch.stack([image for image, _ in read]).to(device)
                with torch.inference_mode():
                    maps_BFHW = self.backbone.features(pixels).float().cpu()
                for (ident, _), map_FHW, (_, size) in zip(chunk, maps_BFHW, read, strict=True):
                    yield _item(ident, map_FHW, size)
                if self._progress is not None:
                    self._progress(min(start + _BATCH, len(files)))


def _read(path: Path, backbone: Backbone) -> tuple[Tensor, tuple[int, int]]:
    """Read an image as (3, S, S), normalised, with its own width and height."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            size = image.size
            square = image.convert("RGB").resize(
                (backbone.size, backbone.size), Image.Resampling.BICUBIC
            )
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise DataError(f"{path} is no image that can be read; copy it again.") from error
    pixels = np.asarray(square, np.float32) / 255
    mean, std = np.asarray(backbone.mean, np.float32), np.asarray(backbone.std, np.float32)
    pixels = (pixels - mean) / std
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), size


def _item(ident: str, map_FHW: Tensor, size: tuple[int, int]) -> FeatureItem:
    _, height, width = map_FHW.shape
    features = map_FHW.flatten(1).T.contiguous().numpy()
    return FeatureItem(ident, features, cell_boxes(height, width, size), size)


def cell_boxes(height: int, width: int, size: tuple[int, int]) -> np.ndarray:
    """Give the boxes (H W, 4) of a grid's cells in pixels, row by row."""
    row, column = np.divmod(np.arange(height * width), width)
    corners = np.stack([column, row, column + 1, row + 1], 1).astype(np.float32)
    scale = np.array([size[0] / width, size[1] / height], np.float32)
    return corners * np.tile(scale, 2)
