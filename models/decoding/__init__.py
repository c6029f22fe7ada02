"""Beam search, greedy search and sampling over any model that decodes step by step."""

from .beam import beam_search
from .greedy import greedy_search
from .hypothesis import Hypothesis
from .penalty import LengthPenalty
from .protocol import DecodingError, DecodingState, StepModel
from .rollout import Rollout
from .sampling import sample

__all__ = [
    "DecodingError",
    "DecodingState",
    "Hypothesis",
    "LengthPenalty",
    "Rollout",
    "StepModel",
    "beam_search",
    "greedy_search",
    "sample",
]
