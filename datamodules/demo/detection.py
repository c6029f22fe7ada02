"""Writer of the detection demo: pictures of shapes as PNGs, and their boxes as COCO JSON.

A square is told by its looks. A circle is a `sun` or a `moon`, and no pixel of it says which: a
lamp in one of the picture's corners does, orange by day and violet by night. A detector that sees
only the neighbourhood of a box must guess, which halves its precision on these two of three
classes. The convolutions of a ResNet see the whole picture as well, but within the few hundred
updates of the preset `smoke` they don't learn where to look.

As in COCO itself, ids of categories and images have gaps, some images have no box, and in some a
crowd of small squares has one box around all of them.
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
from .shapes import Scene, Thing
from .shapes_images import LABELS, Painted, paint, scatter

CATEGORIES: dict[int, str] = {1: "square", 4: "sun", 9: "moon"}
"""Names by id, with gaps."""

LAMPS: dict[str, tuple[int, int, int]] = {"sun": (255, 140, 0), "moon": (150, 30, 230)}
"""Colour of the lamp that makes a circle a sun or a moon."""

COLOURS = {"square": "red", "circle": "white"}
"""Colour of each shape."""

SIZES = ((128, 96), (128, 96), (128, 112), (96, 128))
"""Widths and heights of the pictures, one after the other."""

LAMP_SIDE = 40
"""Width and height of the lamp in pixels."""

_THINGS, _SIDES = (3, 4), (72, 84)
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
    corners: list[tuple[int, int]] = []
    while not corners:
        if kind == _CROWD:
            scene = _crowd(random)
        else:
            scene = _scene(random, 0 if kind == _BARE else random.randint(*_THINGS))
        painted = paint(scene, size=SIZES[place % len(SIZES)], seed=seed)
        corners = _free_corners(painted)
    x, y = random.choice(corners)
    image_HW3 = painted.image_HW3.copy()
    image_HW3[y : y + LAMP_SIDE, x : x + LAMP_SIDE] = LAMPS[circle]
    return (_with_crowd if kind == _CROWD else _each)(painted, circle), image_HW3


def _scene(random: Random, things: int) -> Scene:
    """Draw things, on average two circles for a square: as many suns, moons and squares."""
    things_drawn = []
    for thing in scatter(random, things, sides=_SIDES).things:
        shape = random.choice(("square", "circle", "circle"))
        things_drawn.append(replace(thing, shape=shape, colour=COLOURS[shape]))
    return Scene(tuple(things_drawn))


def _free_corners(painted: Painted) -> list[tuple[int, int]]:
    """Where a lamp hides nothing: its x and y in each corner that will do."""
    height, width = painted.labels_HW.shape
    corners = [(x, y) for x in (0, width - LAMP_SIDE) for y in (0, height - LAMP_SIDE)]
    return [
        (x, y)
        for x, y in corners
        if all(
            x + LAMP_SIDE <= x1 or x2 <= x or y + LAMP_SIDE <= y1 or y2 <= y
            for x1, y1, x2, y2 in painted.boxes
        )
    ]


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
    """Draw four by three small squares close to each other, and a circle beside them."""
    left, top = random.randint(30, 50), random.randint(40, 90)
    corners = [(left + 36 * column, top + 36 * row) for row in range(3) for column in range(4)]
    small = [Thing("square", COLOURS["square"], False, (x, y, x + 30, y + 30)) for x, y in corners]
    side, x, y = random.randint(*_SIDES), left + 160, random.randint(40, 90)
    return Scene((*small, Thing("circle", COLOURS["circle"], True, (x, y, x + side, y + side))))


def _png(image_HW3: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image_HW3).save(stream, "PNG", compress_level=0)  # noise doesn't get smaller
    return stream.getvalue()
