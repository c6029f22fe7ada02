"""Results of a function ahead of their use, computed in threads and given out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def ahead(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, workers: int, depth: int
) -> Iterator[ResultT]:
    """Yield ``function(item)`` of each item in order, computed by threads ahead of its use.

    An error is raised where its result would have come, after all results before it. Whoever stops
    early (``close()``, or dropping the iterator) ends the threads too; what they have begun is
    finished and forgotten.

    Args:
        function: called from several threads at once.
        items: taken from the calling thread, up to `depth` before their results are given out.
        workers: threads; 0 computes each result in the calling thread when it is asked for.
        depth: how many results may wait; at least 1 counts.
    """
    if workers < 1:
        yield from map(function, items)
        return
    waiting: deque[Future[ResultT]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ahead")
    try:
        for future in _submitted(pool, function, items):
            waiting.append(future)
            if len(waiting) > max(1, depth):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, function: Callable[[ItemT], ResultT], items: Iterable[ItemT]
) -> Iterator[Future[ResultT]]:
    """Start the function on each item; an error of the items themselves waits for its turn."""
    try:
        for item in items:
            yield pool.submit(function, item)
    except Exception as error:
        failed: Future[ResultT] = Future()
        failed.set_exception(error)
        yield failed
