"""The settings that a grid's rows have now, for telling older records from present ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..datamodules.registry import DATASETS
from ..results import Found, PresentSettings, RunRecord
from .grid import Grid, Row, Settings


def present_settings(
    grid: Grid,
    dataset: str,
    preset: str,
    rows: Sequence[Row],
    settings: Settings,
    records: Found[RunRecord],
) -> dict[str, PresentSettings]:
    """The present settings of each row, `settings` given beside the grid's included.

    Settings are a task's, so this loads torch; it doesn't where there is nothing to compare: no
    record and no `settings`. Records of a preset or data set that is gone can't be compared
    either, which `records.warnings` is told. Raises GridError, UsageError.
    """
    if not records and not settings:
        return {}
    if preset not in grid.preset_names or dataset not in DATASETS:
        gone = f"preset {preset!r}" if preset not in grid.preset_names else f"data set {dataset!r}"
        records.warnings.append(
            f"there is no {gone} any more, so these runs can't be compared with the grid's settings"
        )
        return {}
    from .cell import Choice, make_cells

    names = [row.row for row in rows if not row.reference]
    choice = Choice(preset=preset, dataset=dataset, rows=names, settings=settings)
    present: dict[str, PresentSettings] = {}
    for cell in make_cells(grid, choice):
        unhashed = cell.entry.unhashed
        config = {k: v for k, v in cell.stored_config().items() if k not in unhashed}
        present[cell.row] = PresentSettings(cell.config_hash, config, cell.refusal)
    return present
