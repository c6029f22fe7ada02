"""`attnbench cost`: parameters and multiply-accumulates of every row; trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from ..results import Published
from .cell import Cell, Choice, make_cells
from .grid import Grid, Row

GFLOPS = "GFLOPs"
MILLIONS = "params_M"

EXPLAINED = (
    "GFLOPs are 10^9 multiply-accumulates of the explicit path, counted over the real modules; "
    "executed are those of the path that a GPU would take"
)
"""What the columns count."""


@dataclass(frozen=True)
class RowCost:
    """The cost of one row beside the paper's numbers for it.

    The counts are None where the row can't be built; `reason` says why. `note` says what was
    counted, and at which size.
    """

    grid: str
    row: str
    params: int | None
    macs: int | None
    macs_executed: int | None
    published: dict[str, float]
    reason: str = ""
    note: str = ""

    @property
    def gflops(self) -> float | None:
        """10^9 multiply-accumulates: what the papers call GFLOPs."""
        return None if self.macs is None else self.macs / 1e9

    def as_json(self) -> dict[str, Any]:
        """Plain values; `reason` only where there is one."""
        names = ("grid", "row", "params", "macs", "macs_executed", "published")
        values = {name: getattr(self, name) for name in names}
        return values | ({"reason": self.reason} if self.reason else {})


def grid_costs(grid: Grid, choice: Choice) -> list[RowCost]:
    """The cost of every row that can be run. Raises GridError, UsageError."""
    published = Published.load()
    rows = {row.row: row for row in grid.rows}
    return [
        _row_cost(cell, _published(grid, rows[cell.row], published))
        for cell in make_cells(grid, choice)
    ]


def cost_table(costs: Sequence[RowCost]) -> Table:
    """For the terminal: one line a row."""
    table = Table(box=None, pad_edge=False)
    table.add_column("row")
    beside = {name for cost in costs for name in cost.published}
    headings = ["params", *["published", "diff"] * (MILLIONS in beside)]
    headings += ["GFLOPs", *["published", "diff"] * (GFLOPS in beside), "executed"]
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("")
    for cost in costs:
        millions = None if cost.params is None else cost.params / 1e6
        executed = None if cost.macs_executed is None else cost.macs_executed / 1e9
        cells = [_number(millions, ".2f", " M")]
        if MILLIONS in beside:
            cells += _compared(millions, cost.published.get(MILLIONS), " M")
        cells.append(_number(cost.gflops, ".2f"))
        if GFLOPS in beside:
            cells += _compared(cost.gflops, cost.published.get(GFLOPS))
        cells.append(_number(executed, ".2f"))
        table.add_row(cost.row, *cells, f"n/a: {cost.reason}" if cost.reason else "")
    return table


def _row_cost(cell: Cell, published: dict[str, float]) -> RowCost:
    if cell.refusal is not None:
        return RowCost(cell.grid, cell.row, None, None, None, published, cell.refusal)
    report = cell.entry.measure(cell.config)
    return RowCost(
        cell.grid,
        cell.row,
        report.parameters,
        report.macs,
        report.macs_executed,
        published,
        note=report.note,
    )


def _published(grid: Grid, row: Row, published: Published) -> dict[str, float]:
    place = grid.published_place(row)
    if place is None or row.published is None:
        return {}
    values = published.row(*place, row.published)
    return {metric: value.value for metric, value in values.items()}


def _compared(counted: float | None, printed: float | None, unit: str = "") -> list[str]:
    """The published number and how far ours is from it."""
    difference = None if printed is None or counted is None else counted - printed
    return [_number(printed, ".1f", unit), _number(difference, "+.2f")]


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"
