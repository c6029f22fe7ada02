"""From a grid to the table of its records. Loads no torch itself; `present` may."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
) -> TableSpec:
    """What the table of `grid` shows for one data set and preset.

    `seeds` are those that every row should have; empty: all that any row has. `rows`: only these.
    `present`: the settings that rows have now; runs of others don't count.
    """
    present = present or {}
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
            RowSpec(row.row, row.published, row.reference, present.get(row.row))
            for row in rows or grid.rows
        ),
        title=grid.title,
        published=_source(grid),
        seeds=tuple(seeds),
        commands=(_command(grid, dataset, preset),),
        data_source=entry.source if entry else "",
    )


def _source(grid: Grid) -> PublishedSource | None:
    where = grid.published
    if where is None:
        return None
    return PublishedSource(
        where.paper, where.table, where.dataset_split, grid.default_dataset, where.preset
    )


def _command(grid: Grid, dataset: str, preset: str) -> str:
    words = ["attnbench", "table", grid.grid, "--preset", preset, "--data", dataset]
    return shlex.join([*words, "--out", "DIR"])
