"""Sampling from the model: temperature, top-k, top-p, and one random stream an item."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .protocol import DecodingError, StateT, StepModel, check_limits, device_of
from .rollout import Rollout, Step, rollout
from .rules import TokenRules
from .topk import top_k as best


def sample(
    model: StepModel[StateT],
    state: StateT,
    *,
    items: int,
    width: int = 1,
    seed_I: Sequence[int],
    bos: int,
    eos: int,
    pad: int | None,
    max_length_I: int | Sequence[int] | Tensor,
    min_length: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    device: torch.device | str | None = None,
) -> Rollout:
    """Draw ``width`` outputs of each item.

    The log-probabilities are those of the distribution that was drawn from: after temperature,
    truncation and the constraints, renormalised (an eos that the length limit forces has
    log-probability 0). Where gradients are enabled they carry them, for policy gradients; call
    it under ``torch.no_grad()`` otherwise.

    Args:
        model: in evaluation mode.
        state: of one row an item, before the first step; used up.
        items: number of items I.
        width: samples an item.
        seed_I: one seed an item. An item's samples depend on its seed and its own length limit,
            not on the other items of the batch.
        bos, eos, pad: special symbols, as in ``beam_search``.
        max_length_I: most symbols before eos, one an item or one for all.
        min_length: fewest symbols before eos.
        temperature: divides the logits.
        top_k: draw among the k most probable symbols only; 0 for all.
        top_p: draw among the most probable symbols that reach this probability together.
        device: of the model's inputs; default: of its first parameter.

    Returns:
        A ``Rollout`` of ``items * width`` rows, item-major.

    Raises:
        DecodingError: arguments out of range, or scores of the model that are no numbers.
    """
    if top_k < 0 or not 0 < top_p <= 1 or width < 1:
        raise DecodingError(
            f"top_k must be 0 or more, top_p in (0, 1] and width 1 or more; got top_k={top_k}, "
            f"top_p={top_p}, width={width}"
        )
    if len(seed_I) != items:
        raise DecodingError(f"seed_I has {len(seed_I)} entries for {items} items: give one each")
    rules = TokenRules(bos, eos, pad, min_length=min_length, temperature=temperature)
    limits = check_limits(max_length_I, items, min_length)
    device = device_of(model) if device is None else torch.device(device)
    uniform_NT = _uniform(seed_I, limits, width).to(device)

    def choose(logits_NV: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        logits_NV = rules.forbid_(logits_NV.float() / temperature, step.number, step.forced_N)
        scores_NV = _truncate(logits_NV, top_k, top_p).log_softmax(-1)
        token_N = _draw(scores_NV.detach().exp(), uniform_NT[step.rows_N, step.number])
        return token_N, scores_NV.gather(1, token_N[:, None]).squeeze(1)

    output = rollout(model, state, choose, rules, limits, width, device)
    if output.log_probabilities_NT.isfinite().logical_not().any():
        raise DecodingError(
            "the model's scores are not numbers: its weights have diverged or its input is "
            "broken; train again with a lower learning rate"
        )
    return output


def _uniform(seed_I: Sequence[int], limits: list[int], width: int) -> Tensor:
    """One number in [0, 1) a row and step, (N, T), from the CPU generator of each item.

    Drawn with the item's own limit, so that a longer item in the batch changes nothing; below
    1 by more than a rounding error, so that no draw falls beyond the last symbol.
    """
    uniform_IWT = torch.zeros(len(limits), width, max(limits, default=0) + 1)
    for item, (seed, limit) in enumerate(zip(seed_I, limits, strict=True)):
        generator = torch.Generator().manual_seed(seed)
        uniform_IWT[item, :, : limit + 1] = torch.rand(limit + 1, width, generator=generator).T
    return uniform_IWT.clamp(max=1 - 2**-23).flatten(0, 1)


def _truncate(logits_NV: Tensor, top_k: int, top_p: float) -> Tensor:
    """-inf outside the ``top_k`` best and the smallest set of best that reaches ``top_p``."""
    if 0 < top_k < logits_NV.shape[1]:
        _, index_Nk = best(logits_NV.detach(), top_k)
        outside_NV = torch.ones_like(logits_NV, dtype=torch.bool).scatter(1, index_Nk, False)
        logits_NV = logits_NV.masked_fill(outside_NV, -torch.inf)
    if top_p < 1:
        sorted_NV, index_NV = logits_NV.detach().sort(dim=1, descending=True, stable=True)
        probability_NV = sorted_NV.softmax(-1)
        before_NV = probability_NV.cumsum(-1) - probability_NV
        outside_NV = torch.empty_like(before_NV, dtype=torch.bool)
        outside_NV = outside_NV.scatter(1, index_NV, before_NV >= top_p)
        logits_NV = logits_NV.masked_fill(outside_NV, -torch.inf)
    return logits_NV


def _draw(probability_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """The symbol where the cumulative probability passes the uniform number; never one of 0."""
    cumulative_NV = probability_NV.cumsum(-1)
    threshold_N1 = (uniform_N * cumulative_NV[:, -1])[:, None]
    index_N1 = torch.searchsorted(cumulative_NV, threshold_N1, right=True)
    index_N1 = index_N1.clamp(max=probability_NV.shape[1] - 1)
    # A parallel sum need not be monotone to the last bit.
    impossible_N1 = probability_NV.gather(1, index_N1) == 0
    return torch.where(impossible_N1, probability_NV.argmax(-1, keepdim=True), index_N1).squeeze(1)
