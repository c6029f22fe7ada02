"""BLEU in the forms that translation papers report, and chrF, all through sacreBLEU.

================  ===========================================================================
``bleu``          sacreBLEU on detokenised text, tokeniser 13a: the comparable number
``bleu_tok``      on Moses tokens after BPE removal, as ``fairseq-score`` without options
``bleu_tok_split``  the same after splitting compounds at hyphens (``a-b`` becomes
                  ``a ##AT##-##AT## b``), the form behind most published WMT14 En-De numbers
``chrf``          chrF2 on detokenised text
================  ===========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

_HYPHEN = re.compile(r"(\S)-(\S)")


def split_compounds(tokens: str) -> str:
    """Split in-word hyphens, in one pass from the left.

    As the script of "Attention Is All You Need"'s authors and fairseq's do, segments of one
    letter that overlap (``a-b-c``) are split once only.
    """
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", tokens)


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    hypothesis_tokens: Sequence[str],
    reference_tokens: Sequence[str],
) -> tuple[dict[str, float], dict[str, str]]:
    """Corpus scores from 0 to 100 and the sacreBLEU signature of each.

    Args:
        hypotheses, references: detokenised text, one sentence each, in the same order.
        hypothesis_tokens, reference_tokens: the same as Moses tokens without BPE marks.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    lengths = {
        len(hypotheses), len(references), len(hypothesis_tokens), len(reference_tokens)
    }  # fmt: skip
    if len(lengths) != 1 or not hypotheses:
        raise ValueError(
            f"scoring needs as many hypotheses as references and at least one, not "
            f"{len(hypotheses)} and {len(references)}: check that every line was translated"
        )
    split_hypotheses = [split_compounds(line) for line in hypothesis_tokens]
    split_references = [split_compounds(line) for line in reference_tokens]
    measures = {
        "bleu": (BLEU(), hypotheses, references),
        # `force`: sacreBLEU would warn that the text is tokenised, which here it is on purpose.
        "bleu_tok": (BLEU(tokenize="none", force=True), hypothesis_tokens, reference_tokens),
        "bleu_tok_split": (
            BLEU(tokenize="none", force=True), split_hypotheses, split_references
        ),
        "chrf": (CHRF(), hypotheses, references),
    }  # fmt: skip
    scores: dict[str, float] = {}
    signatures: dict[str, str] = {}
    for name, (measure, given, truth) in measures.items():
        scores[name] = float(measure.corpus_score(list(given), [list(truth)]).score)
        signatures[name] = str(measure.get_signature())
    return scores, signatures
