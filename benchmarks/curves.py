"""Validation curves of a grid's rows, from the histories of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from ..results import RunRecord, Store, StoreError
from .cell import Cell
from .errors import UsageError
from .history import Entry, History, live_history
from .records import HISTORY

Along = Literal["updates", "epochs", "seconds"]


@dataclass(frozen=True)
class Segment:
    """One phase of one row: for each validation the mean over seeds, and the least and most."""

    phase: str
    along: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Curve:
    """One row.

    `begins` is where each phase after the first one begins, on the axis that is gone along.
    """

    row: str
    seeds: int
    segments: list[Segment]
    begins: list[float] = field(default_factory=list)


def history_of(store: Store, cell: Cell) -> tuple[list[Entry], str]:
    """The validations of a cell with its present settings, or why there are none."""
    try:
        record = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
    except StoreError as error:
        return [], str(error)
    same = record is not None and record.config_hash == cell.config_hash
    if same and record is not None and record.status in ("done", "diverged"):
        entries = History(store.path(cell).parent / HISTORY).entries()
        return entries, "" if entries else "has no history of its validations"
    entries = live_history(store, cell).entries()
    return entries, "" if entries else _why_none(record, same, cell)


def _why_none(record: RunRecord | None, same: bool, cell: Cell) -> str:
    if cell.refusal is not None:
        return f"n/a: {cell.refusal}"
    if record is not None and same:
        return f"{record.status}: {record.reason}"
    if record is not None:
        return f"is {record.status} with other settings than these"
    return "has not been validated yet"


def make_curves(
    cells: Sequence[Cell], store: Store, metric: str, along: Along = "updates"
) -> tuple[list[Curve], list[str]]:
    """The curve of each row of `cells` that has one, and a sentence for all that is missing.

    Raises UsageError where no row has a history, or none has the metric.
    """
    histories: dict[str, dict[int, list[Entry]]] = {}
    notes: list[str] = []
    for cell in cells:
        entries, why = history_of(store, cell)
        if entries:
            histories.setdefault(cell.row, {})[cell.seed] = entries
        else:
            notes.append(f"{cell.name} {why}")
    if not histories:
        first = cells[0]
        raise UsageError(
            f"no validation of {first.grid}, {first.dataset}.{first.preset}, is kept in "
            f"{store.out}: {notes[0]}"
        )
    _check_metric(histories, metric)
    curves: list[Curve] = []
    for row, by_seed in histories.items():
        curve, said = _curve(row, by_seed, metric, along)
        curves += [curve] if curve else []
        notes += said
    return curves, notes


def _check_metric(histories: Mapping[str, Mapping[int, list[Entry]]], metric: str) -> None:
    known = {
        name
        for by_seed in histories.values()
        for entries in by_seed.values()
        for entry in entries
        for name in entry.values
    }
    if metric not in known:
        raise UsageError(f"no validation has {metric!r}; there are {', '.join(sorted(known))}")


def _curve(
    row: str, by_seed: Mapping[int, list[Entry]], metric: str, along: Along
) -> tuple[Curve | None, list[str]]:
    points = {seed: _points(entries, metric, along) for seed, entries in by_seed.items()}
    points = {seed: found for seed, found in points.items() if found}
    notes = [f"{row} seed {seed} has no {metric}" for seed in by_seed.keys() - points.keys()]
    if not points:
        return None, notes
    shared = [key for key in next(iter(points.values())) if all(key in p for p in points.values())]
    most = max(points, key=lambda seed: len(points[seed]))
    if len(shared) < len(points[most]):
        notes.append(
            f"{row} is drawn at the {len(shared)} validations that all its seeds have, of "
            f"{len(points[most])} of seed {most}"
        )
    segments: list[Segment] = []
    for phase in dict.fromkeys(phase for phase, _ in shared):
        keys = [key for key in shared if key[0] == phase]
        values = [[found[key][1] for found in points.values()] for key in keys]
        segments.append(
            Segment(
                phase,
                along=[fmean(found[key][0] for found in points.values()) for key in keys],
                mean=[fmean(each) for each in values],
                low=[min(each) for each in values],
                high=[max(each) for each in values],
            )
        )
    begins = [_begins(entries, along) for entries in by_seed.values()]
    mean_begins = [fmean(each) for each in zip(*begins, strict=False)]
    return Curve(row, len(points), segments, mean_begins), notes


def _points(
    entries: Sequence[Entry], metric: str, along: Along
) -> dict[tuple[str, int], tuple[float, float]]:
    """Place and value of each validation that has a finite one, by phase and update."""
    phases = list(dict.fromkeys(entry.phase for entry in entries))
    begins = dict(zip(phases, [0.0, *_begins(entries, along)], strict=True))
    return {
        (entry.phase, entry.update): (begins[entry.phase] + _place(entry, along), value)
        for entry in entries
        if (value := entry.values.get(metric)) is not None
    }


def _begins(entries: Sequence[Entry], along: Along) -> list[float]:
    """Where each phase after the first one begins."""
    begins: list[float] = []
    total = 0.0
    last = {entry.phase: entry for entry in entries}
    for entry in list(last.values())[:-1]:
        total += entry.updates if along == "updates" else _place(entry, along)
        begins.append(total)
    return begins


def _place(entry: Entry, along: Along) -> float:
    return {"updates": entry.update, "epochs": entry.epoch, "seconds": entry.seconds}[along]
