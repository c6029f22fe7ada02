"""`attnbench draw` of a run on images: what it says of one, or where one cell looks."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..results.naming import slug
from ..tasks.cell_parts import Weights
from ..tasks.cell_views import CellChoice, CellView
from ..tasks.image_pictures import BoxPicture, ImagePicture, LabelPicture
from .errors import UsageError
from .finished import FinishedRun
from .image_pictures import draw_boxes, draw_cell, draw_labels
from .pictures import check_file
from .runlog import away_from_the_terminal

LEAST_SCORE = 0.5

Drawn = tuple[Path, str, list[str]]


def is_of_a_cell(options: argparse.Namespace) -> bool:
    """Whether the options ask where a cell looks.

    Raises UsageError where they ask for two, or for scores of a cell.
    """
    if options.cell is not None and options.pixel is not None:
        raise UsageError("draw: --cell and --pixel both name the cell; give one of them")
    asked = options.cell is not None or options.pixel is not None
    if asked and options.least_score is not None:
        raise UsageError("draw: --least-score is for detections, which a cell has none of")
    return asked


def draw_cell_of(run: FinishedRun, options: argparse.Namespace, split: str, stem: str) -> Drawn:
    """Draw where a cell looks; as `draw`."""
    choice = CellChoice(options.cell or (0, 0), options.pixel, options.layer)
    with away_from_the_terminal(lambda line: None):
        view = run.module.cell_view(run.data, split, options.item, choice)
    head = _head(view, options.head)
    at = f"{view.cell[0]},{view.cell[1]}"
    chosen = f"{view.layer}.cell{at}" + f".head{options.head}" * (options.head is not None)
    path = options.save or run.folder / f"attention{stem}.{slug(chosen)}.png"
    check_file(path)
    stride = view.map.stride
    size = (
        f"{view.map.rows} x {view.map.columns} cells of {stride} pixels, centred on 0, {stride}, …"
    )
    draw_cell(path, view, head, f"{_title(run, options, split)}\n{view.layer}, cell {at} of {size}")
    parts = " and ".join(part.what for part in view.parts)
    return path, f"cell {at} of {view.layer}, {parts}", list(view.notes)


def draw_picture(
    run: FinishedRun,
    picture: ImagePicture,
    options: argparse.Namespace,
    split: str,
    stem: str,
) -> Drawn:
    """Draw what the model says of an image beside the truth; as `draw`."""
    for name in ("layer", "head"):
        if getattr(options, name) is not None:
            raise UsageError(f"draw: --{name} is of a cell, which needs --cell ROW,COLUMN too")
    title = _title(run, options, split)
    if isinstance(picture, LabelPicture):
        refuse_score(options)
        path = options.save or run.folder / f"picture{stem}.png"
        check_file(path)
        draw_labels(path, picture, title)
        if picture.true_HW is None:
            return path, "labels said", [f"{split} has no labels to stand beside"]
        return path, "labels said and true", []
    least = LEAST_SCORE if options.least_score is None else options.least_score
    chosen = "" if options.least_score is None else f".score{least:g}"
    path = options.save or run.folder / f"picture{stem}{chosen}.png"
    check_file(path)
    drawn = draw_boxes(path, picture, least, title)
    return path, f"{drawn} boxes found and {len(picture.true)} true", _below(picture, least, drawn)


def refuse_score(options: argparse.Namespace) -> None:
    """Raise UsageError for a score where there are no detections."""
    if options.least_score is not None:
        raise UsageError("draw: --least-score is for detections, which this run doesn't make")


def _below(picture: BoxPicture, least: float, drawn: int) -> list[str]:
    if drawn or not picture.found:
        return []
    best = max(box.score or 0.0 for box in picture.found)
    return [f"no detection has a score of {least:g}; the best has {best:.2g}, see --least-score"]


def _title(run: FinishedRun, options: argparse.Namespace, split: str) -> str:
    return f"{run.record.row}, {run.record.dataset} {split} {options.item}"


def _head(view: CellView, head: str | None) -> int | None:
    """The head that is asked for, from 0, or None for their mean; raises UsageError."""
    weights = [part for part in view.parts if isinstance(part, Weights)]
    if head is not None and not weights:
        raise UsageError(
            f"{view.layer} is {' and '.join(part.what for part in view.parts)}, which has no heads:"
            " leave out --head"
        )
    if head in (None, "mean"):
        return None
    for part in weights:
        heads, word = len(part.weights_HRC), "group" if part.kernel else "head"
        if int(head) > heads:
            raise UsageError(
                f"{view.layer} has {heads} {word}{'s' * (heads > 1)}, no --head {head}"
            )
    return int(head) - 1
