"""Greedy search: the most probable symbol at every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .hypothesis import Hypothesis
from .penalty import LengthPenalty
from .protocol import DecodingError, StateT, StepModel, check_limits, device_of
from .rollout import Step, rollout
from .rules import TokenRules


@torch.no_grad()
def greedy_search(
    model: StepModel[StateT],
    state: StateT,
    *,
    items: int,
    bos: int,
    eos: int,
    pad: int | None,
    unk: int | None = None,
    max_length_I: int | Sequence[int] | Tensor,
    min_length: int = 1,
    length_penalty: LengthPenalty | None = None,
    unk_penalty: float = 0.0,
    temperature: float = 1.0,
    device: torch.device | str | None = None,
) -> list[Hypothesis]:
    """One hypothesis an item: what ``beam_search`` gives at width 1, with less work.

    Arguments and errors as there; ``state`` has one row an item. Ties go to the lower symbol.
    """
    rules = TokenRules(bos, eos, pad, unk, min_length, unk_penalty, temperature)
    limits = check_limits(max_length_I, items, min_length)
    device = device_of(model) if device is None else torch.device(device)
    penalty = length_penalty or LengthPenalty()

    def choose(logits_NV: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        scores_NV = rules.log_probabilities(logits_NV, step.number, step.forced_N)
        token_N = scores_NV.argmax(-1)
        return token_N, scores_NV.gather(1, token_N[:, None]).squeeze(1)

    output = rollout(model, state, choose, rules, limits, 1, device)
    if output.log_probabilities_NT.isfinite().logical_not().any():
        raise DecodingError(
            "the model's scores are not numbers: its weights have diverged or its input is "
            "broken; train again with a lower learning rate"
        )
    return [
        _hypothesis(tokens[:length], scores[:length], penalty)
        for tokens, scores, length in zip(
            output.tokens_NT.tolist(),
            output.log_probabilities_NT.tolist(),
            output.valid_NT.sum(1).tolist(),
            strict=True,
        )
    ]


def _hypothesis(tokens: list[int], scores: list[float], penalty: LengthPenalty) -> Hypothesis:
    return Hypothesis(tuple(tokens), penalty.score(sum(scores), len(tokens)), tuple(scores))
