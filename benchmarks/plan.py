"""`attnbench plan`: what a run would do and how long it might take, before anything starts."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

from ..results import RunRecord, Store, StoreError
from .cell import Cell
from .progress import spoken

FORWARD_AND_BACKWARD = 3
"""A training step costs about three forward passes: the backward pass has twice the products."""

GMACS_A_CORE = 10.0
"""Assumed 10^9 multiply-accumulates a second and CPU core, where nothing was measured yet."""


@dataclass(frozen=True)
class PlannedCell:
    """One cell: what would be done with it, its cost, and its time in seconds where known."""

    cell: Cell
    action: str
    parameters: int | None = None
    macs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Plan:
    """All cells, and in `basis` what the times rest on."""

    cells: tuple[PlannedCell, ...]
    basis: str
    gpu: bool

    @property
    def seconds(self) -> float | None:
        """Time of all cells that would run, one after the other."""
        times = [planned.seconds for planned in self.cells if planned.action == "run"]
        return None if None in times else sum(time for time in times if time is not None)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "cells": [
                {
                    "row": planned.cell.row,
                    "seed": planned.cell.seed,
                    "action": planned.action,
                    "reason": planned.cell.refusal or "",
                    "params": planned.parameters,
                    "macs": planned.macs,
                    "seconds_estimated": planned.seconds,
                }
                for planned in self.cells
            ],
            "seconds_estimated": self.seconds,
            "device": "gpu" if self.gpu else "cpu",
            "basis": self.basis,
        }


def make_plan(cells: Sequence[Cell], store: Store, *, gmacs: float | None = None) -> Plan:
    """Plan a run of `cells` into `store`.

    The time of a cell is what finished cells of this grid, data set and preset took, if there
    are any; else three times the multiply-accumulates of the training tokens, divided by `gmacs`
    (10^9 a second; default: 10 a core).
    """
    first = cells[0]
    done = [r for r in store.records(first.grid, first.dataset, first.preset) if _timed(r)]
    gpu = torch.cuda.is_available()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    costs: dict[str, Any] = {}
    planned: list[PlannedCell] = []
    for cell in cells:
        action = _action(cell, store)
        if cell.refusal is not None:
            planned.append(PlannedCell(cell, action))
            continue
        if cell.config_hash not in costs:
            costs[cell.config_hash] = cell.entry.measure(cell.config)
        cost = costs[cell.config_hash]
        if done:
            seconds = _as_measured(cell, done)
        elif gmacs is None and gpu:
            seconds = None
        else:
            speed = 1e9 * (gmacs or GMACS_A_CORE * (cores or 1))
            seconds = FORWARD_AND_BACKWARD * cost.macs * _passes(cell) / speed
        planned.append(PlannedCell(cell, action, cost.parameters, cost.macs, seconds))
    return Plan(tuple(planned), _basis(done, gmacs, gpu, cores or 1), gpu)


def plan_table(plan: Plan) -> Table:
    """For the terminal: one line a cell."""
    table = Table(box=None, pad_edge=False)
    table.add_column("row")
    for heading in ("seed", "params", "GFLOPs", "time"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for planned in plan.cells:
        refusal = planned.cell.refusal
        table.add_row(
            planned.cell.row,
            str(planned.cell.seed),
            "–" if planned.parameters is None else f"{planned.parameters / 1e6:.2f} M",
            "–" if planned.macs is None else f"{planned.macs / 1e9:.2f}",
            "–" if planned.seconds is None else f"~{spoken(planned.seconds)}",
            f"n/a: {refusal}" if refusal else planned.action,
        )
    return table


def summary(plan: Plan, jobs: int = 1) -> list[str]:
    """The lines under the table."""
    runs = sum(planned.action == "run" for planned in plan.cells)
    refused = sum(planned.cell.refusal is not None for planned in plan.cells)
    kept = len(plan.cells) - runs - refused
    lines = [f"{len(plan.cells)} cells: {runs} to run, {kept} finished, {refused} can't be run"]
    seconds = plan.seconds
    if runs and seconds is not None:
        device = "GPU" if plan.gpu else "CPU machine"
        time = spoken(seconds / jobs)
        lines.append(f"estimated time {time}, {seconds / 3600:.1f} {device} hours ({plan.basis})")
    elif runs:
        lines.append(f"no estimate of the time: {plan.basis}")
    return lines


def _action(cell: Cell, store: Store) -> str:
    if cell.refusal is not None:
        return "n/a"
    try:
        record = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
    except StoreError:
        return "run"
    if record is None or record.config_hash != cell.config_hash or record.status == "refused":
        return "run"
    return record.status


def _timed(record: RunRecord) -> bool:
    return record.status == "done" and record.seconds.get("total", 0.0) > 0


def _as_measured(cell: Cell, done: Sequence[RunRecord]) -> float:
    """Mean time of this row's runs, else of all rows."""
    own = [r.seconds["total"] for r in done if r.row == cell.row]
    return statistics.fmean(own or [r.seconds["total"] for r in done])


def _passes(cell: Cell) -> float:
    """Forward passes of the size that `measure` counts, in a whole training."""
    from ..tasks.translation import COST_TOKENS

    config: Any = cell.config
    return config.max_steps * config.accumulate * config.max_tokens / COST_TOKENS


def _basis(done: Sequence[RunRecord], gmacs: float | None, gpu: bool, cores: int) -> str:
    if done:
        return f"from {len(done)} finished cells of this grid, whatever machine they ran on"
    if gmacs is None and gpu:
        return "nothing was measured on this GPU yet; give --gmacs, or run one cell first"
    speed = f"{gmacs:g}" if gmacs is not None else f"{GMACS_A_CORE:g} x {cores} cores"
    return (
        f"a rough estimate: 3 x multiply-accumulates x training tokens at an assumed {speed} "
        "x 10^9 a second, without evaluation; it gets better with the first finished cell"
    )
