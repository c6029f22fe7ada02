"""Scoring boxes as COCO does: seconds from detections in memory to the twelve numbers.

Images, classes and boxes are drawn as many as COCO's: 80 classes, on average 7 boxes an image in
the truth, 100 detections an image, of which some lie on a box. Target: 100 images within 2 seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...tasks.metrics.detection import BoxScores, ImageBoxes, box_scores
from ..errors import UsageError
from .measure import Comparison, seconds
from .report import as_json, parser, run_benchmark, save, show

LIMIT = 2.0
"""Seconds allowed for 100 images."""

CLASSES = 80
BOXES = 7


def draw(images: int, detections: int, seed: int = 0) -> list[tuple[ImageBoxes, ImageBoxes]]:
    """Detections and truth of every image, on images of 640 x 480 pixels."""
    random = torch.Generator().manual_seed(seed)
    pairs = []
    for _ in range(images):
        count = int(torch.randint(0, 2 * BOXES + 1, (), generator=random))
        truth = _boxes(count, random)
        classes = torch.randint(1, CLASSES + 1, (count,), generator=random)
        found, found_classes = (
            _boxes(detections, random),
            torch.randint(1, CLASSES + 1, (detections,), generator=random),
        )
        near = min(count, detections)
        shift = 8 * torch.randn(near, 4, generator=random, dtype=torch.float64)
        found[:near] = (truth[:near] + shift).clamp_min(1)
        found_classes[:near] = classes[:near]
        scores = torch.rand(detections, generator=random, dtype=torch.float64)
        crowd = torch.rand(count, generator=random) < 0.01
        area = truth[:, 2] * truth[:, 3] / 2
        pairs.append(
            (
                ImageBoxes(found, found_classes, scores_N=scores),
                ImageBoxes(truth, classes, area_N=area, crowd_N=crowd),
            )
        )
    return pairs


def _boxes(count: int, random: torch.Generator) -> Tensor:
    """(N, 4) float64: x, y, width, height in pixels; sizes from a few pixels to the whole image."""
    share_N2 = 10 ** (-2 * torch.rand(count, 2, generator=random, dtype=torch.float64))
    size_N2 = share_N2 * torch.tensor([640.0, 480.0], dtype=torch.float64)
    free_N2 = torch.tensor([640.0, 480.0], dtype=torch.float64) - size_N2
    place_N2 = free_N2 * torch.rand(count, 2, generator=random, dtype=torch.float64)
    return torch.cat([place_N2, size_N2], -1)


def evaluate(pairs: Sequence[tuple[ImageBoxes, ImageBoxes]]) -> BoxScores:
    """The task's own metric.

    Raises:
        RuntimeError: not every image was scored.
    """
    scores = box_scores(pairs)
    if scores.images != len(pairs) or scores.values["box_ap"] is None:
        raise RuntimeError(f"{scores.images} of {len(pairs)} images were scored")
    return scores


def compare(images: int, detections: int, rounds: int) -> Comparison:
    """Seconds of every turn beside the seconds allowed."""
    pairs = draw(images, detections)
    evaluate(pairs)  # loads libraries
    times = [seconds(lambda: evaluate(pairs)) for _ in range(rounds)]
    allowed = [LIMIT * images / 100] * rounds
    return Comparison(f"{images} images, {detections} detections each", "s", times, allowed, 1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    found = compare(options.images, options.detections, options.rounds)
    rows = [replace(found, note="seconds allowed on the right")]
    print(f"COCO's box metrics: {options.threads} threads, {options.rounds} turns")
    print(show(rows, "attnbench", "allowed"))
    save(options.json, as_json("detection_eval", vars(options), rows))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("detection_eval", __doc__, rounds=5)
    made.add_argument("--images", type=int, default=100, help="images (100)")
    made.add_argument("--detections", type=int, default=100, help="detections an image (100)")
    options: argparse.Namespace = made.parse_args(arguments)
    if min(options.images, options.detections, options.rounds, options.threads) < 1:
        raise UsageError("sizes and turns must be 1 or more")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
