"""Batches side by side: in order, taken as needed, and nothing left behind by an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from attnbench.tasks.side_by_side import side_by_side

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2, 3], autouse=True)
def threads(request) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param
    torch.set_num_threads(before)


def test_results_come_in_order_and_each_call_has_one_thread(threads: int) -> None:
    seen: set[int] = set()

    def work(item: int) -> int:
        seen.add(torch.get_num_threads())
        rows = 50 * (item % 3) + 1
        return int(torch.full((rows, 50), float(item)).mean())

    assert list(side_by_side(work, range(20), CPU)) == list(range(20))
    assert seen == {1}


def test_it_runs_at_once_what_it_says(threads: int) -> None:
    together = threading.Barrier(threads, timeout=30)

    def work(item: int) -> int:
        together.wait()
        return item

    assert list(side_by_side(work, range(2 * threads), CPU)) == list(range(2 * threads))


def test_items_are_taken_as_needed(threads: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = side_by_side(lambda item: item, items(), CPU)
    assert next(results) == 0
    assert len(taken) <= 2 * threads
    results.close()  # type: ignore[attr-defined]


def test_an_error_comes_out_and_ends_the_rest(threads: int) -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        if item == 3:
            raise ValueError("item 3")
        return item

    with pytest.raises(ValueError, match="item 3"):
        list(side_by_side(work, range(1000), CPU))
    assert len(started) < 20


def test_other_devices_take_one_after_the_other(threads: int) -> None:
    main = threading.get_ident()
    used = side_by_side(lambda _: threading.get_ident(), range(4), torch.device("meta"))
    assert set(used) == {main}
