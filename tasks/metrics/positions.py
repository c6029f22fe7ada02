"""How often captions of the demo world say truly where two things lie."""

from __future__ import annotations

from collections.abc import Sequence

from ...datamodules.demo.shapes_captions import claims, read_claim


def position_accuracy(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percentage of images whose caption names both things and says truly how they lie.

    True is what a reference says, and the same turned round: a circle left of a square is also a
    square right of a circle. Captions that claim nothing are wrong.

    Args:
        hypotheses: a caption for each image.
        references: all captions of each image, as they were written.
    """
    right = [
        read_claim(said) in claims([*captions])
        for said, captions in zip(hypotheses, references, strict=True)
    ]
    return 100 * sum(right) / max(len(right), 1)
