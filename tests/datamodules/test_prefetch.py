"""Results come in order, ahead of use, errors at their place, and threads end with the iterator."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from attnbench.datamodules.prefetch import ahead


def _threads() -> int:
    return sum(thread.name.startswith("ahead") for thread in threading.enumerate())


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_results_come_in_order(workers: int) -> None:
    def slow(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    found = list(ahead(slow, range(30), workers=workers, depth=5))
    assert found == [item * item for item in range(30)]
    assert _threads() == 0


def test_without_workers_all_runs_here_and_only_when_asked_for() -> None:
    seen: list[tuple[int, str]] = []
    results = ahead(
        lambda item: seen.append((item, threading.current_thread().name)),
        range(3),
        workers=0,
        depth=9,
    )
    next(results)
    assert seen == [(0, threading.current_thread().name)]


def test_no_more_than_depth_results_wait() -> None:
    started: list[int] = []
    results = ahead(lambda item: started.append(item), range(100), workers=2, depth=3)
    with closing(cast(Any, results)):
        next(results)
        time.sleep(0.05)
        assert sorted(started) == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_after_the_results_before_it(workers: int) -> None:
    def fragile(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        return item

    found = []
    with pytest.raises(ValueError, match="five"):
        for result in ahead(fragile, range(9), workers=workers, depth=8):
            found.append(result)
    assert found == [0, 1, 2, 3, 4]
    assert _threads() == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_items_comes_at_its_place_too(workers: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no more")

    found = []
    with pytest.raises(ValueError, match="no more"):
        for result in ahead(lambda item: item, items(), workers=workers, depth=8):
            found.append(result)
    assert found == [0, 1, 2]


def test_an_abandoned_iterator_ends_its_threads() -> None:
    started: list[int] = []
    results = ahead(lambda item: started.append(item), range(1000), workers=3, depth=4)
    for _ in zip(range(2), results, strict=False):
        pass
    assert _threads() > 0
    del results, _
    assert _threads() == 0
    assert len(started) < 20
