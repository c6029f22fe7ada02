"""Records of cells: what every one of them states, and what happens to an older one."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from ..results import RunRecord, Store, StoreError, environment
from .cell import Cell

WEIGHTS = "weights.safetensors"
PREDICTIONS = ("predictions.txt", "predictions.json")


def begin_record(cell: Cell, command: str) -> dict[str, Any]:
    """The fields of a record that are known before the run."""
    return {
        "grid": cell.grid,
        "row": cell.row,
        "cell": f"{cell.config_hash}-{cell.seed}",
        "seed": cell.seed,
        "task": cell.task,
        "dataset": cell.dataset,
        "preset": cell.preset,
        "command": command,
        "config": cell.stored_config(),
        "config_hash": cell.config_hash,
        "started": now(),
        **environment(),
    }


def finish_record(store: Store, cell: Cell, begun: dict[str, Any], **outcome: Any) -> RunRecord:
    """Store the record of a run that came to an end, good or bad, and return it."""
    record = RunRecord.model_validate({**begun, **outcome, "finished": now()})
    make_room(store, cell, failed=record.status != "done")
    store.write(record, replace=True)
    return record


def make_room(store: Store, cell: Cell, *, failed: bool = False) -> Path | None:
    """Set the results of a done run aside if they are other settings', or if the new run failed.

    Its record, weights and predictions get the hash of its settings into their names; tables
    don't read them there. Gives the record's new path, None where there was nothing to keep.
    """
    try:
        old = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
    except StoreError:
        return None  # a record that can't be read is set aside when the new one is written
    if old is None or old.status != "done":
        return None
    if old.config_hash == cell.config_hash and not failed:
        return None
    folder = store.path(cell).parent
    for path in (*(folder / name for name in (WEIGHTS, *PREDICTIONS)), store.path(cell)):
        if path.exists():
            path.replace(set_aside_as(path, old.config_hash))
    return set_aside_as(store.path(cell), old.config_hash)


def set_aside_as(path: Path, config_hash: str) -> Path:
    """`record.json` -> `record.<hash>.json`."""
    return path.with_name(f"{path.stem}.{config_hash}{path.suffix}")


def now() -> datetime.datetime:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC)
