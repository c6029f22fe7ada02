"""What caption scoring refuses, and what it only warns of."""

from __future__ import annotations

from collections.abc import Sequence


class CaptionScoreError(ValueError):
    """Captions that can't be scored, or document frequencies that can't be used."""


class CaptionScoreWarning(UserWarning):
    """Captions that are scored, but hardly as the user means it."""


def check_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse lists of different length and images without references.

    Raises:
        CaptionScoreError: with the place of the first image at fault.
    """
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise CaptionScoreError(
            "captions are scored as a list of hypotheses and a list of lists of references, "
            "not as one string"
        )
    if len(hypotheses) != len(references):
        raise CaptionScoreError(
            f"caption scoring got {len(hypotheses)} hypotheses but references of "
            f"{len(references)} images; give one hypothesis for every image"
        )
    for place, captions in enumerate(references):
        if isinstance(captions, str):
            raise CaptionScoreError(
                f"the references of image number {place} (from 0) are one string; give a list of "
                "captions"
            )
        if not captions:
            raise CaptionScoreError(
                f"image number {place} (from 0) has no reference caption; leave it out of the "
                "evaluated split"
            )
