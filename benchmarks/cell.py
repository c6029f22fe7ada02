"""Cells: one row of a grid with one seed, its settings resolved, checked and hashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..datamodules.registry import DATASETS
from ..models.attention import SpecError, refusal
from ..results import config_hash
from ..tasks.errors import ConfigError
from ..tasks.registry import TASKS, TaskEntry
from ..tasks.settings import resolve
from .errors import GridError, UsageError, nearest
from .grid import Grid, Row, Settings, choose_rows

_ALL_SETTINGS = "; `attnbench list settings TASK` has them all"


@dataclass(frozen=True)
class Cell:
    """What is trained once.

    `config` is the task's own configuration object; `config_hash` leaves out the seed, paths and
    whatever else can't change a result. `refusal` is the reason why the cell can't be run, if any.
    """

    grid: str
    row: str
    seed: int
    task: str
    dataset: str
    preset: str
    config: BaseModel
    config_hash: str
    refusal: str | None = None

    @property
    def entry(self) -> TaskEntry:
        """The task that it is a cell of."""
        return TASKS[self.task]

    @property
    def name(self) -> str:
        """For people: `1010 seed 0`."""
        return f"{self.row} seed {self.seed}"

    def stored_config(self) -> dict[str, Any]:
        """The settings for the record: all but those that only say where files lie here."""
        values = self.config.model_dump(mode="python")
        paths = self.entry.unhashed & _path_settings(type(self.config))
        kept = {name: value for name, value in values.items() if name not in paths}
        return {
            name: value.name if isinstance(value, Path) else value for name, value in kept.items()
        }


@dataclass(frozen=True)
class Choice:
    """Which cells of a grid are meant, and the settings given beside the grid's own."""

    preset: str = "paper"
    dataset: str | None = None
    root: Path | None = None
    seeds: Sequence[int] = (0,)
    rows: Sequence[str] = ()
    settings: Settings = field(default_factory=dict)
    machine: Settings = field(default_factory=dict)


def task_entry(name: str) -> TaskEntry:
    """Look a task up. Raises UsageError with near names."""
    if name not in TASKS:
        hint = nearest(name, TASKS, otherwise=f"; known are {', '.join(TASKS)}")
        raise UsageError(f"no task is called {name!r}{hint}")
    return TASKS[name]


def make_cells(grid: Grid, choice: Choice) -> list[Cell]:
    """The chosen cells: all rows with the first seed, then all with the next.

    Raises:
        GridError: a setting, a spec or a row that isn't known, with file and place.
        UsageError: the same in what was given beside the grid.
    """
    try:
        entry = task_entry(grid.task)
    except UsageError as error:
        raise GridError(f"{grid.file}: {error}") from None
    rows = choose_rows(grid, choice.rows)
    _check_dataset(entry, choice.dataset or grid.dataset(choice.preset))
    _check_given(grid, entry, choice.settings)
    return [_cell(grid, entry, row, seed, choice) for seed in choice.seeds for row in rows]


def make_cell(
    entry: TaskEntry, *, grid: str, row: str, seed: int, preset: str, settings: Settings
) -> Cell:
    """One cell from plain settings. Raises ConfigError, SpecError (one sentence each)."""
    config = resolve(entry.config, {**settings, "seed": seed})
    values = config.model_dump(mode="python")
    return Cell(
        grid=grid,
        row=row,
        seed=seed,
        task=entry.name,
        dataset=values.get("dataset") or "demo",
        preset=preset,
        config=config,
        config_hash=config_hash(
            {name: value for name, value in values.items() if name not in entry.unhashed | {"seed"}}
        ),
        refusal=_refusal(entry, config),
    )


def _cell(grid: Grid, entry: TaskEntry, row: Row, seed: int, choice: Choice) -> Cell:
    merged: Settings = {"dataset": grid.default_dataset}
    for place, settings in grid.sections(row, choice.preset).items():
        _check_names(f"{grid.file}: {place}", settings, entry)
        merged |= settings
    given = {"dataset": choice.dataset, "root": choice.root}
    merged |= {name: value for name, value in given.items() if value is not None}
    merged |= {name: value for name, value in choice.machine.items() if _has(entry, name)}
    merged |= choice.settings
    try:
        return make_cell(
            entry, grid=grid.grid, row=row.row, seed=seed, preset=choice.preset, settings=merged
        )
    except (ConfigError, SpecError) as error:
        if _blames(error, choice.settings):
            raise UsageError(f"--set {error}") from None
        raise GridError(f"{grid.file}: row {row.row!r}, preset {choice.preset}: {error}") from None


def _check_dataset(entry: TaskEntry, name: str) -> None:
    known = [dataset.name for dataset in DATASETS.values() if entry.name in dataset.tasks]
    if name not in known:
        hint = nearest(name, known, otherwise=f"; there are {', '.join(known)}")
        raise UsageError(f"{entry.name} has no data set {name!r}{hint}")


def _check_names(place: str, settings: Mapping[str, Any], entry: TaskEntry) -> None:
    for name in settings:
        if name == "seed":
            raise GridError(f"{place}: seed is not set in a grid; give --seeds")
        if not _has(entry, name):
            hint = nearest(name, entry.config.model_fields, otherwise=_ALL_SETTINGS)
            raise GridError(f"{place}: no setting of {entry.name} is called {name!r}{hint}")


def _check_given(grid: Grid, entry: TaskEntry, settings: Settings) -> None:
    """`--set` may not undo what tells the rows apart, nor what has an option of its own."""
    options = {"dataset": "--data", "root": "--root", "seed": "--seeds"}
    varied = {name for row in grid.runnable for name in row.set}
    for name in settings:
        if name in options:
            raise UsageError(f"--set {name}: use {options[name]} instead")
        if name in varied:
            raise UsageError(
                f"--set {name}: the rows of {grid.grid} differ in it, so it stays as they have it; "
                "write a grid of your own for other rows"
            )
        if not _has(entry, name):
            hint = nearest(name, entry.config.model_fields, otherwise=_ALL_SETTINGS)
            raise UsageError(f"--set: no setting of {entry.name} is called {name!r}{hint}")


def _blames(error: Exception, settings: Mapping[str, Any]) -> bool:
    return any(str(error).startswith(f"{name}=") for name in settings)


def _has(entry: TaskEntry, name: str) -> bool:
    return name in entry.config.model_fields


def _path_settings(config: type[BaseModel]) -> frozenset[str]:
    fields = config.model_fields.items()
    return frozenset(name for name, field in fields if "Path" in str(field.annotation))


def _refusal(entry: TaskEntry, config: BaseModel) -> str | None:
    """Why an attention spec can't stand at its site, or what else the task refuses."""
    for name, site in entry.sites.items():
        spec = getattr(config, name)
        reason = refusal(spec, site)
        if reason is not None:
            return f"{spec} can't stand at {name}: {reason}"
    return entry.refuses(config)
