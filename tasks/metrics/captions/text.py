"""CIDEr of tokenised text: words get ids on the fly."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from .cider import CiderScorer, Floats
from .errors import CaptionScoreWarning
from .frequencies import DocumentFrequencies

Tokens = Sequence[str]

ONE_IMAGE = (
    "CIDEr of one image is 0 whatever the caption, since an n-gram that every image has weighs "
    "nothing; evaluate more images"
)


def cider_of_tokens(
    scorer: type[CiderScorer],
    hypotheses: Sequence[Tokens],
    references: Sequence[Sequence[Tokens]],
    corpus: Sequence[Sequence[Tokens]] | None = None,
) -> Floats:
    """One score a hypothesis, on the reference code's scale (10 is the most).

    Args:
        scorer: `CiderScorer` or `CiderDScorer`.
        hypotheses: one for each image.
        references: the captions of each image.
        corpus: the captions of the images that document frequencies are counted over; None for
            the references themselves, as published scores do.

    Raises:
        CaptionScoreError: no image, or an image without a reference.
    """
    words: dict[str, int] = {}

    def ids(tokens: Iterable[str]) -> list[int]:
        return [words.setdefault(token, len(words)) for token in tokens]

    numbered = [[ids(caption) for caption in captions] for captions in references]
    counted = numbered
    if corpus is not None:
        counted = [[ids(caption) for caption in captions] for captions in corpus]
    frequencies = DocumentFrequencies.count(counted)
    if frequencies.documents == 1:
        warnings.warn(
            f"{ONE_IMAGE} or give the corpus to count over",
            CaptionScoreWarning,
            stacklevel=3,
        )
    measure = scorer(frequencies)
    return measure.score([ids(tokens) for tokens in hypotheses], measure.prepare(numbered))
