"""Which symbols may come next, and at what cost: the same rules for every search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .protocol import DecodingError


@dataclass(frozen=True)
class TokenRules:
    """Special symbols and the constraints of one search.

    Attributes:
        bos: the first decoder input (fairseq's models start from their eos).
        eos: ends a hypothesis.
        pad: never chosen; None where eos is the padding as well.
        unk: the unknown word, or None.
        min_length: symbols that must come before eos.
        unk_penalty: subtracted from the log-probability of ``unk``.
        temperature: divides the logits.
    """

    bos: int
    eos: int
    pad: int | None
    unk: int | None = None
    min_length: int = 1
    unk_penalty: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise DecodingError(f"temperature must be above 0, not {self.temperature}")
        if self.unk_penalty and self.unk is None:
            raise DecodingError("unk_penalty needs the id of the unknown word: pass unk")

    @property
    def filler(self) -> int:
        """What follows eos in a row: ``pad``, or eos itself where there is none."""
        return self.eos if self.pad is None else self.pad

    def log_probabilities(
        self, logits_NV: Tensor, step: int, forced_N: Tensor | None = None
    ) -> Tensor:
        """Log-probabilities (N, V) in float32, -inf where a symbol may not be chosen.

        Padding counts in the normaliser, as in fairseq, although it is never chosen. Without
        gradient: the constraints are written in place.

        Args:
            logits_NV: from the model; left as they are.
            step: symbols chosen so far.
            forced_N: bool, True where only eos may follow.
        """
        logits_NV = logits_NV.float()
        if self.temperature != 1.0:
            logits_NV = logits_NV / self.temperature
        scores_NV = logits_NV.log_softmax(-1)
        if self.unk_penalty and self.unk is not None:
            scores_NV[:, self.unk] -= self.unk_penalty
        return self.forbid_(scores_NV, step, forced_N)

    def forbid_(self, scores_NV: Tensor, step: int, forced_N: Tensor | None = None) -> Tensor:
        """Write -inf, in place, over what may not be chosen; see ``log_probabilities``."""
        if self.pad is not None:
            scores_NV[:, self.pad] = -torch.inf
        if step < self.min_length:
            scores_NV[:, self.eos] = -torch.inf
        if forced_N is not None:
            end_N = scores_NV[:, self.eos].clone()
            scores_NV.masked_fill_(forced_N[:, None], -torch.inf)
            scores_NV[:, self.eos] = end_N
        return scores_NV
