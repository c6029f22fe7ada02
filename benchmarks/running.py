"""`attnbench run` and `attnbench train`: choose the cells, run them, say how it went."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from ..results import RunRecord, Store, StoreError
from ..results.how import public_command
from ..tasks.errors import ConfigError
from .cell import Cell, Choice, make_cell, make_cells, task_entry
from .errors import Interrupted, UsageError
from .grid import Grid, Settings, load_grid, shared_presets
from .launch.local import choose, run_jobs
from .progress import Display
from .run import RunOptions
from .settings import parse_settings
from .signals import interruptible
from .table import table_command


def chosen_cells(grid: Grid, options: argparse.Namespace) -> list[Cell]:
    """The cells that the options of `run` and `plan` mean. Raises GridError, UsageError."""
    choice = Choice(
        preset=options.preset,
        dataset=options.data,
        root=options.root,
        seeds=tuple(dict.fromkeys(options.seeds)) or (0,),
        rows=options.rows,
        settings=parse_settings(options.set),
        machine=_machine(options),
    )
    return make_cells(grid, choice)


def run_grid(options: argparse.Namespace, words: Sequence[str]) -> int:
    """`attnbench run`; exit code 0 says that every cell that was to be run has its result."""
    grid = load_grid(options.grid)
    cells = chosen_cells(grid, options)
    counts = _run(cells, options, words, options.only, options.jobs)
    records = _records(cells, Store(options.out))
    _say(_summary(counts, records, len(cells)))
    first = cells[0]
    show = table_command(
        options.grid,
        first.dataset,
        first.preset,
        options.out,
        rows=options.rows,
        seeds=options.seeds,
        settings=options.set,
    )
    _say(f"table: {show}")
    bad = any(record.status in ("failed", "diverged") for record in records)
    return 1 if bad or any(counts[word] for word in ("killed", "running", "left")) else 0


def train_one(options: argparse.Namespace, words: Sequence[str]) -> int:
    """`attnbench train`: one cell; prints its metrics."""
    cell = _train_cell(options)
    counts = _run([cell], options, words, "all" if options.again else "missing", 1)
    records = _records([cell], Store(options.out))
    if not records:
        _say(_summary(counts, records, 1))
        return 1
    record = records[0]
    for name, value in record.metrics.items():
        print(f"{name} {f'n/a: {record.notes[name]}' if value is None else f'{value:.2f}'}")
    print(f"record {Store(options.out).path(record)}")
    if record.status != "done":
        _say(f"{record.status}: {record.reason}")
    if counts["running"]:
        _say("these are the numbers of an earlier run; another run has the cell now")
    return 0 if record.status == "done" and not counts["running"] else 1


def _run(
    cells: Sequence[Cell], options: argparse.Namespace, words: Sequence[str], only: str, jobs: int
) -> Counter[str]:
    store = Store(options.out)
    first = cells[0]
    earlier = store.records(first.grid, first.dataset, first.preset)
    hashes = {cell.config_hash for cell in cells}
    same = [r for r in earlier if r.status == "done" and r.config_hash in hashes]
    known = [record.seconds.get("total", 0.0) for record in same]
    run_options = RunOptions(
        command=public_command(shlex.join(["attnbench", *words])),
        keep_checkpoints=options.keep_checkpoints,
    )
    notes: list = []
    chosen = choose(cells, store, only, notes.append)  # type: ignore[arg-type]
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    with interruptible(), Display(len(chosen), jobs, known, console) as display:
        for note in notes:
            display(note)
        try:
            return run_jobs(chosen, store, run_options, display, jobs)
        except Interrupted:
            raise Interrupted(how_to_go_on(words)) from None


def how_to_go_on(words: Sequence[str]) -> str:
    """What to do after Ctrl-C; `--only all` and `--again`, which begin anew, are left out."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if len(name) > 3 and "--only".startswith(name):
            value = word.partition("=")[2] if equals else next(rest, "")
            kept += [] if value == "all" else ["--only", value]
        elif len(name) < 4 or not "--again".startswith(name):
            kept.append(word)
    said = "stopped; finished cells are kept, and "
    if kept == [*words]:
        return said + "the same command goes on from here"
    return said + f"this goes on from here: {shlex.join(['attnbench', *kept])}"


def _train_cell(options: argparse.Namespace) -> Cell:
    """The cell of `train`; it is named by `row=…`, else by its attention specs."""
    entry = task_entry(options.task)
    given = parse_settings(options.settings)
    row = given.pop("row", None)
    seed = given.pop("seed", "0")
    if not re.fullmatch("[0-9]{1,10}", str(seed)) or int(seed) >= 2**32:
        raise UsageError(f"seed={seed} is not a seed, a number from 0 to 2^32 - 1")
    settings: Settings = {"dataset": "demo"}
    if options.preset is not None:
        presets = shared_presets(entry.name, "train")
        if options.preset not in presets:
            raise UsageError(f"there is no preset {options.preset!r}, only {', '.join(presets)}")
        settings |= presets[options.preset]
    place = {"dataset": options.data, "root": options.root}
    settings |= {name: value for name, value in place.items() if value is not None}
    settings |= {k: v for k, v in _machine(options).items() if k in entry.config.model_fields}
    settings |= given
    names = {
        "grid": f"train/{entry.name}",
        "seed": int(seed),
        "preset": options.preset or "custom",
        "settings": settings,
    }
    try:
        cell = make_cell(entry, row="unnamed", **names)
        if cell.refusal is not None:
            raise ConfigError(cell.refusal)
        return make_cell(entry, row=row or _specs(cell), **names)
    except ConfigError as error:
        raise UsageError(f"train {entry.name}: {error}") from None


def _specs(cell: Cell) -> str:
    specs = {name: getattr(cell.config, name) for name in cell.entry.sites}
    if len(set(specs.values())) == 1:
        return next(iter(specs.values()))
    return ",".join(f"{name}={spec}" for name, spec in specs.items())


def _machine(options: argparse.Namespace) -> Settings:
    """Settings of the machine: they aren't hashed, and tasks that don't have them ignore them."""
    jobs = getattr(options, "jobs", 1)
    threads = getattr(options, "threads", None)
    if threads is None and jobs > 1:
        threads = max(1, _cores() // jobs)
    machine: Settings = {"cache": options.out / "cache"}
    return machine | ({"threads": threads} if threads is not None else {})


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _records(cells: Sequence[Cell], store: Store) -> list[RunRecord]:
    """The present records of the cells, with their present settings."""
    found: list[RunRecord] = []
    for cell in cells:
        try:
            record = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
        except StoreError:
            continue
        if record is not None and record.config_hash == cell.config_hash:
            found.append(record)
    return found


def _summary(counts: Counter[str], records: Sequence[RunRecord], total: int) -> str:
    states = Counter(record.status for record in records)
    words = {"done": "done", "failed": "failed", "diverged": "diverged", "refused": "n/a"}
    parts = [f"{states[status]} {word}" for status, word in words.items() if states[status]]
    if counts["running"]:
        parts.append(f"{counts['running']} left to another run that has them now")
    if (missing := total - len(records) - counts["running"]) > 0:
        parts.append(f"{missing} not run")
    text = f"{total} cell{'s' * (total != 1)}: {', '.join(parts)}"
    if states["failed"] or states["diverged"]:
        text += "; --only failed runs the failed ones again"
    if counts["running"]:
        text += "; start the same command again when that run has ended"
    return text


def _say(text: str) -> None:
    print(text, file=sys.stderr)
