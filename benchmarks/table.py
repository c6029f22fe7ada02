"""From a grid to the table of its records. Loads no torch itself; `present` may."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..datamodules.registry import DATASETS
from ..results import PresentSettings, PublishedSource, RowSpec, TableSpec
from .columns import column
from .grid import Grid, Row


def table_spec(
    grid: Grid,
    dataset: str,
    preset: str,
    seeds: Sequence[int] = (),
    rows: Sequence[Row] | None = None,
    present: Mapping[str, PresentSettings] | None = None,
    command: str = "",
    settings: Sequence[str] = (),
) -> TableSpec:
    """What the table of `grid` shows for one data set and preset.

    `seeds` are those that every row should have; empty: all that any row has. `rows`: only these.
    `present`: the settings that rows have now; runs of others don't count. `command`: what makes
    this table again, see `table_command`. `settings`: the `key=value` words of `--set`.
    """
    present = present or {}
    hashed = {name for row in present.values() for name in row.config}
    beside = grid.published.metrics if grid.published else {}
    metrics = [
        replace(column(name), published=beside.get(name))
        for name in dict.fromkeys([*beside, *grid.metrics])
    ]
    entry = DATASETS.get(dataset)
    return TableSpec(
        grid=grid.grid,
        dataset=dataset,
        preset=preset,
        metrics=tuple(metrics),
        rows=tuple(
            RowSpec(
                row.row,
                row.published,
                row.reference,
                present.get(row.row),
                published_split=row.published_split,
            )
            for row in rows or grid.rows
        ),
        title=grid.title,
        published=_source(grid),
        seeds=tuple(seeds),
        commands=(command,) if command else (),
        data_source=entry.source if entry else "",
        settings=tuple(word for word in settings if word.partition("=")[0] in hashed),
    )


def table_command(
    name: str,
    dataset: str,
    preset: str,
    out: Path | str = "DIR",
    *,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    settings: Sequence[str] = (),
) -> str:
    """The shell command that shows the table of just these runs.

    `name` is the grid as the user named it, which for a file is its path; `settings` are the
    `key=value` words of `--set`. Empty choices are left out.
    """
    words = ["attnbench", "table", name, "--preset", preset, "--data", dataset, "--out", str(out)]
    chosen = {"--rows": rows, "--seeds": [str(seed) for seed in seeds], "--set": settings}
    for option, values in chosen.items():
        words += [option, *values] if values else []
    return shlex.join(words)


def _source(grid: Grid) -> PublishedSource | None:
    where = grid.published
    if where is None:
        return None
    return PublishedSource(
        where.paper,
        where.table,
        where.dataset_split,
        grid.default_dataset,
        where.preset,
        where.needs,
    )
