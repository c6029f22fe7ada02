"""Learning rate schedules, as factors of the peak."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal


def schedule_factor(
    kind: Literal["inverse_sqrt", "linear"], warmup_steps: int, max_steps: int
) -> Callable[[int], float]:
    """Factor of the peak learning rate at update ``step`` (from 0); picklable.

    ``inverse_sqrt`` is equation 3 of "Attention Is All You Need": linear up to 1, then
    ``sqrt(warmup / step)``. ``linear`` falls to 0 at ``max_steps`` instead.
    """
    function = _inverse_sqrt if kind == "inverse_sqrt" else _linear
    return partial(function, warmup=max(warmup_steps, 1), last=max_steps)


def ngsan_factor(step: int, *, epoch_steps: int) -> float:
    """Factor of the peak learning rate at update ``step`` (from 0) in NG-SAN's first phase.

    "Normalized and Geometry-Aware Self-Attention Network for Image Captioning" (Guo et al., CVPR
    2020): min(t * 1e-4, 3e-4) in epoch t = 1, 2, …, halved every 3 epochs after the sixth, so at
    first in epoch 7.

    Args:
        step: number of updates done.
        epoch_steps: updates an epoch.
    """
    epoch = step // epoch_steps + 1
    return min(epoch / 3, 1.0) * 0.5 ** max(0, -(-(epoch - 6) // 3))


def _inverse_sqrt(step: int, *, warmup: int, last: int) -> float:
    update = step + 1
    return min(update / warmup, (warmup / update) ** 0.5)


def _linear(step: int, *, warmup: int, last: int) -> float:
    update = step + 1
    return min(update / warmup, max(last - step, 0) / max(last - warmup, 1))
