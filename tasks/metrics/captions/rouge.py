"""ROUGE-L of captions, as COCO's evaluation counts it.

"ROUGE: A Package for Automatic Evaluation of Summaries" (Lin, 2004), the F score of the longest
common subsequence, recall weighed by beta = 1.2. As in the reference code, an image's best
precision and its best recall may come from different references.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

BETA = 1.2

Tokens = Sequence[str]


def rouge_l(hypothesis: Tokens, references: Sequence[Tokens]) -> float:
    """ROUGE-L of one hypothesis, 0 to 1; 0 if it or all its references have no token."""
    common = [(lcs_length(hypothesis, caption), len(caption)) for caption in references if caption]
    if not hypothesis or not common:
        return 0.0
    precision = max(length for length, _ in common) / len(hypothesis)
    recall = max(length / tokens for length, tokens in common)
    if precision == 0:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def lcs_length(one: Tokens, other: Tokens) -> int:
    """Length of the longest common subsequence.

    A row of the usual table grows by 0 or 1 from cell to cell; its steps are the zeros of one
    integer, and a whole row is computed at once ("Bit-parallel LCS-length computation revisited",
    Hyyrö, 2004).
    """
    places: defaultdict[str, int] = defaultdict(int)
    for place, token in enumerate(one):
        places[token] |= 1 << place
    mask = (1 << len(one)) - 1
    row = mask
    for token in other:
        matches = row & places[token]
        row = ((row + matches) | (row - matches)) & mask
    return len(one) - row.bit_count()
