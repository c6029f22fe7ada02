"""The procedural world of the demos: coloured shapes on a canvas. Knows no task.

Captions, questions, boxes and masks of the demo sets are all said about such scenes.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Relation = Literal["left of", "right of", "above", "below"]

SHAPES = ("circle", "square", "triangle", "star")
COLOURS = ("red", "blue", "green", "yellow", "white")
WIDTH, HEIGHT = 320, 240

OPPOSITE: dict[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
}
_SMALL, _LARGE = (24, 40), (64, 96)
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
    """Things that don't touch each other, no two of the same shape and colour.

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
    x, y = random.randint(0, WIDTH - side), random.randint(0, HEIGHT - side)
    return Thing(shape, colour, large, (x, y, x + side, y + side))


def _apart(one: Thing, other: Thing) -> bool:
    a, b = one.box, other.box
    return a[2] + _GAP < b[0] or b[2] + _GAP < a[0] or a[3] + _GAP < b[1] or b[3] + _GAP < a[1]
