"""What the user sees while a run goes on: bars on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from .events import Advanced, Event, Finished, Note, Reading, Skipped, Started

PLAIN_SECONDS = 20.0


class Estimate:
    """How long the rest of a grid will take, from the cells that are done.

    Args:
        total: cells of this run.
        workers: how many run at once.
        known: seconds that earlier cells of the same grid took.
    """

    def __init__(self, total: int, workers: int, known: list[float]) -> None:
        self.total, self.done = total, 0
        self._workers = max(1, workers)
        self._seconds = list(known)
        self._now: dict[int, tuple[float, float | None]] = {}

    def started(self, worker: int) -> None:
        """A cell began."""
        self._now[worker] = (time.monotonic(), None)

    def advanced(self, worker: int, seconds_left: float | None) -> None:
        """A cell went on."""
        begin, _ = self._now.get(worker, (time.monotonic(), None))
        self._now[worker] = (begin, seconds_left)

    def finished(self, worker: int, seconds: float) -> None:
        """A cell came to its end; one that didn't train says nothing about the others."""
        self._now.pop(worker, None)
        self.done += 1
        if seconds > 0:
            self._seconds.append(seconds)

    def seconds_left(self) -> float | None:
        """None as long as nothing is known."""
        now = time.monotonic()
        running = [(now - begin, left) for begin, left in self._now.values()]
        whole = self._seconds or [spent + left for spent, left in running if left is not None]
        if not whole:
            return None
        a_cell = sum(whole) / len(whole)
        rest = sum(max(0.0, a_cell - spent) if left is None else left for spent, left in running)
        waiting = max(0, self.total - self.done - len(running))
        return (rest + waiting * a_cell) / self._workers


class Display:
    """Shows events. Use it as a context manager and call it with each event.

    Args:
        total: cells of this run.
        workers: processes that run them.
        known: seconds that earlier cells of the same grid took.
        console: where to; bars if it is a terminal, else a line at least every 20 seconds.
    """

    def __init__(
        self, total: int, workers: int = 1, known: list[float] | None = None,
        console: Console | None = None,
    ) -> None:  # fmt: skip
        self._console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self._estimate = Estimate(total, workers, known or [])
        self._bars = _Bars(self._console, total) if self._console.is_terminal else None
        self._said: dict[int, float] = {}

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._bars is not None:
            self._bars.progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Started():
                self._estimate.started(event.worker)
                self._said[event.worker] = time.monotonic()
                self._say(f"[{event.number}/{event.total}] {event.cell}")
            case Advanced():
                self._estimate.advanced(event.worker, event.seconds_left)
                self._advance(event)
            case Finished():
                self._estimate.finished(event.worker, event.seconds)
                self._say(self._finished(event))
            case Skipped(why="running"):
                holder = f" ({event.holder})" if event.holder else ""
                self._say(f"{event.cell}: left to another run, which has it now{holder}")
            case Skipped():
                self._say(f"{event.cell}: another run has finished it")
            case Note():
                self._say(event.text)
        if self._bars is not None:
            self._bars.show(event, self._estimate)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def _advance(self, event: Advanced) -> None:
        now = time.monotonic()
        if self._bars is None and now - self._said.get(event.worker, 0.0) >= PLAIN_SECONDS:
            self._said[event.worker] = now
            left = f", {spoken(event.seconds_left)} left" if event.seconds_left else ""
            self._say(f"{event.cell}: {describe(event)}{left}{self._grid_left()}")

    def _finished(self, event: Finished) -> str:
        status = {"refused": "n/a"}.get(event.status, event.status)
        took = f" in {spoken(event.seconds)}" if event.seconds else ""
        text = f": {event.text}" if event.text else ""
        return f"{event.cell} {status}{took}{text}{self._grid_left()}"

    def _grid_left(self) -> str:
        left = self._estimate.seconds_left()
        if self._estimate.done >= self._estimate.total or left is None:
            return ""
        return f" (grid: about {spoken(left)} left)"


class _Bars:
    """One bar for the grid and one for each worker's cell."""

    def __init__(self, console: Console, total: int) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
            transient=True,
        )
        self._grid = self.progress.add_task("cells", total=total, text="")
        self._cells: dict[int, TaskID] = {}

    def show(self, event: Event, estimate: Estimate) -> None:
        """Bring the bars up to date."""
        left = estimate.seconds_left()
        text = "" if left is None else f"about {spoken(left)} left"
        if isinstance(event, Reading):
            text = f"reading {event.dataset}"
        self.progress.update(self._grid, completed=estimate.done, text=text, refresh=True)
        match event:
            case Started():
                task = self.progress.add_task(event.cell, total=None, text="")
                self._cells[event.worker] = task
            case Advanced() if event.worker in self._cells:
                rest = f", {spoken(event.seconds_left)} left" if event.seconds_left else ""
                self.progress.update(
                    self._cells[event.worker],
                    completed=event.step,
                    total=event.max_steps or None,
                    text=describe(event, steps=False) + rest,
                )
            case Finished() if event.worker in self._cells:
                self.progress.remove_task(self._cells.pop(event.worker))


def describe(event: Advanced, *, steps: bool = True) -> str:
    """One line: `training, step 200 of 1000, epoch 1, train/loss 3.21, 5,200 tokens/s`."""
    parts = [event.phase]
    if event.max_steps:
        parts += [f"step {event.step} of {event.max_steps}"] if steps else []
        parts.append(f"epoch {event.epoch}")
    parts += [f"{name} {value:.4g}" for name, value in event.values.items()]
    if event.rate is not None and event.unit:
        parts.append(f"{event.rate:,.0f} {event.unit}")
    return ", ".join(parts)


def spoken(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`, `3.2 days`."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes / 1440:.1f} days"
