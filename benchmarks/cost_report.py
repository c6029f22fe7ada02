"""Costs as a Markdown file: counted beside published, and what attention adds to each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..results.layout import Layout, Text
from ..results.markdown import markdown
from .cost import EXPLAINED, GFLOPS, RowCost

WITHOUT = "w/o"
"""Name of a row without attention, and the start of the name of one with a convolution only."""

_HEADINGS = ("row", "params (M)", "GFLOPs", "published", "ratio", "adds", "published", "ratio",
             "executed")  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """All rows of one grid, of one task."""

    title: str
    task: str
    rows: Sequence[RowCost]


def baseline_of(row: str) -> str:
    """The row without attention that a row is held against: `w/o`, or `w/o+deformable`."""
    _, plus, rest = row.partition("+")
    return WITHOUT + plus + rest


def added(cost: RowCost, rows: Mapping[str, RowCost]) -> tuple[float | None, float | None]:
    """GFLOPs that a row has more than its row without attention: counted and published.

    Args:
        cost: the row.
        rows: all rows of its task by name; None is given where the one without isn't there.
    """
    base = rows.get(baseline_of(cost.row))
    if base is None or base.row == cost.row:
        return None, None
    ours = None if cost.gflops is None or base.gflops is None else cost.gflops - base.gflops
    printed = (cost.published.get(GFLOPS), base.published.get(GFLOPS))
    theirs = None if printed[0] is None or printed[1] is None else printed[0] - printed[1]
    return ours, theirs


def cost_report(grids: Sequence[Counted], command: str) -> str:
    """A Markdown table for each grid.

    What a row adds is counted from the row `w/o` (`w/o+deformable` for rows that end so) of the
    same task, which may stand in another of the grids.
    """
    return "\n".join(markdown(_layout(grid, _by_name(grids, grid.task), command)) for grid in grids)


def _by_name(grids: Sequence[Counted], task: str) -> dict[str, RowCost]:
    named: dict[str, RowCost] = {}
    for grid in grids:
        for cost in grid.rows if grid.task == task else ():
            named.setdefault(cost.row, cost)
    return named


def _layout(grid: Counted, rows: Mapping[str, RowCost], command: str) -> Layout:
    notes = dict.fromkeys(cost.note for cost in grid.rows if cost.note)
    notes |= {f"{cost.row}: n/a, {cost.reason}": None for cost in grid.rows if cost.reason}
    explained = (
        f"{EXPLAINED}; adds is the difference from the row {WITHOUT} ({WITHOUT}+deformable for "
        "rows with deformable convolution)."
    )
    return Layout(
        title=grid.title,
        headings=_HEADINGS,
        aligned="l" + "r" * (len(_HEADINGS) - 1),
        rows=tuple(tuple(Text(cell) for cell in _cells(cost, rows)) for cost in grid.rows),
        footnotes=(*notes, explained),
        how=(("command", command),),
    )


def _cells(cost: RowCost, rows: Mapping[str, RowCost]) -> list[str]:
    params = None if cost.params is None else cost.params / 1e6
    executed = None if cost.macs_executed is None else cost.macs_executed / 1e9
    published = cost.published.get(GFLOPS)
    ours, theirs = added(cost, rows)
    compared = [_number(cost.gflops), _number(published, 1), _ratio(cost.gflops, published)]
    difference = [_number(ours), _number(theirs, 1), _ratio(ours, theirs)]
    return [cost.row, _number(params), *compared, *difference, _number(executed)]


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "–" if ours is None or not theirs else f"{ours / theirs:.4f}"


def _number(value: float | None, decimals: int = 2) -> str:
    return "–" if value is None else f"{value:.{decimals}f}"
