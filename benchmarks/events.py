"""What a run reports while it goes on. Plain data, so that it can cross processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Started:
    """A worker begins a cell (`number` of the run's `total`)."""

    worker: int
    number: int
    total: int
    cell: str


@dataclass(frozen=True)
class Advanced:
    """A cell went on.

    `phase` says in words what is going on; `values` are the newest losses and metrics;
    `rate` is items a second in `unit`; `seconds_left` the estimate for this cell's training.
    """

    worker: int
    cell: str
    phase: str
    step: int = 0
    max_steps: int = 0
    epoch: int = 0
    values: dict[str, float] = field(default_factory=dict)
    rate: float | None = None
    unit: str = ""
    seconds_left: float | None = None


@dataclass(frozen=True)
class Finished:
    """A cell has its record: `status` and, in `text`, its headline metric or the reason."""

    worker: int
    cell: str
    status: str
    text: str
    seconds: float


@dataclass(frozen=True)
class Skipped:
    """A cell was left to another process (`running`) or was finished by one (`done`).

    `holder`: who runs it, as far as that is known.
    """

    worker: int
    cell: str
    why: str
    holder: str = ""


@dataclass(frozen=True)
class Note:
    """One sentence for the user."""

    text: str


@dataclass(frozen=True)
class Reading:
    """The data of the first cell are read, before it begins."""

    dataset: str


@dataclass(frozen=True)
class Stopped:
    """A worker can't go on at all: bad input, a full disk. `text` is the sentence."""

    text: str


Event = Started | Advanced | Finished | Skipped | Note | Reading | Stopped
Emit = Callable[[Event], None]
