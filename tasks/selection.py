"""What validations have shown so far: the best weights, and whether learning has come to a halt."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

MARGIN = 1e-4
"""Share by which a loss must fall to count as better for the learning rate, as torch has it."""


@dataclass
class Selection:
    """Keeps the weights with the lowest validation loss, and lowers a rate on a plateau.

    The rule for the rate is that of ``torch.optim.lr_scheduler.ReduceLROnPlateau``. Its state
    travels in the module's checkpoints, so that a resumed run chooses as one that never stopped.

    Attributes:
        patience: validations without a better loss before the rate is lowered.
        factor: what the rate is multiplied with each time.
        keeps_weights: False leaves the weights out.
        loss: the lowest validation loss.
        step: after how many updates that was.
        weights: the weights then.
        seen: after how many updates the newest validation was.
        lowest: the loss that the next ones are compared with.
        waiting: validations since it was reached.
        drops: how often the rate was lowered.
    """

    patience: int
    factor: float
    keeps_weights: bool
    loss: float = math.inf
    step: int = -1
    weights: dict[str, Tensor] | None = None
    seen: int = -1
    lowest: float = math.inf
    waiting: int = 0
    drops: int = 0

    @property
    def rate(self) -> float:
        """What the learning rate is multiplied with now."""
        return self.factor**self.drops

    def add(self, loss: float, step: int, weights: Callable[[], dict[str, Tensor]]) -> None:
        """A validation after ``step`` updates; ``weights`` is asked only for better ones."""
        self.seen = step
        if loss < self.loss:
            self.loss, self.step = loss, step
            if self.keeps_weights:
                self.weights = {name: each.cpu().clone() for name, each in weights().items()}
        if loss < self.lowest * (1 - MARGIN) or math.isinf(self.lowest):
            self.lowest, self.waiting = loss, 0
        else:
            self.waiting += 1
        if self.waiting > self.patience:
            self.waiting, self.drops = 0, self.drops + 1

    def state(self) -> dict[str, Any]:
        """For a checkpoint: plain values and tensors."""
        names = ("loss", "step", "weights", "seen", "lowest", "waiting", "drops")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for name, value in state.items():
            setattr(self, name, value)
