"""What is said about a scene of shapes, and reading it back from a sentence."""

from __future__ import annotations

import re
from random import Random

from .shapes import OPPOSITE, Relation, Scene, Thing, relation

Claim = tuple[str, Relation, str]
"""Name of a thing, relation, name of the other, such as ``red circle``, ``above``, …"""

_SENTENCE = re.compile(
    r"\ba (?:(?:small|large) )?(\w+ \w+) (?:is )?(?:to the )?(left of|right of|above|below) "
    r"a (?:(?:small|large) )?(\w+ \w+)"
)
_WORDS = {"left of": "to the left of", "right of": "to the right of"}


def describe(scene: Scene, random: Random, captions: int = 5) -> list[str]:
    """Give captions about two things of a scene and how they lie to each other.

    Both things come first equally often.
    """
    texts: list[str] = []
    for number in range(captions):
        first, second = random.sample(scene.things, 2)
        if number == 1:  # the same pair the other way round
            first, second = _last(texts[0], scene)
        found = relation(first, second)
        assert found is not None, "scenes have clear relations only"
        texts.append(_sentence(first, found, second, longer=number % 3 == 2))
    return texts


def _sentence(first: Thing, found: Relation, second: Thing, longer: bool) -> str:
    if longer:
        return f"There is {_name(first)} {_WORDS.get(found, found)} {_name(second)}."
    return f"{_name(first).capitalize()} {found} {_name(second)}."


def _last(text: str, scene: Scene) -> tuple[Thing, Thing]:
    claim = read_claim(text)
    assert claim is not None
    by_name = {f"{thing.colour} {thing.shape}": thing for thing in scene.things}
    return by_name[claim[2]], by_name[claim[0]]


def _name(thing: Thing) -> str:
    return f"a {thing.size} {thing.colour} {thing.shape}"


def read_claim(caption: str) -> Claim | None:
    """Give what a caption says about two things' places, sizes aside; None if it says nothing."""
    found = _SENTENCE.search(caption.lower())
    if found is None:
        return None
    return found[1], found[2], found[3]  # pyright: ignore[reportReturnType]


def claims(references: list[str]) -> set[Claim]:
    """Give all that is true by an image's captions: what they say, and the same turned round."""
    said = {claim for text in references if (claim := read_claim(text)) is not None}
    turned: set[Claim] = {(second, OPPOSITE[found], first) for first, found, second in said}
    return said | turned
