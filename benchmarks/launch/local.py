"""Run cells on this machine: one after the other, or by several processes."""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from ...results import Only, RunRecord, Store, StoreError
from .. import again
from ..cell import Cell
from ..errors import Interrupted, UsageError
from ..events import Emit, Event, Finished, Note, Reading, Skipped, Started, Stopped
from ..lock import CellLock, held_by, is_locked
from ..prepare import Prepared
from ..run import OtherData, RunOptions, prepare_first, run_cell
from ..signals import interruptible

Stamp = tuple[int, int] | None


@dataclass(frozen=True)
class Job:
    """A cell that is to be run, with what its record looked like when that was decided.

    `anew`: from its beginning, whatever checkpoints are there.
    """

    number: int
    cell: Cell
    stamp: Stamp
    anew: bool = False


def choose(cells: Iterable[Cell], store: Store, only: Only, emit: Emit) -> list[Job]:
    """The cells to run: those that `store` wants, those done with other settings, and those that
    a run of all cells didn't come to."""
    cells = list(cells)
    missing = only == "missing"
    outdated = [cell for cell in cells if missing and _outdated(cell, store)]
    for cell in outdated:
        emit(Note(f"{cell.name} was done with other settings; that record is set aside"))
    asked = [cell for cell in cells if missing and cell not in outdated and _again(cell, store)]
    found = store.wanted([cell for cell in cells if cell not in (*outdated, *asked)], only)
    for sentence in found.warnings:
        emit(Note(sentence))
    chosen = [cell for cell in cells if cell in (*outdated, *asked) or cell in found]
    return [
        Job(
            number,
            cell,
            _stamp(store.path(cell)),
            anew=only == "all" or _again(cell, store) == "wanted",
        )
        for number, cell in enumerate(chosen, start=1)
    ]


def run_jobs(
    jobs: Sequence[Job], store: Store, options: RunOptions, emit: Emit, workers: int = 1
) -> Counter[str]:
    """Run the jobs and count how they ended.

    By status; and `running`: another run has it now; `left`: it has no new record for another
    reason; `killed`: worker processes that didn't come to their end.

    The first cell that can be run is prepared before anything is written or said of any.

    Raises:
        ConfigError, DataError: that cell can't be prepared; a later one has failed then.
        OtherData, StoreError: see `run_cell`.
        UsageError: what a worker process said before it stopped.
        Interrupted: all workers have stopped; finished cells are kept.
    """
    ready = _prepare_first(jobs, store, options, emit)
    for job in jobs:
        if job.anew and job.stamp is not None:
            again.want(store.path(job.cell).parent, job.cell.config_hash)
    if workers > 1 and len(jobs) > 1:
        ready.clear()  # other processes can't have it
        counts = _run_in_processes(jobs, store, options, emit, min(workers, len(jobs)))
    else:
        counts = _run_here(jobs, store, options, emit, ready)
    for job in jobs:
        if _stamp(store.path(job.cell)) == job.stamp:
            counts["running" if is_locked(store.path(job.cell).parent) else "left"] += 1
    return counts


def _prepare_first(
    jobs: Sequence[Job], store: Store, options: RunOptions, emit: Emit
) -> dict[int, Prepared]:
    """The first cell that can be run now, prepared, by its job's number; empty if there is none."""
    for job in jobs:
        if job.cell.refusal is None and not is_locked(store.path(job.cell).parent):
            emit(Reading(job.cell.dataset))
            return {job.number: prepare_first(job.cell, store, job.anew)}
    return {}


def _run_here(
    jobs: Sequence[Job], store: Store, options: RunOptions, emit: Emit, ready: dict[int, Prepared]
) -> Counter[str]:
    """Run the jobs one by one, at the end also those that other runs had and gave up."""
    counts: Counter[str] = Counter()

    def run(job: Job) -> bool:
        """Whether the job was dealt with; its preparation is let go, as it is large."""
        record = _claim_and_run(job, len(jobs), store, options, emit, ready.pop(job.number, None))
        if isinstance(record, RunRecord):
            counts[record.status] += 1
        return record != "running"

    for job in [job for job in jobs if not run(job)]:
        if not is_locked(store.path(job.cell).parent):
            run(job)
    return counts


def _claim_and_run(
    job: Job,
    total: int,
    store: Store,
    options: RunOptions,
    emit: Emit,
    ready: Prepared | None = None,
) -> RunRecord | str | None:
    """The new record; `running` if another process has the cell, None if one has finished it."""
    cell, path = job.cell, store.path(job.cell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = CellLock(path.parent, _holder(options))
        if not lock.acquire():
            emit(Skipped(options.worker, cell.name, "running", held_by(path.parent)))
            return "running"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StoreError(
            f"can't write into {path.parent}: {reason}; choose another --out"
        ) from error
    try:
        if not lock.works:
            emit(Note(f"{path.parent} can't be locked: don't start a second run on this folder"))
        if _stamp(path) != job.stamp:
            emit(Skipped(options.worker, cell.name, "done"))
            return None
        emit(Started(options.worker, job.number, total, cell.name))
        record = run_cell(cell, store, replace(options, anew=job.anew), emit, ready)
        again.forget(path.parent)
        emit(_finished(record, cell, options.worker))
        return record
    finally:
        lock.release()


def _holder(options: RunOptions) -> str:
    """How this process is found by whoever waits for it."""
    since = datetime.datetime.now().isoformat(sep=" ", timespec="minutes")
    command = f": {options.command}" if options.command else ""
    return f"process {os.getpid()} on {socket.gethostname()} since {since}{command}"


def _finished(record: RunRecord, cell: Cell, worker: int) -> Finished:
    metric = cell.entry.metric
    value = record.metrics.get(metric)
    shown = f"n/a: {record.notes.get(metric, '')}" if value is None else f"{value:.2f}"
    text = record.reason or (f"{metric} {shown}" if metric in record.metrics else "")
    return Finished(worker, cell.name, record.status, text, record.seconds.get("total", 0.0))


def _again(cell: Cell, store: Store) -> again.State:
    return again.state(store.path(cell).parent, cell.config_hash)


def _outdated(cell: Cell, store: Store) -> bool:
    """Whether the cell was done with other settings than it has now."""
    try:
        record = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
    except StoreError:
        return False
    if record is None or record.status != "done":
        return False
    return record.config_hash != cell.config_hash


def _stamp(path: Path) -> Stamp:
    """What tells one version of a file from another."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _run_in_processes(
    jobs: Sequence[Job], store: Store, options: RunOptions, emit: Emit, workers: int
) -> Counter[str]:
    """Every process walks the whole list; the cells' locks deal the cells out."""
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    pipes: list[Connection] = []
    counts: Counter[str] = Counter()
    try:
        for worker in range(workers):
            receive, send = context.Pipe(duplex=False)
            own = replace(options, worker=worker)
            process = context.Process(target=_work, args=(list(jobs), store.out, own, send))
            with _ignoring_ctrl_c():
                process.start()
            send.close()  # so that the pipe ends when the worker does
            processes.append(process)
            pipes.append(receive)
        for event in _events(pipes):
            if isinstance(event, Stopped):
                raise UsageError(event.text)
            if isinstance(event, Finished):
                counts[event.status] += 1
            if not isinstance(event, Skipped):
                emit(event)
        for process in processes:
            process.join()
    finally:
        _end(processes)
    for code in (process.exitcode for process in processes if process.exitcode):
        counts["killed"] += 1
        emit(
            Note(
                f"a worker process ended with code {code}; its cell goes on where it was when "
                "the same command is started again"
            )
        )
    for job in jobs:  # the workers' own word would name each other's cells, too
        folder = store.path(job.cell).parent
        if _stamp(store.path(job.cell)) == job.stamp and is_locked(folder):
            emit(Skipped(0, job.cell.name, "running", held_by(folder)))
    return counts


def _events(pipes: list[Connection]) -> Iterator[Event]:
    """The workers' events until all of them have ended."""
    while pipes:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            try:
                yield pipe.recv()
            except (EOFError, OSError):  # it ended, or was killed in the middle of a word
                pipes.remove(pipe)


def _work(jobs: list[Job], out: Path, options: RunOptions, events: Connection) -> None:
    """What a worker process does."""

    def emit(event: Event) -> None:
        try:
            events.send(event)
        except BrokenPipeError:  # the run that started this process was killed
            raise Interrupted from None

    with interruptible():
        try:
            _run_here(jobs, Store(out), options, emit, {})
        except Interrupted:
            sys.exit(130)
        except (OtherData, StoreError) as error:
            events.send(Stopped(str(error)))


def _end(processes: Sequence[BaseProcess]) -> None:
    """Stop what still runs: politely, so that it cleans up, and after 20 seconds at once."""
    give_up = time.monotonic() + 20
    while running := [process for process in processes if process.is_alive()]:
        polite = time.monotonic() < give_up
        for process in running:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGINT if polite else signal.SIGKILL)
            process.join(0.5)


@contextlib.contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """A process started within it ignores Ctrl-C until it says otherwise, as while it imports."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
