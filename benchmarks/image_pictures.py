"""Pictures of images: what a model says beside the truth, and where one cell looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..tasks.cell_parts import Samples, Weights
from ..tasks.cell_views import CellView
from ..tasks.image_pictures import IGNORED, Box, BoxPicture, LabelPicture, occurring
from .pictures import figure_file

STRONGEST = 10
"""Most keys that arrows go to."""

SLIGHT = 0.02
"""Share of the strongest weight below which no arrow is drawn."""

AROUND = 5
"""Cells that are shown at least to each side, where a picture is of a neighbourhood."""

_SIDE = 5.5  # inches of a panel's longer side
_LEAST = 1.2
_VOID = (128, 128, 128)
_QUERY = "#00d8ff"
_ARROW = "#3dff6e"
_LEGEND_ROWS = 6


def draw_boxes(path: Path, picture: BoxPicture, least_score: float, title: str) -> int:
    """What a detector finds, with class and score, beside the true boxes.

    Args:
        path: the file.
        picture: of one image.
        least_score: detections below it are left out.
        title: over both.

    Returns:
        The number of detections that are drawn.

    Raises StoreError.
    """
    found = [box for box in picture.found if (box.score or 0) >= least_score]
    there = [
        name for name in picture.classes if any(box.name == name for box in (*found, *picture.true))
    ]
    colours = {name: f"C{number % 10}" for number, name in enumerate(there)}
    said = f"found: {_number(len(found), 'box', 'boxes')} of score {least_score:g} or more"
    truth = f"true: {_number(len(picture.true), 'box', 'boxes')}"
    if crowds := sum(box.crowd for box in picture.true):
        truth += f", {_number(crowds, 'crowd')} dashed"
    with figure_file(path, *_size(picture.image_HW3, 2, bool(there))) as figure:
        figure.suptitle(title, fontsize="medium")
        for place, boxes, name in ((1, found, said), (2, picture.true, truth)):
            axes = _image_axes(figure, place, 2, picture.image_HW3, name)
            for box in reversed(boxes):  # the best lies on top
                _draw_box(axes, box, colours[box.name])
        both = [Counter(box.name for box in boxes) for boxes in (found, picture.true)]
        names = [f"{name}: {both[0][name]} found, {both[1][name]} true" for name in there]
        _legend(figure, [colours[name] for name in there], names)
    return len(found)


def _draw_box(axes: Any, box: Box, colour: str) -> None:
    from matplotlib.patches import Rectangle  # type: ignore[import-not-found]

    x1, y1, x2, y2 = (corner - 0.5 for corner in box.corners)  # pixel 0 is centred at 0 here
    line = "--" if box.crowd else "-"
    axes.add_patch(
        Rectangle(
            (x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colour, linestyle=line, linewidth=1.5
        )
    )
    text = box.name if box.score is None else f"{box.name} {box.score:.2f}"
    plate = {"facecolor": colour, "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    upper = axes.get_ylim()[1]
    above = y1 - upper > 0.04 * (axes.get_ylim()[0] - upper)  # else inside, where there is room
    corner = {"va": "bottom" if above else "top", "ha": "left", "clip_on": True}
    axes.text(x1, y1, text, color="white", fontsize="xx-small", bbox=plate, **corner)


def draw_labels(path: Path, picture: LabelPicture, title: str) -> None:
    """The classes that a segmenter gives to the pixels beside the true ones, over the image.

    Raises StoreError.
    """
    palette = np.full((256, 3), _VOID, np.uint8)
    palette[: len(picture.palette_K3)] = picture.palette_K3
    panels = [("said by the model", picture.said_HW)]
    if picture.true_HW is not None:
        counted = picture.true_HW != IGNORED
        right = (picture.said_HW == picture.true_HW)[counted]
        share = f"{right.mean():.1%} of its pixels are said so" if right.size else "all is void"
        panels.append((f"true: {share}", picture.true_HW))
    with figure_file(path, *_size(picture.image_HW3, len(panels), True)) as figure:
        figure.suptitle(title, fontsize="medium")
        for place, (name, labels_HW) in enumerate(panels, 1):
            axes = _image_axes(figure, place, len(panels), _grey(picture.image_HW3), name)
            axes.imshow(palette[labels_HW], alpha=0.65, interpolation="nearest")
        there = occurring([labels_HW for _, labels_HW in panels])
        names = ["void" if label == IGNORED else picture.classes[label] for label in there]
        _legend(figure, [tuple(palette[label] / 255) for label in there], names)


def draw_cell(path: Path, view: CellView, head: int | None, title: str) -> None:
    """Where one cell looks: a panel for each part of its block that looks elsewhere.

    Args:
        path: the file.
        view: of the cell.
        head: of the weights, from 0; None draws the mean of all.
        title: over all panels.

    Raises StoreError.
    """
    panels = len(view.parts)
    with figure_file(path, *_size(view.image_HW3, panels, False)) as figure:
        figure.suptitle(title, fontsize="medium")
        for place, part in enumerate(view.parts, 1):
            axes = _image_axes(figure, place, panels, _grey(view.image_HW3), part.what)
            if isinstance(part, Samples):
                _draw_samples(axes, view, part)
            else:
                _draw_weights(figure, axes, view, part, head)
            _mark(axes, view)
            _frame(axes, view, part)


def _draw_weights(figure: Any, axes: Any, view: CellView, part: Weights, head: int | None) -> None:
    heads = len(part.weights_HRC)
    weights_RC = (part.weights_HRC.mean(0) if head is None else part.weights_HRC[head]).numpy()
    low = min(0.0, float(weights_RC.min()))  # kernels without softmax have negative taps
    span = max(float(weights_RC.max()) - low, 1e-12)
    heat = axes.imshow(
        weights_RC,
        cmap="inferno",
        vmin=low,
        vmax=low + span,
        alpha=0.1 + 0.65 * (weights_RC - low) / span,
        interpolation="nearest",
        extent=_extent(view, part),
        zorder=1,
    )
    figure.colorbar(heat, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize="x-small")
    word = "group" if part.kernel else "head"
    which = f"mean of {_number(heads, word)}" if head is None else f"{word} {head + 1}"
    said = f"{part.what}: {which}"
    if not part.kernel:
        flat_K = weights_RC.ravel()
        best = np.argsort(-flat_K, kind="stable")[:STRONGEST]
        best = best[flat_K[best] >= SLIGHT * flat_K[best[0]]]
        share = f"{flat_K[best].sum():.0%} of the weight"
        said += f"; arrows to {len(best)} of {flat_K.size:,} keys, {share}"
        for key in best[::-1]:
            row, column = divmod(int(key), weights_RC.shape[1])
            place = (part.first[0] + row * part.step, part.first[1] + column * part.step)
            share = float(flat_K[key] / max(flat_K[best[0]], 1e-12))
            _arrow(axes, view, view.cell, place, share)
    axes.set_title(said, fontsize="small", wrap=True)


def _draw_samples(axes: Any, view: CellView, part: Samples) -> None:
    moved_N = (part.sampled_N2 - part.regular_N2).norm(dim=1)
    strongest = max(float(part.strength_N.max()), 1e-12)
    for regular, sampled, strength in zip(
        part.regular_N2.tolist(), part.sampled_N2.tolist(), part.strength_N.tolist(), strict=True
    ):
        y, x = view.map.pixel(*regular)
        axes.plot(x, y, marker="o", markersize=3, mfc="none", mec="white", mew=0.8, zorder=3)
        _arrow(axes, view, regular, sampled, strength / strongest)
    said = f"{part.what}: taps moved by {float(moved_N.mean()):.2f} cells on average"
    if "modulated" in part.what:
        said += f", weighed by up to {strongest:.2f} (thickness)"
    axes.set_title(said, fontsize="small", wrap=True)


def _arrow(axes: Any, view: CellView, start: Sequence[float], end: Sequence[float], share: float):
    """From one place of the map to another; ``share`` is the thickness, 1 at most."""
    (y1, x1), (y2, x2) = view.map.pixel(*start), view.map.pixel(*end)
    alpha = 0.35 + 0.65 * share
    axes.plot(x2, y2, marker="o", markersize=1 + 2.5 * share, color=_ARROW, alpha=alpha, zorder=4)
    if (x1, y1) == (x2, y2):
        return
    style = {"arrowstyle": "-|>", "mutation_scale": 5 + 5 * share, "linewidth": 0.3 + 1.7 * share}
    arrow = {**style, "color": _ARROW, "alpha": alpha, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x2, y2), (x1, y1), arrowprops=arrow, zorder=4, annotation_clip=False)


def _mark(axes: Any, view: CellView) -> None:
    """A square around the cell that is asked about."""
    from matplotlib.patches import Rectangle  # type: ignore[import-not-found]

    row, column = view.cell
    (y1, x1), (y2, x2) = (view.map.pixel(row + by, column + by) for by in (-0.5, 0.5))
    square = Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=_QUERY, linewidth=1.5)
    axes.add_patch(square).set_zorder(5)


Edges = tuple[float, float, float, float]
"""Left, right, lower and upper edge of a part of the image, in pixels."""


def _extent(view: CellView, part: Weights) -> Edges:
    """Of the cells of some weights."""
    rows, columns = part.weights_HRC.shape[1:]
    row, column = part.first
    last = (row + (rows - 1) * part.step, column + (columns - 1) * part.step)
    return _edges(view, part.first, last, part.step / 2)


def _edges(view: CellView, first: Sequence[int], last: Sequence[int], margin: float) -> Edges:
    """From one cell to another, and ``margin`` cells more on each side."""
    top, left = view.map.pixel(first[0] - margin, first[1] - margin)
    bottom, right = view.map.pixel(last[0] + margin, last[1] + margin)
    return left, right, bottom, top


def _frame(axes: Any, view: CellView, part: Weights | Samples) -> None:
    """Show the image and what of the map lies beyond it; of taps their neighbourhood only."""
    height, width = view.image_HW3.shape[:2]
    image = (-0.5, width - 0.5, height - 0.5, -0.5)
    whole = _edges(view, (0, 0), (view.map.rows - 1, view.map.columns - 1), 0.5)
    if isinstance(part, Samples):
        far = float((part.sampled_N2 - torch.tensor(view.cell)).abs().max())
        near = _edges(view, view.cell, view.cell, max(AROUND, far + 1))
        places = [view.map.pixel(*place) for place in part.sampled_N2.tolist()]
        shown = _joined(_cut(_joined(image, whole), near), *((x, x, y, y) for y, x in places))
    elif part.kernel:
        near = _edges(view, view.cell, view.cell, max(AROUND, part.weights_HRC.shape[1] / 2 + 1))
        shown = _cut(_joined(image, whole), near)
    else:
        shown = _joined(image, _extent(view, part))
    axes.set_xlim(shown[0], shown[1])
    axes.set_ylim(shown[2], shown[3])


def _joined(*parts: Edges) -> Edges:
    left, right, bottom, top = zip(*parts, strict=True)
    return min(left), max(right), max(bottom), min(top)


def _cut(one: Edges, other: Edges) -> Edges:
    left, right, bottom, top = zip(one, other, strict=True)
    return max(left), min(right), min(bottom), max(top)


def _image_axes(figure: Any, place: int, panels: int, image: np.ndarray, name: str) -> Any:
    axes = figure.add_subplot(1, panels, place)
    axes.imshow(image, interpolation="nearest", zorder=0)
    axes.set_title(name, fontsize="small")
    axes.tick_params(labelsize="x-small")
    return axes


def _grey(image_HW3: np.ndarray) -> np.ndarray:
    """The image without its colours, so that others can be laid over it."""
    grey_HW = image_HW3 @ np.array([0.299, 0.587, 0.114])
    return np.repeat(grey_HW.round().astype(np.uint8)[..., None], 3, 2)


def _size(image_HW3: np.ndarray, panels: int, legend: bool) -> tuple[float, float]:
    """Width and height of a figure, in inches."""
    height, width = image_HW3.shape[:2]
    inches = _SIDE / max(height, width)
    wide, high = max(_LEAST * 2, width * inches), max(_LEAST, height * inches)
    return panels * (wide + 0.6), high + 0.9 + 0.7 * legend


def _legend(figure: Any, colours: Sequence[Any], names: Sequence[str]) -> None:
    from matplotlib.patches import Patch  # type: ignore[import-not-found]

    if not names:
        return
    patches = [Patch(color=colour) for colour in colours]
    for patch, name in zip(patches, names, strict=True):
        patch.set_label(f"\u200a{name}" if name.startswith("_") else name)  # "_" hides it
    columns = max(3, -(-len(names) // _LEGEND_ROWS))
    figure.legend(handles=patches, loc="outside lower center", ncols=columns, fontsize="x-small")


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
