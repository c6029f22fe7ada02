"""Pictures of the demos' world: an RGB image, a class for each pixel and a box for each shape.

Plain numpy on purpose: the same scene and seed give the same bytes whatever the size of the canvas
and wherever it is painted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from .shapes import BACKGROUND, COLOURS, HEIGHT, SHAPES, WIDTH, Scene, Thing

LABELS: tuple[str, ...] = ("ground", *BACKGROUND, *SHAPES)
"""What a pixel can show, by the number it has in `Painted.labels_HW`."""

PAINT: dict[str, tuple[int, int, int]] = {
    "ground": (128, 120, 112),
    "sky": (140, 180, 220),
    "grass": (90, 140, 60),
    "wall": (150, 90, 70),
    "water": (50, 90, 130),
    "red": (205, 45, 45),
    "blue": (45, 70, 210),
    "green": (40, 190, 70),
    "yellow": (225, 205, 50),
    "white": (235, 235, 235),
}
"""Mean red, green and blue of the backgrounds and of the shapes' colours."""

_EDGE, _GAP, _TRIES = 22, 6, 200
_SHADE, _NOISE = 0.2, 9.0


@dataclass(frozen=True)
class Painted:
    """A picture and the truth about it.

    Attributes:
        image_HW3: red, green and blue, uint8.
        labels_HW: number of each pixel's class in `LABELS`, uint8.
        boxes: x1, y1, x2, y2 of each shape that can be seen, tight around its visible pixels; the
            second corner is the first one outside.
        shapes: their names, one of `SHAPES` each, in the order of the scene's things.
    """

    image_HW3: np.ndarray
    labels_HW: np.ndarray
    boxes: tuple[tuple[int, int, int, int], ...]
    shapes: tuple[str, ...]


def paint(
    scene: Scene,
    *,
    size: tuple[int, int] | None = None,
    seed: int,
    looks: Mapping[str, tuple[int, int, int]] = PAINT,
) -> Painted:
    """Paint a scene: light falls off across the picture, and each pixel has noise of its own.

    Args:
        scene: what to paint; later things lie on earlier ones.
        size: width and height of the canvas in pixels, onto which the scene is stretched; None:
            the scene's own.
        seed: seed of light and noise.
        looks: colour of each background and each shape's colour.
    """
    width, height = size or (scene.width, scene.height)
    if min(width, height) < 1:
        raise ValueError(f"a canvas of {width}x{height}; both must be at least 1")
    labels_HW = np.zeros((height, width), np.uint8)
    colours_HW3 = np.full((height, width, 3), looks["ground"], np.float64)
    for name, box in BACKGROUND.items():
        x1, y1, x2, y2 = _stretched(box, (WIDTH, HEIGHT), (width, height))
        labels_HW[y1:y2, x1:x2] = LABELS.index(name)
        colours_HW3[y1:y2, x1:x2] = looks[name]
    owner_HW = np.full((height, width), -1)
    for number, thing in enumerate(scene.things):
        x1, y1, x2, y2 = _stretched(thing.box, (scene.width, scene.height), (width, height))
        mask = _mask(thing.shape, y2 - y1, x2 - x1)
        labels_HW[y1:y2, x1:x2][mask] = LABELS.index(thing.shape)
        colours_HW3[y1:y2, x1:x2][mask] = looks[thing.colour]
        owner_HW[y1:y2, x1:x2][mask] = number
    seen = [number for number in range(len(scene.things)) if (owner_HW == number).any()]
    return Painted(
        image_HW3=_lit(colours_HW3, np.random.default_rng(seed)),
        labels_HW=labels_HW,
        boxes=tuple(_tight(owner_HW == number) for number in seen),
        shapes=tuple(scene.things[number].shape for number in seen),
    )


def scatter(random: Random, things: int, *, sides: tuple[int, int] = (40, 80)) -> Scene:
    """Draw a scene of up to ten things that don't touch, for pictures: no relation is asked for.

    Args:
        random: where chance comes from.
        things: how many; fewer are placed where no room is left.
        sides: smallest and largest side of a thing, in pixels of a canvas of 320x256.
    """
    if not 0 <= things <= 10:
        raise ValueError(f"{things} things; from 0 to 10 have room")
    kinds = random.sample([(shape, colour) for shape in SHAPES for colour in COLOURS], things)
    placed: list[Thing] = []
    for shape, colour in kinds:
        for _ in range(_TRIES):
            side = random.randint(*sides)
            x = random.randint(_EDGE, WIDTH - _EDGE - side)
            y = random.randint(_EDGE, HEIGHT - _EDGE - side)
            large = side > sum(sides) / 2
            thing = Thing(shape, colour, large, (x, y, x + side, y + side))
            if all(_apart(thing.box, other.box) for other in placed):
                placed.append(thing)
                break
    return Scene(tuple(placed))


def _apart(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return a[2] + _GAP < b[0] or b[2] + _GAP < a[0] or a[3] + _GAP < b[1] or b[3] + _GAP < a[1]


def _stretched(
    box: tuple[int, int, int, int], old: tuple[int, int], new: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Move a box from one canvas to another; it keeps at least a pixel, inside of the canvas."""
    corners = []
    for first, last, before, after in zip(box[:2], box[2:], old, new, strict=True):
        start = min(max(round(first * after / before), 0), after - 1)
        corners.append((start, min(max(round(last * after / before), start + 1), after)))
    (x1, x2), (y1, y2) = corners
    return x1, y1, x2, y2


def _mask(shape: str, height: int, width: int) -> np.ndarray:
    """Give the pixels of a shape that fills its box, as bool (height, width)."""
    # Middles of the pixels, from -1 to 1 across the box; y points up.
    x_W = (2 * np.arange(width) + 1) / width - 1
    y_H1 = 1 - (2 * np.arange(height)[:, None] + 1) / height
    if shape == "square":
        mask = np.ones((height, width), bool)
    elif shape == "circle":
        mask = x_W**2 + y_H1**2 <= 1
    elif shape == "triangle":
        mask = np.abs(x_W) <= (1 - y_H1) / 2
    else:  # a star of four rays, whose edges bend inwards
        mask = np.sqrt(np.abs(x_W)) + np.sqrt(np.abs(y_H1)) <= 1.15
    if not mask.any():  # a box of a pixel or two
        mask[height // 2, width // 2] = True
    return mask


def _lit(colours_HW3: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Add light that falls off in a random direction, and noise."""
    height, width = colours_HW3.shape[:2]
    angle, level = random.uniform(0, 2 * np.pi), random.uniform(0.85, 1.1)
    slope_HW = np.cos(angle) * np.linspace(-1, 1, width) + np.sin(angle) * np.linspace(
        -1, 1, height
    ).reshape(-1, 1)
    light_HW1 = (level + _SHADE / 2 * slope_HW)[..., None]
    noise_HW3 = random.normal(scale=_NOISE, size=colours_HW3.shape)
    return np.clip(np.rint(colours_HW3 * light_HW1 + noise_HW3), 0, 255).astype(np.uint8)


def _tight(mask_HW: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask_HW.any(1)), np.flatnonzero(mask_HW.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
