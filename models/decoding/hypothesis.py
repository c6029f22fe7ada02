"""A finished output of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A finished output.

    Attributes:
        tokens: symbol ids, the end symbol last.
        score: log-probability under the length penalty; what hypotheses are sorted by.
        positional_scores: log-probability of each token (penalty for unknown words included).
    """

    tokens: tuple[int, ...]
    score: float
    positional_scores: tuple[float, ...]

    @property
    def log_probability(self) -> float:
        """Sum of the positional scores."""
        return sum(self.positional_scores)
