"""Learning rate schedules, as factors of the peak."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
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


def falling_factor(
    kind: Literal["poly", "linear", "cosine", "constant"],
    warmup_steps: int,
    max_steps: int,
    power: float = 0.9,
    warmup_start: float | None = None,
) -> Callable[[int], float]:
    """Factor of the peak learning rate at update ``step`` (from 0); picklable.

    After ``warmup_steps`` of linear growth, from ``warmup_start`` or one step above 0, it falls
    from 1 to 0 at ``max_steps``. ``poly`` is (1 - t)^power with t from 0 to 1 ("ParseNet", Liu et
    al. 2015), ``linear`` the same with power 1, ``cosine`` (1 + cos(pi t)) / 2 ("SGDR", Loshchilov
    and Hutter, ICLR 2017).
    """
    power = {"linear": 1.0, "constant": 0.0}.get(kind, power)
    function = _cosine if kind == "cosine" else partial(_poly, power=power)
    start = 1 / (warmup_steps + 1) if warmup_start is None else warmup_start
    return partial(_falling, fall=function, warmup=warmup_steps, start=start, last=max_steps)


def stepped_factor(
    milestones: Sequence[int], factor: float, warmup_steps: int, warmup_start: float
) -> Callable[[int], float]:
    """Factor of the peak learning rate at update ``step`` (from 0); picklable.

    From ``warmup_start`` it grows linearly to 1 at update ``warmup_steps``, and it is multiplied by
    ``factor`` at each milestone (an update), as in "Accurate, Large Minibatch SGD" (Goyal et al.
    2017).
    """
    return partial(
        _stepped,
        milestones=tuple(milestones),
        factor=factor,
        warmup=warmup_steps,
        start=warmup_start,
    )


def _stepped(
    step: int, *, milestones: tuple[int, ...], factor: float, warmup: int, start: float
) -> float:
    return _warm(step, warmup, start) * factor ** bisect_right(milestones, step)


def _falling(
    step: int, *, fall: Callable[[float], float], warmup: int, start: float, last: int
) -> float:
    if step < warmup:
        return _warm(step, warmup, start)
    return fall(min((step - warmup) / max(last - warmup, 1), 1.0))


def _warm(step: int, warmup: int, start: float) -> float:
    return start + (1 - start) * step / warmup if step < warmup else 1.0


def _poly(time: float, *, power: float) -> float:
    return (1 - time) ** power


def _cosine(time: float) -> float:
    return (1 + math.cos(math.pi * time)) / 2


def _inverse_sqrt(step: int, *, warmup: int, last: int) -> float:
    update = step + 1
    return min(update / warmup, (warmup / update) ** 0.5)


def _linear(step: int, *, warmup: int, last: int) -> float:
    update = step + 1
    return min(update / warmup, max(last - step, 0) / max(last - warmup, 1))
