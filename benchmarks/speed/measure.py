"""Measuring two sides in turns, and the peak memory of one side in a process of its own."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import torch

from ..peak import peak_bytes, reset_peak

Result = TypeVar("Result")

SMALL_BLOCK = 2**16
"""Bytes from which a block is given back in a tidy process."""

UNITS: dict[str, tuple[float, str]] = {"s": (1e3, "ms"), "bytes": (2.0**-20, "MiB")}
"""How a unit is shown: what to multiply by, and the name."""


@dataclass(frozen=True)
class Comparison:
    """One quantity measured on both sides in turns.

    Attributes:
        what: what was measured, as a row's title.
        unit: ``s`` and ``bytes`` are better when lower, any other unit (a rate) when higher.
        ours, theirs: one value a turn.
        target: the ratio to reach, or None.
        note: what else a reader must know.
    """

    what: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    target: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times better our median is."""
        return self._better(median(self.ours), median(self.theirs))

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of one turn."""
        pairs = zip(self.ours, self.theirs, strict=True)
        ratios = [self._better(ours, theirs) for ours, theirs in pairs]
        return min(ratios), max(ratios)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.ratio >= self.target

    def _better(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.unit in UNITS else ours / theirs


def in_turns(
    rounds: int, ours: Callable[[], Result], theirs: Callable[[], Result]
) -> tuple[list[Result], list[Result]]:
    """Call both sides ``rounds`` times, A B A B; what each gave."""
    results: tuple[list[Result], list[Result]] = ([], [])
    for _ in range(rounds):
        for side, found in zip((ours, theirs), results, strict=True):
            gc.collect()
            found.append(side())
    return results


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Wall-clock seconds of one call, averaged over ``times`` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def calls_for(work: Callable[[], object], at_least: float) -> int:
    """How many calls take ``at_least`` seconds together; calls once, which also warms up."""
    return max(1, round(at_least / max(seconds(work), 1e-6)))


def in_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """What ``work(*arguments)`` returns in a fresh Python process; raises what it raises."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def in_tidy_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """``in_process``, where every larger block goes back to the system when it is freed, so that
    resident memory is what is held."""
    name = "MALLOC_MMAP_THRESHOLD_"  # read by glibc when the process starts
    before = os.environ.get(name)
    os.environ[name] = str(SMALL_BLOCK)
    try:
        return in_process(work, *arguments)
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def peak_growth(small: Callable[[], object], full: Callable[[], object]) -> int:
    """Bytes by which the resident memory of this process rises at its peak during ``full``.

    Call it in a process of its own (``in_process``): memory that was used before would be used
    again and not be seen.

    Args:
        small: the same work on a small size, which loads libraries and starts threads.
        full: the work to measure.
    """
    cpu = torch.device("cpu")
    small()
    gc.collect()
    reset_peak(cpu)
    before = peak_bytes(cpu)
    full()
    return peak_bytes(cpu) - before
