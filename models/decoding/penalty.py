"""Length penalties, by name: how the scores of hypotheses of unequal length are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

LengthPenaltyName = Literal["power", "gnmt"]


@dataclass(frozen=True)
class LengthPenalty:
    """Divides the sum of log-probabilities by a function of the length |Y|.

    ``power``: ``|Y| ** alpha``, what fairseq calls ``lenpen``; alpha 0 leaves the sum as it is.
    ``gnmt``: ``((5 + |Y|) / 6) ** alpha``, Wu et al. 2016 (arXiv 1609.08144), equation 14; the
    alpha 0.6 of "Attention Is All You Need" is meant for this one.

    The length counts the end symbol, in both.

    Args:
        name: ``power`` or ``gnmt``.
        alpha: 0 prefers short hypotheses most; larger values favour longer ones.

    Raises:
        ValueError: unknown name.
    """

    name: LengthPenaltyName = "power"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        known = get_args(LengthPenaltyName)
        if self.name not in known:
            raise ValueError(
                f"no length penalty is called {self.name!r}: choose one of {', '.join(known)}"
            )

    def score(self, log_probability: float, length: int) -> float:
        """The score of a hypothesis.

        Args:
            log_probability: sum over its symbols, the end symbol included.
            length: number of symbols, the end symbol included.
        """
        base = length if self.name == "power" else (5 + length) / 6
        return log_probability / base**self.alpha

    def bound(self, log_probability: float, shortest: int, longest: int) -> float:
        """The best score that a hypothesis of these lengths can reach.

        Args:
            log_probability: what it has lost already; more symbols only lose more.
            shortest, longest: numbers of symbols, the end symbol included.
        """
        return max(self.score(log_probability, length) for length in (shortest, longest))
