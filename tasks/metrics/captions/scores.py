"""All caption scores of one set at once, on the scale of papers.

=============  ===============================================================================
``cider_d``    CIDEr-D, document frequencies from the evaluated references: papers' "CIDEr"
``cider``      CIDEr without clipping and length penalty
``bleu1`` …    corpus BLEU-1 to BLEU-4, closest reference length
``rouge_l``    ROUGE-L, beta 1.2
``meteor``     METEOR 1.5, where Java and the extra ``java-metrics`` are there
``spice``      SPICE 1.0, likewise
=============  ===============================================================================
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from .bleu import bleu, bleu_counts
from .cider import CiderDScorer, CiderScorer
from .errors import CaptionScoreError, CaptionScoreWarning, check_pairs
from .java import LIMIT_S, JavaUnavailableError, meteor, spice
from .ptb import ptb_tokenize
from .rouge import rouge_l
from .text import cider_of_tokens

USUAL_REFERENCES = 5
NOT_ASKED = "not asked for (the Java metrics are off)"


def caption_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    java: bool = False,
    java_limit_s: float = LIMIT_S,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Score raw captions: all scores times 100, as papers print them.

    Empty or one-word hypotheses, and images with more or fewer than five references, are
    counted in a warning.

    Args:
        hypotheses: one caption for each image.
        references: for each image one or more captions.
        java: also compute METEOR and SPICE.
        java_limit_s: seconds that each of these may take.

    Returns:
        The scores, None for one that can't be had, and for each its signature (tokeniser and
        settings), or for None the reason.

    Raises:
        CaptionScoreError: no image, lists of different length, or an image without references.
    """
    check_pairs(hypotheses, references)
    if not hypotheses:
        raise CaptionScoreError("there is no caption to score; evaluate at least one image")
    given = [ptb_tokenize(caption) for caption in hypotheses]
    truth = [[ptb_tokenize(caption) for caption in captions] for captions in references]
    _warn(given, truth)

    scores: dict[str, float | None] = {}
    settings = f"tok:ptb|case:lc|images:{len(given)}|refs:{_range_of_sizes(truth)}"
    signatures: dict[str, str] = {}
    for name, scorer in (("cider_d", CiderDScorer), ("cider", CiderScorer)):
        scores[name] = 100 * float(cider_of_tokens(scorer, given, truth).mean())
        penalty = f"|clip:yes|sigma:{scorer.sigma:g}" if scorer.sigma else ""
        signatures[name] = f"{settings}|n:1-4{penalty}|df:evaluated references"
    for n, score in enumerate(bleu(bleu_counts(given, truth)), start=1):
        scores[f"bleu{n}"] = 100 * score
        signatures[f"bleu{n}"] = f"{settings}|n:1-{n}|level:corpus|length:closest"
    scores["rouge_l"] = 100 * sum(map(rouge_l, given, truth)) / len(given)
    signatures["rouge_l"] = f"{settings}|beta:1.2"

    lines = [" ".join(tokens) for tokens in given]
    others = [[" ".join(tokens) for tokens in captions if tokens] for captions in truth]
    for name, measure, version in (("meteor", meteor, "1.5|norm"), ("spice", spice, "1.0")):
        try:
            if not java:
                raise JavaUnavailableError(NOT_ASKED)
            scores[name] = 100 * measure(lines, others, java_limit_s)
            signatures[name] = f"{settings}|version:{version}"
        except JavaUnavailableError as error:
            scores[name], signatures[name] = None, str(error)
    return scores, signatures


def _range_of_sizes(references: Sequence[Sequence[object]]) -> str:
    sizes = {len(captions) for captions in references}
    return str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)}-{max(sizes)}"


def _warn(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> None:
    lengths = Counter(min(len(tokens), 2) for tokens in hypotheses)
    unusual = sum(len(captions) != USUAL_REFERENCES for captions in references)
    blank = sum(not tokens for captions in references for tokens in captions)
    found = [
        (lengths[0], "empty hypotheses, which score 0"),
        (lengths[1], "hypotheses of one word"),
        (unusual, f"images with more or fewer than {USUAL_REFERENCES} references"),
        (blank, "references without a word"),
    ]
    told = [f"{number:,} {what}" for number, what in found if number]
    if told:
        warnings.warn(
            f"among {len(hypotheses):,} scored captions: {'; '.join(told)}",
            CaptionScoreWarning,
            stacklevel=3,
        )
