"""The procedural world of the demos: coloured shapes on a canvas. Knows no task.

Captions, questions, boxes and masks of the demo sets are all said about such scenes.

Every scene has sky along its upper edge, grass along the lower, a wall on the left and water on the
right. The relative geometry of the papers takes distances without their sign, so the boxes of two
things alone don't tell left from right; which edge they are near does.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Relation = Literal["left of", "right of", "above", "below"]

SHAPES = ("circle", "square", "triangle", "star")
COLOURS = ("red", "blue", "green", "yellow", "white")
WIDTH, HEIGHT = 320, 256
_STRIP = 20

BACKGROUND: dict[str, tuple[int, int, int, int]] = {
    "sky": (0, 0, WIDTH, _STRIP),
    "grass": (0, HEIGHT - _STRIP, WIDTH, HEIGHT),
    "wall": (0, _STRIP, _STRIP, HEIGHT - _STRIP),
    "water": (WIDTH - _STRIP, _STRIP, WIDTH, HEIGHT - _STRIP),
}
"""What is in every scene, and its box."""

OPPOSITE: dict[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
}
_SMALL, _LARGE = (20, 32), (48, 64)
_CLEAR = 1.5
_GAP = 4
_TRIES = 1000


@dataclass(frozen=True)
class Thing:
    """One shape.

    Attributes:
        shape: one of `SHAPES`.
        colour: one of `COLOURS`.
        large: whether it is of the large kind.
        box: x1, y1, x2, y2 in pixels, y downwards.
    """

    shape: str
    colour: str
    large: bool
    box: tuple[int, int, int, int]

    @property
    def size(self) -> str:
        """``small`` or ``large``."""
        return "large" if self.large else "small"

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its box."""
        x1, y1, x2, y2 = self.box
        return (x1 + x2) / 2, (y1 + y2) / 2


@dataclass(frozen=True)
class Scene:
    """Things that don't touch each other, no two of the same shape and colour, and `BACKGROUND`.

    Attributes:
        things: in no meaningful order.
        width: of the canvas in pixels.
        height: of the canvas in pixels.
    """

    things: tuple[Thing, ...]
    width: int = WIDTH
    height: int = HEIGHT


def relation(first: Thing, second: Thing) -> Relation | None:
    """Say where the first lies as seen from the second; None where two answers would do."""
    (x1, y1), (x2, y2) = first.centre, second.centre
    across, down = x1 - x2, y1 - y2
    if abs(across) > _CLEAR * abs(down):
        return "left of" if across < 0 else "right of"
    if abs(down) > _CLEAR * abs(across):
        return "above" if down < 0 else "below"
    return None


def draw_pair(random: Random) -> Scene:
    """Draw two things that face each other, across or down, on opposite sides of the middle.

    So where one of them lies already says how it lies to the other.
    """
    kinds = random.sample([(shape, colour) for shape in SHAPES for colour in COLOURS], 2)
    low, high, middle = (52, 80), (-80, -52), (-26, 26)
    places = [(low, middle), (high, middle)] if random.random() < 0.5 else [(middle, low)]
    if len(places) == 1:
        places.append((middle, high))
    random.shuffle(places)
    things: list[Thing] = []
    for (shape, colour), (across, down) in zip(kinds, places, strict=True):
        large = random.random() < 0.5
        side = random.randint(*(_LARGE if large else _SMALL))
        x, y = _place(random, across, WIDTH) - side // 2, _place(random, down, HEIGHT) - side // 2
        things.append(Thing(shape, colour, large, (x, y, x + side, y + side)))
    return Scene(tuple(things))


def _place(random: Random, span: tuple[int, int], length: int) -> int:
    """Draw a centre: positive spans count from the start, negative from the end, others around."""
    first, last = span
    start = length // 2 if first < 0 < last else length if last < 0 else 0
    return start + random.randint(first, last)


def draw_scene(random: Random, things: int = 2) -> Scene:
    """Draw a scene in which any two things stand in a clear relation.

    Args:
        random: where chance comes from.
        things: how many, up to 4.
    """
    if not 1 <= things <= 4:
        raise ValueError(f"{things} things; from 1 to 4 have room")
    kinds = random.sample([(shape, colour) for shape in SHAPES for colour in COLOURS], things)
    while True:
        placed: list[Thing] = []
        for _ in range(_TRIES):
            thing = _draw_thing(random, *kinds[len(placed)])
            if all(_apart(thing, other) and relation(thing, other) for other in placed):
                placed.append(thing)
            if len(placed) == things:
                return Scene(tuple(placed))


def _draw_thing(random: Random, shape: str, colour: str) -> Thing:
    large = random.random() < 0.5
    side = random.randint(*(_LARGE if large else _SMALL))
    x, y = (random.randint(_STRIP, length - _STRIP - side) for length in (WIDTH, HEIGHT))
    return Thing(shape, colour, large, (x, y, x + side, y + side))


def _apart(one: Thing, other: Thing) -> bool:
    a, b = one.box, other.box
    return a[2] + _GAP < b[0] or b[2] + _GAP < a[0] or a[3] + _GAP < b[1] or b[3] + _GAP < a[1]
