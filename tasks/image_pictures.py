"""What a model says of one image beside the truth, ready to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .attention_maps import find_item
from .errors import Diverged

if TYPE_CHECKING:
    from ..datamodules.detection import DetectionData
    from ..datamodules.segmentation import SegmentationData
    from .detection import DetectionTask
    from .segmentation import SegmentationTask

IGNORED = 255
"""Class of pixels that are void."""


@dataclass(frozen=True)
class Box:
    """A box in an image.

    Attributes:
        corners: x1, y1, x2, y2 in pixels of the stored image; 0 is the left or upper edge.
        name: of its class.
        score: from 0 to 1; None in the truth.
        crowd: it is around many things.
    """

    corners: tuple[float, float, float, float]
    name: str
    score: float | None = None
    crowd: bool = False


@dataclass(frozen=True)
class BoxPicture:
    """Detections of one image.

    Attributes:
        image_HW3: uint8, red green blue.
        classes: names of all classes, in order.
        found: what the model says, best first.
        true: as annotated.
    """

    image_HW3: np.ndarray
    classes: tuple[str, ...]
    found: tuple[Box, ...]
    true: tuple[Box, ...]


@dataclass(frozen=True)
class LabelPicture:
    """A class for each pixel of one image.

    Attributes:
        image_HW3: uint8, red green blue.
        classes: their names.
        palette_K3: their colours, uint8.
        said_HW: classes as the model says.
        true_HW: as annotated, 255 is void; None where the split has no labels.
    """

    image_HW3: np.ndarray
    classes: tuple[str, ...]
    palette_K3: np.ndarray
    said_HW: np.ndarray
    true_HW: np.ndarray | None


ImagePicture = BoxPicture | LabelPicture


@torch.inference_mode()
def picture_of_boxes(task: DetectionTask, data: DetectionData, split: str, item: str) -> BoxPicture:
    """What a detector finds in an image, beside its boxes.

    Raises:
        ConfigError: there is no such item.
        DataError: there is no such split, or the image can't be read.
        Diverged: the model's numbers aren't finite.
    """
    position = find_item(item, data.image_ids(split), split)
    batch = batch_at(data, split, position)
    names = dict(zip(data.category_ids, data.classes, strict=True))
    found = []
    for entry in task.detect([batch], data):
        x, y, width, height = entry["bbox"]
        name, score = names[entry["category_id"]], float(entry["score"])
        found.append(Box((x, y, x + width, y + height), name, score))
    target = data.targets(split)[position]
    true = [
        Box((x1, y1, x2, y2), data.classes[label - 1], crowd=crowd)
        for (x1, y1, x2, y2), label, crowd in zip(
            target.boxes_N4.tolist(), target.labels_N.tolist(), target.crowd_N.tolist(), strict=True
        )
    ]
    image_HW3 = batch.images[0].permute(1, 2, 0).numpy()
    return BoxPicture(image_HW3, tuple(data.classes), tuple(found), tuple(true))


@torch.inference_mode()
def picture_of_labels(
    task: SegmentationTask, data: SegmentationData, split: str, item: str
) -> LabelPicture:
    """The classes that a segmenter gives to an image, beside its labels.

    Raises:
        ConfigError: there is no such item.
        DataError: there is no such split, or the image can't be read.
        Diverged: the model's numbers aren't finite.
    """
    position = find_item(item, data.names(split), split)
    batch = batch_at(data, split, position)
    task.eval()
    logits_BKHW = task.logits(batch.images_B3HW.to(task.device))
    if not logits_BKHW.isfinite().all():
        raise Diverged("the trained model gives numbers that aren't finite")
    image_HW3, labels_HW = data.read(split, position)
    return LabelPicture(
        image_HW3,
        tuple(data.classes),
        np.asarray(data.palette),
        logits_BKHW[0].argmax(0).cpu().numpy(),
        labels_HW if data.has_labels(split) else None,
    )


def batch_at(data: Any, split: str, position: int) -> Any:
    """The batch of just one image of a split; no other is read."""
    return data.predict_dataloader(split).gather(np.array([position]), 0)


def occurring(parts: Sequence[np.ndarray | None]) -> list[int]:
    """The classes, void included, that occur in any of some label maps, in order."""
    return sorted({int(label) for part in parts if part is not None for label in np.unique(part)})
