"""`attnbench plan`: what a run would do and how long it might take, before anything starts."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.table import Table

from ..results import RunRecord, Store, StoreError
from ..results.layout import count
from ..tasks.errors import ConfigError
from .cell import Cell
from .progress import spoken
from .vocabulary import Vocabularies

FORWARD_AND_BACKWARD = 3
"""A training step costs about three forward passes: the backward pass has twice the products."""

GMACS_A_CORE = 20.0
GMACS_A_GPU = 10_000.0
"""Assumed speeds in 10^9 multiply-accumulates a second, where no cell was finished yet.

A core: what the smoke preset reached on a server's core. A GPU: a quarter of what is printed for
data-centre cards in 32-bit training, the share that the Transformer paper's 8 x 12 hours come to.
"""


@dataclass(frozen=True)
class PlannedCell:
    """One cell: what would be done with it, its cost, and its time in seconds.

    `training_macs` are the multiply-accumulates of its whole training as papers count them,
    `executed_macs` as a GPU computes them; None where it is refused.
    `vocabulary`: the symbols that the parameters are counted with, `of_data` whether they are
    those of the data themselves or what the settings allow. `counted`: at which sizes.
    """

    cell: Cell
    action: str
    parameters: int | None = None
    macs: int | None = None
    training_macs: float | None = None
    executed_macs: float | None = None
    seconds: float | None = None
    vocabulary: int | None = None
    of_data: bool = False
    counted: str = ""


@dataclass(frozen=True)
class Plan:
    """All cells; `measured` are the finished cells that the times rest on, empty if none."""

    cells: tuple[PlannedCell, ...]
    measured: tuple[RunRecord, ...]
    cores: int
    gmacs: float | None

    @property
    def to_run(self) -> list[PlannedCell]:
        """The cells that a run would start."""
        return [planned for planned in self.cells if planned.action == "run"]

    @property
    def seconds(self) -> float:
        """Time of the cells that would run, one after the other."""
        return sum(planned.seconds or 0.0 for planned in self.to_run)

    @property
    def training_macs(self) -> float:
        """Multiply-accumulates of the cells that would run, as papers count them."""
        return sum(planned.training_macs or 0.0 for planned in self.to_run)

    @property
    def executed_macs(self) -> float:
        """Multiply-accumulates of the cells that would run, as a GPU computes them."""
        return sum(planned.executed_macs or 0.0 for planned in self.to_run)

    @property
    def gpu_hours(self) -> float:
        """Hours of one GPU at the assumed speed."""
        return self.executed_macs / (1e9 * (self.gmacs or GMACS_A_GPU)) / 3600

    @property
    def basis(self) -> str:
        """What `seconds` rests on."""
        if self.measured:
            devices = " / ".join(dict.fromkeys(r.device for r in self.measured))
            number = len(self.measured)
            return f"{number} finished cell{'s' * (number > 1)} of this grid, on {devices}"
        cores = "" if self.gmacs else f" of {self.cores} core{'s' * (self.cores > 1)}"
        speed = self.gmacs or self.cores * GMACS_A_CORE
        return (
            "a guess without evaluation: 3 x the multiply-accumulates of all that training reads, "
            f"at an assumed {_speed(speed)}{cores}"
        )

    @property
    def obstacles(self) -> list[str]:
        """What the settings of the cells that would run lack, a sentence each."""
        found: dict[str, None] = {}
        for planned in self.to_run:
            config: Any = planned.cell.config
            try:
                config.check_training()
            except ConfigError as error:
                found[str(error)] = None
        return list(found)

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
                    "vocabulary": planned.vocabulary,
                    "vocabulary_of": "data" if planned.of_data else "settings",
                    "macs": planned.macs,
                    "training_macs": planned.training_macs,
                    "executed_macs": planned.executed_macs,
                    "seconds_estimated": planned.seconds,
                }
                for planned in self.cells
            ],
            "obstacles": self.obstacles,
            "seconds_estimated": self.seconds,
            "basis": self.basis,
            "training_macs": self.training_macs,
            "executed_macs": self.executed_macs,
            "gpu_hours_guessed": self.gpu_hours,
        }


def make_plan(cells: Sequence[Cell], store: Store, *, gmacs: float | None = None) -> Plan:
    """Plan a run of `cells` into `store`.

    A cell's time is what finished cells with the same settings took, those of its own row, else
    those of the others among `cells`; where there are none, its training's multiply-accumulates
    at `gmacs` x 10^9 a second (default: an assumed speed of this machine's cores).
    """
    first = cells[0]
    records = store.records(first.grid, first.dataset, first.preset)
    hashes = {cell.config_hash for cell in cells}
    done = [r for r in records if r.status == "done" and r.config_hash in hashes]
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    speed = 1e9 * (gmacs or GMACS_A_CORE * min(cores, torch.get_num_threads()))
    costs: dict[str, PlannedCell] = {}
    vocabularies = Vocabularies(done)
    planned: list[PlannedCell] = []
    for cell in cells:
        action = _action(cell, store)
        if cell.refusal is not None:
            planned.append(PlannedCell(cell, action))
            continue
        if cell.config_hash not in costs:
            costs[cell.config_hash] = _cost(cell, vocabularies.size(cell))
        cost = costs[cell.config_hash]
        work = cost.training_macs or 0.0
        seconds = _as_measured(cell, done) if done else work / speed
        planned.append(replace(cost, cell=cell, action=action, seconds=seconds))
    return Plan(tuple(planned), tuple(done), min(cores, torch.get_num_threads()), gmacs)


def plan_table(plan: Plan) -> Table:
    """For the terminal: one line a cell."""
    table = Table(box=None, pad_edge=False)
    table.add_column("row")
    for heading in ("seed", "params", "MACs", "time"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for planned in plan.cells:
        refusal = planned.cell.refusal
        table.add_row(
            planned.cell.row,
            str(planned.cell.seed),
            count(planned.parameters),
            count(planned.macs),
            "–" if planned.seconds is None else f"~{spoken(planned.seconds)}",
            f"n/a: {refusal}" if refusal else planned.action,
        )
    return table


def summary(plan: Plan, jobs: int = 1) -> list[str]:
    """The lines under the table."""
    total = len(plan.cells)
    states = Counter(planned.action for planned in plan.cells)
    parts = [f"{states['run']} to run", f"{states['done']} done"]
    parts += [f"{states[name]} {name}" for name in ("failed", "diverged", "n/a") if states[name]]
    lines = [f"{total} cell{'s' * (total != 1)}: {', '.join(parts)}"]
    if states["failed"] or states["diverged"]:
        lines[0] += "; --only failed runs the failed ones again"
    lines += [f"would not start: {sentence}" for sentence in plan.obstacles]
    lines += _vocabularies(plan)
    if states["run"]:
        lines.append(f"estimated time {spoken(plan.seconds / jobs)} ({plan.basis})")
        lines.append(
            f"{plan.gpu_hours:,.2f} GPU hours at an assumed {_speed(plan.gmacs or GMACS_A_GPU)} "
            f"({count(round(plan.executed_macs))} multiply-accumulates as a GPU computes them, "
            f"{count(round(plan.training_macs))} as papers count them)"
        )
    return lines


def _speed(gmacs: float) -> str:
    """`20 x 10^9 multiply-accumulates a second`."""
    return f"{gmacs:,g} x 10^9 multiply-accumulates a second"


def _vocabularies(plan: Plan) -> list[str]:
    """Which vocabulary the parameters are counted with."""
    counted = {(p.of_data, p.vocabulary): None for p in plan.cells if p.vocabulary is not None}
    if not counted:  # a task whose sizes come from the data altogether
        sizes = dict.fromkeys(p.counted for p in plan.cells if p.counted)
        return [f"params and MACs: {size}, whatever the data have" for size in sizes]
    return [
        f"params: with the {size:,} symbols of the data's own vocabulary"
        if of_data
        else f"params: with vocabulary_size={size} symbols; the data may have fewer, known "
        "once a cell is done, or before if --root is given and holds less than 50 MB"
        for of_data, size in counted
    ]


def _cost(cell: Cell, vocabulary: int | None) -> PlannedCell:
    """`vocabulary`: the size of the data's own, None where it isn't known."""
    config = cell.config
    if vocabulary is not None:
        config = config.model_copy(update={"vocabulary_size": vocabulary})
    report = cell.entry.measure(config)
    passes = cell.entry.training_items(cell.config) / report.tokens
    return PlannedCell(
        cell,
        "",
        report.parameters,
        report.macs,
        FORWARD_AND_BACKWARD * report.macs * passes,
        FORWARD_AND_BACKWARD * report.macs_executed * passes,
        vocabulary=getattr(config, "vocabulary_size", None),
        of_data=vocabulary is not None,
        counted=report.note,
    )


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


def _as_measured(cell: Cell, done: Sequence[RunRecord]) -> float:
    """Mean time of this row's runs, else of all rows'."""
    own = [r.seconds.get("total", 0.0) for r in done if r.row == cell.row]
    return statistics.fmean(own or [r.seconds.get("total", 0.0) for r in done])
