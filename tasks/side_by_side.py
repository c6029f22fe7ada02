"""Several batches at once on a CPU, where a decoding step is too small for many threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def side_by_side(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], device: torch.device
) -> Iterator[ResultT]:
    """``function`` of each item, in order.

    On a CPU with T threads T items are worked on at once, each with one thread: a step of beam
    search is made of operations that two threads hardly speed up, while two batches take about
    as long as one. On any other device it is one item after the other.

    Args:
        function: mustn't change anything that its calls share; it sets its own gradient mode,
            which belongs to a thread.
        items: taken as they are needed, at most 2 T in advance.
        device: where the function computes.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[ResultT]] = deque()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread's number of threads is also MKL's, for all
