"""`attnbench status`: how far a run is, from what lies in its folder. Loads no torch itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..datamodules.registry import DATASETS
from ..results import PresentSettings, RunRecord, Store, StoreError
from .errors import UsageError, nearest
from .grid import Grid, Row
from .lock import is_locked
from .runlog import last_line


@dataclass(frozen=True)
class CellStatus:
    """One cell.

    `status`: done, failed, diverged, refused, running, interrupted (begun, and goes on when the
    run is started again) or missing. `line` has the metrics where it is done, else the reason or
    the last line of its log.
    """

    row: str
    seed: int
    status: str
    line: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


WORDS = {
    "done": "done",
    "running": "running",
    "interrupted": "interrupted",
    "failed": "failed",
    "diverged": "diverged",
    "refused": "n/a",
    "missing": "not run",
}
"""What people are shown for each status: the same words as in tables and plans."""

EXPLAINED = {
    "interrupted": "interrupted: begun and not finished; the same `attnbench run` goes on with it",
    "missing": "not run: there is no result for its settings; `attnbench run` makes it",
    "failed": "failed: `attnbench run --only failed` tries again",
    "diverged": "diverged: the training ran off to infinity; other settings may help",
    "refused": "n/a: this attention can't stand there, nothing is to be run",
}
"""What a status asks for, one line each; done and running say enough."""


def chosen_dataset(grid: Grid, dataset: str | None, preset: str, store: Store) -> str:
    """The data set to look at: `dataset`, else what the preset or the grid names.

    Raises UsageError where the preset or data set is neither known nor found among the records.
    """
    recorded = dataset is not None and bool(store.records(grid.grid, dataset, preset))
    if preset not in grid.preset_names and not recorded:
        names = grid.preset_names
        hint = nearest(preset, names, otherwise=f"; it has {', '.join(names)}")
        raise UsageError(f"{grid.grid} has no preset {preset!r}{hint}")
    dataset = dataset or grid.dataset(preset)
    known = [entry.name for entry in DATASETS.values() if grid.task in entry.tasks]
    if dataset not in known and not recorded:
        hint = nearest(dataset, known, otherwise=f"; there are {', '.join(known)}")
        raise UsageError(f"{grid.task} has no data set {dataset!r}{hint}")
    return dataset


def nothing_there(grid: Grid, dataset: str, preset: str, store: Store) -> str:
    """What is said where no cell was ever begun."""
    return f"there are no records of {grid.grid}, {dataset}.{preset}, in {store.out}"


def grid_status(
    grid: Grid,
    dataset: str,
    preset: str,
    store: Store,
    seeds: Sequence[int],
    rows: Sequence[Row],
    present: Mapping[str, PresentSettings] | None = None,
) -> list[CellStatus]:
    """The status of each row and seed; without `seeds`, of those that anything lies there for.

    `present`: the settings that rows have now; a record of others is none.
    """
    present = present or {}
    folders = {
        (row.row, seed): store.folder(grid.grid, dataset, preset, row.row, seed)
        for row in rows
        for seed in seeds or seeds_there(grid, dataset, preset, store, rows)
    }
    return [
        _cell_status(store, (grid.grid, dataset, preset, row, seed), folder, present.get(row))
        for (row, seed), folder in folders.items()
    ]


def status_table(cells: Sequence[CellStatus]) -> Table:
    """For the terminal: one line a cell."""
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("row", no_wrap=True)
    table.add_column("seed", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)  # takes what is left
    for cell in cells:
        table.add_row(cell.row, str(cell.seed), WORDS[cell.status], cell.line)
    return table


def summary(cells: Sequence[CellStatus]) -> str:
    """`12 done, 1 running, 3 not run`."""
    counts = Counter(cell.status for cell in cells)
    return ", ".join(f"{counts[name]} {word}" for name, word in WORDS.items() if counts[name])


def explanations(cells: Sequence[CellStatus]) -> list[str]:
    """What the words among `cells` mean that ask for something."""
    found = {cell.status for cell in cells}
    return [words for status, words in EXPLAINED.items() if status in found]


def _cell_status(
    store: Store,
    place: tuple[str, str, str, str, int],
    folder: Path,
    present: PresentSettings | None,
) -> CellStatus:
    row, seed = place[3:]
    if is_locked(folder):
        return CellStatus(row, seed, "running", last_line(folder))
    try:
        record = store.read(*place)
    except StoreError as error:
        return CellStatus(row, seed, "missing", str(error))
    if record is not None and present is not None and (outdated := present.outdated(record)):
        return CellStatus(row, seed, "missing", outdated)
    if record is not None:
        return CellStatus(row, seed, record.status, record.reason or _metrics(record))
    if folder.is_dir():
        return CellStatus(row, seed, "interrupted", last_line(folder))
    return CellStatus(row, seed, "missing")


def _metrics(record: RunRecord) -> str:
    values = record.metrics.items()
    return ", ".join(f"{name} {value:.2f}" for name, value in values if value is not None)


def seeds_there(
    grid: Grid, dataset: str, preset: str, store: Store, rows: Sequence[Row]
) -> list[int]:
    """The seeds that anything lies there for; 0 where nothing does."""
    found: set[int] = set()
    for row in rows:
        folder = store.folder(grid.grid, dataset, preset, row.row, 0).parent
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        found |= {int(match[1]) for name in names if (match := re.fullmatch(r"seed(\d+)", name))}
    return sorted(found) or [0]
