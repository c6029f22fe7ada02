"""COCO's average precision of boxes, through torchmetrics and faster-coco-eval.

The rules are those of the COCO evaluation (Lin et al., ECCV 2014, and its public code): precision
at 101 recalls, interpolated, for IoU thresholds .50:.05:.95; at most 1, 10 and 100 detections an
image and class; a detection that meets a crowd is neither right nor wrong; a class without a box in
the truth is left out of every mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics.detection import MeanAveragePrecision

_IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10).tolist()
_RECALLS = np.linspace(0.0, 1.0, 101).tolist()
_MOST = [1, 10, 100]

SIZES = {
    "small": "up to 32^2 pixels of area",
    "medium": "from 32^2 to 96^2 pixels of area",
    "large": "from 96^2 pixels of area",
}
"""Ranges of area that have a metric of their own; an area on a border counts in both."""

_NO_AREA = 1e-9
"""Square pixels for an annotated 0, for which torchmetrics would take the box's area."""

_AREAS = ("all", *SIZES)

NAMES = (
    "box_ap",
    "box_ap50",
    "box_ap75",
    *(f"box_ap_{size}" for size in SIZES),
    *(f"box_ar{most}" for most in _MOST),
    *(f"box_ar_{size}" for size in SIZES),
)
"""COCO's twelve numbers in its own order."""


@dataclass(frozen=True)
class ImageBoxes:
    """Boxes of one image, in a form for either side of the comparison.

    Attributes:
        boxes_N4: float64, x, y, width and height in pixels.
        classes_N: int64, any ids.
        scores_N: float64, of detections.
        area_N: float64, of truth: the object's area in pixels, which is not the box's.
        crowd_N: bool, of truth.
    """

    boxes_N4: Tensor
    classes_N: Tensor
    scores_N: Tensor | None = None
    area_N: Tensor | None = None
    crowd_N: Tensor | None = None


@dataclass(frozen=True)
class BoxScores:
    """COCO's twelve numbers in percent.

    Attributes:
        values: by metric name; None where the truth has no box that counts.
        reasons: why a value is None.
        per_class: AP of each class that has boxes in the truth.
        images: number of evaluated images.
    """

    values: dict[str, float | None]
    reasons: dict[str, str] = field(default_factory=dict)
    per_class: dict[int, float] = field(default_factory=dict)
    images: int = 0


def box_scores(pairs: Iterable[tuple[ImageBoxes, ImageBoxes]]) -> BoxScores:
    """Score detections against the truth.

    Args:
        pairs: detections and truth of each image; either may have no box. Detections of equal
            score in several images count in this order.
    """
    metric = MeanAveragePrecision(
        box_format="xywh",
        iou_thresholds=_IOU_THRESHOLDS,
        rec_thresholds=_RECALLS,
        max_detection_thresholds=_MOST,
        extended_summary=True,
        backend="faster_coco_eval",
    )
    metric.warn_on_many_detections = False  # those beyond 100 of a class are left out, by the rules
    images = 0
    for found, truth in pairs:
        metric.update([_detections(found)], [_truth(truth)])
        images += 1
    if not images:
        return BoxScores(dict.fromkeys(NAMES), dict.fromkeys(NAMES, "there is no image"))
    result = metric.compute()
    if "precision" not in result:  # neither a box nor a detection
        return BoxScores(dict.fromkeys(NAMES), {name: _reason(name) for name in NAMES}, {}, images)
    shares = _shares(result["precision"].numpy(), result["recall"].numpy())
    values = {name: _percent(share) for name, share in shares.items()}
    per_class = {
        int(label): _percent(result["precision"][:, :, column, 0, -1].numpy())
        for column, label in enumerate(result["classes"].flatten().tolist())
    }
    return BoxScores(
        values,
        {name: _reason(name) for name, value in values.items() if value is None},
        {label: value for label, value in per_class.items() if value is not None},
        images,
    )


def coco_box_scores(truth: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> BoxScores:
    """Score a COCO result list against a COCO instances file, both as loaded from JSON.

    Args:
        truth: ``images``, ``annotations`` and ``categories``.
        results: entries with ``image_id``, ``category_id``, ``bbox`` (x, y, width, height in
            pixels) and ``score``; an image or all of them may be missing.

    Raises:
        ValueError: a result of an image that the truth doesn't have.
    """
    ids = in_order(image["id"] for image in truth["images"])
    of_truth, of_results = _by_image(ids, truth["annotations"]), _by_image(ids, results)
    return box_scores((boxes_of(of_results[i]), boxes_of(of_truth[i])) for i in ids)


def in_order(ids: Iterable[int | str]) -> list[int | str]:
    """Ids of images in the order in which the COCO evaluation sees them: rising, texts last.

    Of detections of equal score those of the first image count first.
    """
    return sorted(ids, key=lambda ident: (isinstance(ident, str), ident))


def boxes_of(entries: Sequence[Mapping[str, Any]]) -> ImageBoxes:
    """The boxes of one image from entries of a COCO file, annotations or results."""

    def numbers(name: str, default: float, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.tensor([entry.get(name, default) for entry in entries], dtype=dtype)

    boxes = torch.tensor([entry["bbox"] for entry in entries], dtype=torch.float64).reshape(-1, 4)
    areas = [
        own if entry.get("area") is None else entry["area"]
        for entry, own in zip(entries, boxes[:, 2:].prod(1).tolist(), strict=True)
    ]
    return ImageBoxes(
        boxes_N4=boxes,
        classes_N=numbers("category_id", 0, torch.int64),
        scores_N=numbers("score", 0.0),
        area_N=torch.tensor(areas, dtype=torch.float64),
        crowd_N=numbers("iscrowd", 0, torch.bool),
    )


def _by_image(
    ids: Sequence[Any], entries: Sequence[Mapping[str, Any]]
) -> dict[Any, list[Mapping[str, Any]]]:
    found: dict[Any, list[Mapping[str, Any]]] = {image: [] for image in ids}
    for entry in entries:
        if entry["image_id"] not in found:
            raise ValueError(f"there is a box in image {entry['image_id']!r}, which isn't known")
        found[entry["image_id"]].append(entry)
    return found


def _detections(found: ImageBoxes) -> dict[str, Tensor]:
    assert found.scores_N is not None, "detections have scores"
    return {"boxes": found.boxes_N4, "labels": found.classes_N, "scores": found.scores_N}


def _truth(truth: ImageBoxes) -> dict[str, Tensor]:
    values = {"boxes": truth.boxes_N4, "labels": truth.classes_N}
    if truth.area_N is not None:
        values["area"] = truth.area_N.clamp_min(_NO_AREA)
    if truth.crowd_N is not None:
        values["iscrowd"] = truth.crowd_N.long()
    return values


def _shares(precision_TRCAM: np.ndarray, recall_TCAM: np.ndarray) -> dict[str, np.ndarray]:
    """What each metric is the mean of: by IoU threshold, recall, class, area and most detections.

    ``MeanAveragePrecision`` has these means too, but in single precision.
    """
    shares = {
        "box_ap": precision_TRCAM[..., 0, -1],
        "box_ap50": precision_TRCAM[_IOU_THRESHOLDS.index(0.5), ..., 0, -1],
        "box_ap75": precision_TRCAM[_IOU_THRESHOLDS.index(0.75), ..., 0, -1],
    }
    shares |= {f"box_ar{most}": recall_TCAM[..., 0, _MOST.index(most)] for most in _MOST}
    for size in SIZES:
        shares[f"box_ap_{size}"] = precision_TRCAM[..., _AREAS.index(size), -1]
        shares[f"box_ar_{size}"] = recall_TCAM[..., _AREAS.index(size), -1]
    return {name: shares[name] for name in NAMES}


def _percent(shares: np.ndarray) -> float | None:
    """Mean of shares from 0 to 1 in percent; -1 says that there was nothing to be counted."""
    counted = shares[shares > -1]
    return 100 * float(counted.mean()) if counted.size else None


def _reason(name: str) -> str:
    size = name.rpartition("_")[2]
    kind = f" {SIZES[size]}" if size in SIZES else ""
    return f"the truth has no box{kind} that counts"
