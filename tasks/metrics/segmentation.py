"""Scores of semantic segmentation from one confusion matrix over a whole set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

IGNORED = 255
"""Label of pixels that don't count."""

NO_PIXELS = "no labelled pixel was evaluated"


@dataclass(frozen=True)
class SegmentationScores:
    """All scores in percent.

    Attributes:
        values: by name; None where a score isn't defined.
        reasons: why, by the same name.
        pixels: labelled pixels, the ignored ones left out.
    """

    values: dict[str, float | None]
    reasons: dict[str, str] = field(default_factory=dict)
    pixels: int = 0


class Confusion(Metric):
    """Counts pixels by true and predicted class over a set; sums over processes.

    Args:
        classes: number of classes K. Class indices are 0 to K - 1.
    """

    full_state_update = False
    confusion: Tensor

    def __init__(self, classes: int, **options: Any) -> None:
        super().__init__(**options)
        self.classes = classes
        # Rows are true classes; the last column counts predictions that are no class.
        empty = torch.zeros(classes, classes + 1, dtype=torch.int64)
        self.add_state("confusion", default=empty, dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Count the pixels of some images.

        Args:
            preds: class indices of any shape; 255 where no class is said.
            target: of the same shape; 255 where a pixel doesn't count.

        Raises:
            ValueError: other shapes, or other values.
        """
        if preds.shape != target.shape:
            raise ValueError(
                f"the prediction is {tuple(preds.shape)} and the labels {tuple(target.shape)}: "
                "compare them at one size"
            )
        counted = target != IGNORED
        preds, target = preds[counted].long(), target[counted].long()
        preds = torch.where(preds == IGNORED, self.classes, preds)
        for name, values, most in (("labels", target, 1), ("prediction", preds, 0)):
            if values.numel() and not 0 <= int(values.min()) <= int(values.max()) <= (
                self.classes - most
            ):
                raise ValueError(
                    f"the {name} hold {int(values.min())} to {int(values.max())}, and there are "
                    f"{self.classes} classes, from 0"
                )
        places = target * (self.classes + 1) + preds
        counts = torch.bincount(places, minlength=self.confusion.numel())
        self.confusion += counts.view_as(self.confusion)

    def compute(self) -> Tensor:
        """The matrix (K, K + 1)."""
        return self.confusion


def segmentation_scores(confusion: Tensor, classes: Sequence[str]) -> SegmentationScores:
    """Scores from pixels by true class (rows K) and predicted class (columns K, and no class).

    ``miou`` is the rule of Cityscapes' evaluation script: a class counts if it is there in the
    labels or the predictions. ``miou_absent0`` is that of CCNet's public code: every class of the
    list counts, one that is in neither as 0. ``mean_accuracy`` is the mean share of the pixels of
    a class that are found, over classes that the labels have. ``iou_<class>`` is of one class.
    """
    counts = confusion.double().cpu()
    right_K, true_K = counts.diagonal(), counts.sum(1)
    either_K = true_K + counts[:, :-1].sum(0) - right_K
    pixels = int(true_K.sum())
    there_K, labelled_K = either_K > 0, true_K > 0
    iou_K = 100 * right_K / either_K.clamp(min=1)
    values: dict[str, float | None] = dict.fromkeys(
        ("miou", "miou_absent0", "pixel_accuracy", "mean_accuracy")
    )
    if pixels:
        found_K = 100 * right_K[labelled_K] / true_K[labelled_K]
        values = {
            "miou": float(iou_K[there_K].mean()),
            "miou_absent0": float(iou_K.mean()),
            "pixel_accuracy": float(100 * right_K.sum() / pixels),
            "mean_accuracy": float(found_K.mean()),
        }
    reasons = {name: NO_PIXELS for name, value in values.items() if value is None}
    for name, iou, there in zip(iou_names(classes), iou_K.tolist(), there_K.tolist(), strict=True):
        values[name] = iou if there else None
        if not there:
            reasons[name] = "the class is neither in the labels nor predicted"
    return SegmentationScores(values, reasons, pixels)


def iou_names(classes: Sequence[str]) -> list[str]:
    """The names of the classes' own scores: ``iou_traffic_light``."""
    return [f"iou_{'_'.join(name.split())}" for name in classes]
