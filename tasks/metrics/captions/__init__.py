"""Caption metrics in the forms that papers report, without Java but for METEOR and SPICE."""

from .cider import CiderDScorer, CiderScorer, PreparedReferences
from .errors import CaptionScoreError, CaptionScoreWarning
from .frequencies import DocumentFrequencies
from .metrics import CaptionBleu, Cider, CiderD, RougeL
from .ptb import ptb_tokenize
from .scores import caption_scores

__all__ = [
    "CaptionBleu",
    "CaptionScoreError",
    "CaptionScoreWarning",
    "Cider",
    "CiderD",
    "CiderDScorer",
    "CiderScorer",
    "DocumentFrequencies",
    "PreparedReferences",
    "RougeL",
    "caption_scores",
    "ptb_tokenize",
]
