"""Beam search over any ``StepModel``, vectorised over items and beams.

The rules are those of fairseq's generator, so that equal weights give equal hypotheses: every
step looks at the best ``2 * width`` continuations of an item; one that ends counts only among
the first ``width``; the best ``width`` that don't end go on; an item is finished once it has
``width`` hypotheses, or at its length limit, where the end is forced. Unlike there, the limit
belongs to the item, not to the batch, and ties are broken (higher score, then lower beam, then
lower symbol id), so that the other sentences of a batch never change a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from .hypothesis import Hypothesis
from .penalty import LengthPenalty
from .protocol import DecodingError, StateT, StepModel, check_limits, device_of
from .rules import TokenRules
from .topk import top_k


@torch.no_grad()
def beam_search(
    model: StepModel[StateT],
    state: StateT,
    *,
    items: int,
    width: int,
    bos: int,
    eos: int,
    pad: int | None,
    unk: int | None = None,
    max_length_I: int | Sequence[int] | Tensor,
    min_length: int = 1,
    length_penalty: LengthPenalty | None = None,
    unk_penalty: float = 0.0,
    temperature: float = 1.0,
    n_best: int = 1,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each item, best first.

    Args:
        model: in evaluation mode.
        state: of one row an item, before the first step; used up. The beams part after it.
        items: number of items I.
        width: number of beams W.
        bos: first decoder input (a fairseq model starts from its eos).
        eos: ends a hypothesis.
        pad: never chosen; None where eos is the padding as well.
        unk: the unknown word, for ``unk_penalty``.
        max_length_I: most symbols before eos, one an item or one for all.
        min_length: fewest symbols before eos.
        length_penalty: default: the mean log-probability (``power``, alpha 1).
        unk_penalty: subtracted from the log-probability of ``unk``.
        temperature: divides the logits.
        n_best: hypotheses to return of each item, at most W; fewer if there are no more.
        device: of the model's inputs; default: of its first parameter.

    Raises:
        DecodingError: arguments out of range, or scores of the model that are no numbers.
    """
    if not 1 <= n_best <= width:
        raise DecodingError(f"n_best must lie between 1 and the beam width {width}, not {n_best}")
    rules = TokenRules(bos, eos, pad, unk, min_length, unk_penalty, temperature)
    limits = check_limits(max_length_I, items, min_length)
    # A reward for unknown words would break the bound that lets an item stop early.
    settle = n_best if unk_penalty >= 0 else width
    beams = _Beams(limits, width, settle, eos, length_penalty or LengthPenalty())
    device = device_of(model) if device is None else torch.device(device)
    token_N = torch.full((items,), bos, device=device)
    while len(beams.item_A):
        logits_NV = model.step(token_N, state)
        forced = beams.forced_rows()
        forced_N = None if forced is None else torch.from_numpy(forced).to(device)
        scores_NV = rules.log_probabilities(logits_NV, beams.step, forced_N)
        move = beams.advance(_candidates(scores_NV, beams.total_AB, width))
        if move.rows is not None and len(move.rows):
            items_I = None if move.items is None else torch.from_numpy(move.items).to(device)
            state.select(torch.from_numpy(move.rows).to(device), items_I)
        token_N = torch.from_numpy(move.tokens).to(device)
    return [found[:n_best] for found in beams.hypotheses()]


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each active item, best first; arrays (A, C) on the host."""

    total: np.ndarray
    beam: np.ndarray
    token: np.ndarray


@dataclass(frozen=True)
class _Move:
    """What goes on: next tokens; rows and items to keep, None where nothing changes."""

    tokens: np.ndarray
    rows: np.ndarray | None
    items: np.ndarray | None


def _candidates(scores_NV: Tensor, total_AB: np.ndarray, width: int) -> _Candidates:
    """The best 2 W continuations of the beams B of each item, in one transfer to the host.

    Ties go to the lower beam, then to the lower symbol. There are W at least: where the
    vocabulary is too small, impossible ones are added.
    """
    beams, vocabulary = total_AB.shape[1], scores_NV.shape[1]
    total_N = torch.from_numpy(total_AB).to(scores_NV.device).view(-1)
    best_AC, place_AC = top_k(scores_NV, min(2 * width, beams * vocabulary), total_N, beams)
    packed = torch.stack([best_AC.view(torch.int32), place_AC.int()]).cpu().numpy()
    total, place = packed[0].view(np.float32), packed[1].astype(np.int64)
    lacking = ((0, 0), (0, max(0, width - total.shape[1])))
    total = np.pad(total, lacking, constant_values=-np.inf)
    place = np.pad(place, lacking)
    return _Candidates(total, place // vocabulary, place % vocabulary)


class _Beams:
    """Bookkeeping of the search on the host: arrays of the active items A, W beams each.

    What the model computes has B rows an item: 1 in the first step, then W.
    """

    def __init__(
        self, limits: list[int], width: int, n_best: int, eos: int, penalty: LengthPenalty
    ) -> None:
        items, longest = len(limits), max(limits, default=0) + 1
        self.width = width
        self.n_best = n_best
        self.eos = eos
        self.penalty = penalty
        self.step = 0
        self.item_A = np.arange(items)
        self.limit_A = np.array(limits, dtype=np.int64)
        self.count_A = np.zeros(items, dtype=np.int64)
        # All beams of an item are alike at first: there is one, B = 1, then B = W.
        self.total_AB = np.zeros((items, 1), dtype=np.float32)
        self.token_AWT = np.zeros((items, width, longest), dtype=np.int64)
        self.cumulative_AWT = np.zeros((items, width, longest), dtype=np.float32)
        self.found: list[list[Hypothesis]] = [[] for _ in range(items)]

    def forced_rows(self) -> np.ndarray | None:
        """True for the rows of items at their length limit; None if there are none."""
        forced_A = self.limit_A == self.step
        return np.repeat(forced_A, self.total_AB.shape[1]) if forced_A.any() else None

    def advance(self, best: _Candidates) -> _Move:
        """Take in the candidates of one step."""
        if np.isnan(best.total[:, 0]).any():
            raise DecodingError(
                f"the model's scores are not numbers at step {self.step}: its weights have "
                "diverged or its input is broken; train again with a lower learning rate"
            )
        ends_AC = (best.token == self.eos) & np.isfinite(best.total)
        self._finish(best, ends_AC[:, : self.width])
        column_AW = np.argsort(ends_AC, axis=1, kind="stable")[:, : self.width]
        total_AW, beam_AW, token_AW, ended_AW = (
            np.take_along_axis(array, column_AW, 1)
            for array in (best.total, best.beam, best.token, ends_AC)
        )
        total_AW[ended_AW] = -np.inf
        alive_A = (self.count_A < self.width) & (self.limit_A > self.step)
        alive_A &= np.isfinite(total_AW[:, 0])
        self._settle(alive_A, total_AW[:, 0])
        kept = np.flatnonzero(alive_A)
        computed = self.total_AB.shape[1]
        rows = self._keep(kept, total_AW[kept], beam_AW[kept], token_AW[kept])
        dropped = len(kept) < len(best.total)
        if not dropped and np.array_equal(rows, np.arange(computed * len(kept))):
            rows = None
        return _Move(
            self.token_AWT[:, :, self.step - 1].reshape(-1), rows, kept if dropped else None
        )

    def _finish(self, best: _Candidates, ends_AW: np.ndarray) -> None:
        """Store the hypotheses that end in this step, as many as an item still lacks."""
        if not ends_AW.any():
            return
        accepted_AW = ends_AW & (ends_AW.cumsum(1) + self.count_A[:, None] <= self.width)
        self.count_A += accepted_AW.sum(1)
        for row, column in zip(*accepted_AW.nonzero(), strict=True):
            beam, total = best.beam[row, column], float(best.total[row, column])
            cumulative = [0.0, *self.cumulative_AWT[row, beam, : self.step].tolist(), total]
            hypothesis = Hypothesis(
                (*self.token_AWT[row, beam, : self.step].tolist(), self.eos),
                self.penalty.score(total, self.step + 1),
                tuple(later - former for former, later in pairwise(cumulative)),
            )
            self.found[self.item_A[row]].append(hypothesis)

    def _settle(self, alive_A: np.ndarray, best_A: np.ndarray) -> None:
        """Stop the items whose best beam can't reach their ``n_best`` hypotheses any more."""
        for row in np.flatnonzero(alive_A & (self.count_A >= self.n_best)):
            scores = sorted(one.score for one in self.found[self.item_A[row]])
            bound = self.penalty.bound(best_A[row], self.step + 2, self.limit_A[row] + 1)
            alive_A[row] = bound > scores[-self.n_best]

    def _keep(
        self, kept: np.ndarray, total_AW: np.ndarray, beam_AW: np.ndarray, token_AW: np.ndarray
    ) -> np.ndarray:
        """Go on with the items ``kept`` and the chosen beams; return their former rows."""
        rows = kept[:, None] * self.total_AB.shape[1] + beam_AW
        self.token_AWT = _reordered(self.token_AWT, rows, self.step)
        self.cumulative_AWT = _reordered(self.cumulative_AWT, rows, self.step)
        self.token_AWT[:, :, self.step] = token_AW
        self.cumulative_AWT[:, :, self.step] = total_AW
        self.total_AB = total_AW
        self.item_A, self.limit_A = self.item_A[kept], self.limit_A[kept]
        self.count_A = self.count_A[kept]
        self.step += 1
        return rows.reshape(-1)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """What was found for each item, best first; of equal scores the one found first."""
        for item, found in enumerate(self.found):
            if not found:
                raise DecodingError(
                    f"no hypothesis of item {item} can end: the model gives the end symbol "
                    f"{self.eos} a probability of 0"
                )
        return [sorted(found, key=lambda one: -one.score) for found in self.found]


def _reordered(history_AWT: np.ndarray, rows_AW: np.ndarray, step: int) -> np.ndarray:
    """The first ``step`` entries of the rows ``rows_AW``, in the same memory where it fits."""
    chosen = history_AWT.reshape(-1, history_AWT.shape[-1])[rows_AW, :step]
    history_AWT = history_AWT[: len(rows_AW)]
    history_AWT[:, :, :step] = chosen
    return history_AWT
