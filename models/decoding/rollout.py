"""One output a row, symbol by symbol, without a beam: what greedy search and sampling share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .protocol import StateT, StepModel
from .rules import TokenRules

Choose = Callable[[Tensor, "Step"], tuple[Tensor, Tensor]]
"""From logits (N, V) and the step, the chosen symbols (N) and their log-probabilities (N)."""


class Step(NamedTuple):
    """Where a rollout stands.

    Attributes:
        number: symbols chosen so far.
        rows_N: the original row of each row that is still computed.
        forced_N: bool, True where only eos may follow; None if nowhere.
    """

    number: int
    rows_N: Tensor
    forced_N: Tensor | None


class Rollout(NamedTuple):
    """Outputs of all rows.

    Attributes:
        tokens_NT: chosen symbols, eos included, then padding.
        log_probabilities_NT: of the chosen symbols, 0 after eos.
        valid_NT: bool, True up to and including eos.
    """

    tokens_NT: Tensor
    log_probabilities_NT: Tensor
    valid_NT: Tensor


def rollout(
    model: StepModel[StateT],
    state: StateT,
    choose: Choose,
    rules: TokenRules,
    limits: list[int],
    width: int,
    device: torch.device,
) -> Rollout:
    """Choose symbols until every row has ended; items whose rows have all ended are dropped.

    The state has one row an item; the ``width`` rows of an item share the first step.
    """
    rows = len(limits) * width
    limit_N = torch.tensor(limits, device=device).repeat_interleave(width)
    rows_N = torch.arange(rows, device=device)
    ended_N = torch.zeros(rows, dtype=torch.bool, device=device)
    token_N = torch.full((len(limits),), rules.bos, device=device)
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    for number in range(max(limits, default=-1) + 1):
        logits_NV = model.step(token_N, state)
        if number == 0 and width > 1:
            logits_NV = logits_NV.repeat_interleave(width, 0)
            state.select(torch.arange(len(limits), device=device).repeat_interleave(width), None)
        forced_N = limit_N[rows_N] <= number if number in limits else None
        token_N, log_probability_N = choose(logits_NV, Step(number, rows_N, forced_N))
        token_N = token_N.masked_fill(ended_N, rules.filler)
        log_probability_N = log_probability_N.masked_fill(ended_N, 0.0)
        columns.append(_spread(rows, rows_N, token_N, log_probability_N, ~ended_N, rules.filler))
        ended_N = ended_N | (token_N == rules.eos)
        going_I = ~ended_N.view(-1, width).all(1)
        kept_I = going_I.nonzero().squeeze(1)
        if len(kept_I) == 0:
            break
        if len(kept_I) < len(going_I):
            kept_N = going_I.repeat_interleave(width).nonzero().squeeze(1)
            state.select(kept_N, kept_I)
            token_N, rows_N, ended_N = token_N[kept_N], rows_N[kept_N], ended_N[kept_N]
    if not columns:
        empty = torch.zeros(rows, 0, device=device)
        return Rollout(empty.long(), empty, empty.bool())
    tokens, log_probabilities, valid = zip(*columns, strict=True)
    return Rollout(*(torch.stack(parts, 1) for parts in (tokens, log_probabilities, valid)))


def _spread(
    rows: int, rows_N: Tensor, token_N: Tensor, log_probability_N: Tensor, valid_N: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One column of the result: put the rows that were computed in their original places."""
    if len(rows_N) == rows:
        return token_N, log_probability_N, valid_N
    return (
        token_N.new_full((rows,), pad).index_copy(0, rows_N, token_N),
        log_probability_N.new_zeros(rows).index_copy(0, rows_N, log_probability_N),
        valid_N.new_zeros(rows).index_copy(0, rows_N, valid_N),
    )
