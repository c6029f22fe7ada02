"""Writer of the detection demo: pictures of shapes as PNGs, and their boxes as COCO JSON.

Squares, triangles and stars are told by their looks: each shape has a colour of its own, so that
little training is enough. A circle is a `sun` or a `moon`, and no pixel of it says which: a small
lamp in one of the picture's corners does, orange by day and violet by night. A detector that sees
only the neighbourhood of a box must guess, which halves its precision on these two of five classes.

As in COCO itself, ids of categories and images have gaps, some images have no box, and in some a
crowd of small triangles has one box around all of them.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from .folder import write_folder
from .shapes import SHAPES, Scene, Thing
from .shapes_images import LABELS, Painted, paint, scatter

CATEGORIES: dict[int, str] = {1: "square", 3: "triangle", 4: "star", 9: "sun", 11: "moon"}
"""Names by id, with gaps."""

LAMPS: dict[str, tuple[int, int, int]] = {"sun": (255, 140, 0), "moon": (150, 30, 230)}
"""Colour of the lamp that makes a circle a sun or a moon."""

COLOURS = {"square": "red", "triangle": "green", "star": "blue", "circle": "white"}
"""Colour of each shape."""

SIZES = ((128, 96), (128, 96), (128, 112), (96, 128))
"""Widths and heights of the pictures, one after the other."""

_LAMP, _MARGIN = 12, 2
_THINGS, _SIDES = (2, 4), (56, 96)
_CYCLE, _BARE, _CROWD = 40, 1, 2  # of 40 images the second has no box and the third a crowd


def write_detection_demo(
    root: Path, *, seed: int = 0, train: int = 400, val: int = 40, test: int = 100
) -> Path:
    """Write ``annotations/instances_train2017.json``, ``train2017/*.png`` and so on in one step.

    The same arguments give the same bytes.

    Args:
        root: the folder; made if it is missing. Running again with the same arguments changes
            nothing.
        seed: seed of the pictures.
        train: number of training images.
        val: number of validation images.
        test: number of test images.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, is the current one, or can't be read or written.
    """
    return write_folder(Path(root), _contents(seed, {"train": train, "val": val, "test": test}))


def _contents(seed: int, sizes: dict[str, int]) -> dict[str, bytes]:
    random = Random(seed)
    annotations: dict[str, bytes] = {}
    pictures: dict[str, bytes] = {}
    number = 0
    for split, size in sizes.items():
        images: list[dict[str, Any]] = []
        boxes: list[dict[str, Any]] = []
        for place in range(size):
            number += 1
            ident = 3 * number + 100  # with gaps, as COCO's
            name = f"{ident:012}.png"
            found, image_HW3 = _picture(random, place, seed * 1_000_003 + number)
            height, width = image_HW3.shape[:2]
            images.append({"id": ident, "file_name": name, "width": width, "height": height})
            boxes += [
                {"id": 1000 * number + i, "image_id": ident, **b} for i, b in enumerate(found)
            ]
            pictures[f"{split}2017/{name}"] = _png(image_HW3)
        annotations[f"annotations/instances_{split}2017.json"] = _json(images, boxes)
    return {**annotations, **pictures}


def _json(images: list[dict[str, Any]], boxes: list[dict[str, Any]]) -> bytes:
    content = {
        "info": {"description": "synthetic pictures of shapes"},
        "licenses": [],
        "images": images,
        "annotations": boxes,
        "categories": [
            {"supercategory": "shape", "id": ident, "name": name}
            for ident, name in CATEGORIES.items()
        ],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _picture(random: Random, place: int, seed: int) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Draw a picture: what is annotated in it, and its pixels (H, W, 3)."""
    kind = place % _CYCLE
    circle = random.choice(list(LAMPS))
    if kind == _CROWD:
        scene = _crowd(random)
    else:
        scene = _scene(random, 0 if kind == _BARE else random.randint(*_THINGS))
    painted = paint(scene, size=SIZES[place % len(SIZES)], seed=seed)
    image_HW3 = painted.image_HW3.copy()
    _light(random, image_HW3, LAMPS[circle])
    return (_with_crowd if kind == _CROWD else _each)(painted, circle), image_HW3


def _scene(random: Random, things: int) -> Scene:
    """Draw things; in at least half of the pictures with any there is a circle."""
    circle = things > 0 and random.random() < 0.5
    while True:
        scene = scatter(random, things, sides=_SIDES)
        if not circle or any(thing.shape == "circle" for thing in scene.things):
            coloured = (replace(thing, colour=COLOURS[thing.shape]) for thing in scene.things)
            return replace(scene, things=tuple(coloured))


def _light(random: Random, image_HW3: np.ndarray, colour: tuple[int, int, int]) -> None:
    """Paint the lamp into one of the corners."""
    height, width = image_HW3.shape[:2]
    y = random.choice((_MARGIN, height - _MARGIN - _LAMP))
    x = random.choice((_MARGIN, width - _MARGIN - _LAMP))
    image_HW3[y : y + _LAMP, x : x + _LAMP] = colour


def _each(painted: Painted, circle: str) -> list[dict[str, Any]]:
    """Annotate every thing; its area is the pixels of it that are seen."""
    ids = {name: ident for ident, name in CATEGORIES.items()}
    found = []
    for (x1, y1, x2, y2), shape in zip(painted.boxes, painted.shapes, strict=True):
        area = int((painted.labels_HW[y1:y2, x1:x2] == LABELS.index(shape)).sum())
        category = ids[circle if shape == "circle" else shape]
        found.append(_annotation((x1, y1, x2, y2), category, area, crowd=False))
    return found


def _with_crowd(painted: Painted, circle: str) -> list[dict[str, Any]]:
    """Annotate the first things as one crowd, with a box around all of them, and the last one."""
    found = _each(painted, circle)
    crowd, alone = found[:-1], found[-1]
    corners = np.array(painted.boxes[:-1])
    first, last = corners[:, :2].min(0), corners[:, 2:].max(0)
    box = int(first[0]), int(first[1]), int(last[0]), int(last[1])
    area = sum(each["area"] for each in crowd)
    return [_annotation(box, crowd[0]["category_id"], area, crowd=True), alone]


def _annotation(
    box: tuple[int, int, int, int], category: int, area: int, *, crowd: bool
) -> dict[str, Any]:
    x1, y1, x2, y2 = box
    return {
        "category_id": category,
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "area": area,
        "iscrowd": int(crowd),
        "segmentation": [],
    }


def _crowd(random: Random) -> Scene:
    """Draw four by three small triangles close to each other, and a thing beside them."""
    left, top = random.randint(30, 50), random.randint(40, 90)
    corners = [(left + 36 * column, top + 36 * row) for row in range(3) for column in range(4)]
    green = COLOURS["triangle"]
    small = [Thing("triangle", green, False, (x, y, x + 30, y + 30)) for x, y in corners]
    side, y = random.randint(60, 90), random.randint(40, 90)
    shape, x = random.choice(SHAPES), left + 160
    return Scene((*small, Thing(shape, COLOURS[shape], True, (x, y, x + side, y + side))))


def _png(image_HW3: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image_HW3).save(stream, "PNG", compress_level=0)  # noise doesn't get smaller
    return stream.getvalue()
