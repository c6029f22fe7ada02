import math
from itertools import count

import pytest
import torch

from attnbench.benchmarks.speed.measure import (
    Comparison,
    calls_for,
    in_process,
    in_turns,
    peak_growth,
    seconds,
)

MIB = 2**20


def grow(mebibytes: int) -> int:
    return peak_growth(lambda: torch.ones(8), lambda: torch.ones(mebibytes * MIB // 4))


def fail() -> None:
    raise ValueError("as it should")


def test_less_time_and_less_memory_are_better() -> None:
    for unit in ("s", "bytes"):
        row = Comparison("x", unit, ours=[1.0, 2.0, 4.0], theirs=[10.0, 10.0, 10.0], target=5)
        assert row.ratio == 5.0
        assert row.spread == (2.5, 10.0)
        assert row.met


def test_a_higher_rate_is_better() -> None:
    row = Comparison("x", "sentences/s", ours=[30.0, 60.0], theirs=[20.0, 20.0], target=2.5)
    assert row.ratio == 2.25
    assert row.spread == (1.5, 3.0)
    assert row.met is False


def test_without_a_target_nothing_is_met_or_missed() -> None:
    assert Comparison("x", "s", [1.0], [1.0]).met is None


def test_the_sides_take_turns() -> None:
    clock = count()
    assert in_turns(3, lambda: next(clock), lambda: next(clock)) == ([0, 2, 4], [1, 3, 5])


def test_seconds_are_of_one_call() -> None:
    calls: list[int] = []
    spent = seconds(lambda: calls.append(sum(range(200_000))), times=4)
    assert len(calls) == 4
    assert 0 < spent < 1


def test_short_work_is_called_more_often() -> None:
    assert calls_for(lambda: None, 0.01) > 100
    assert calls_for(lambda: sum(range(2_000_000)), 1e-4) == 1


def test_peak_memory_counts_what_the_work_takes() -> None:
    small, large = (in_process(grow, size) for size in (16, 96))
    assert math.isclose(large - small, 80 * MIB, rel_tol=0.1)


def test_what_fails_in_the_other_process_fails_here() -> None:
    with pytest.raises(ValueError, match="as it should"):
        in_process(fail)
