"""Records of cells: what every one of them states, and what happens to an older one."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..results import RunRecord, Store, StoreError, environment
from .cell import Cell

WEIGHTS = "weights.safetensors"
HISTORY = "history.jsonl"
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
    make_room(store, cell)
    store.write(record, replace=True)
    return record


def make_room(store: Store, cell: Cell) -> Path | None:
    """Set the results of a done run aside, whatever comes in their place: nothing done is lost.

    Its record, weights, history and predictions get the hash of its settings into their names, and
    a number where that name is taken; tables don't read them there. Gives the record's new path,
    None where there was nothing to keep.
    """
    try:
        old = store.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
    except StoreError:
        return None  # a record that can't be read is set aside when the new one is written
    if old is None or old.status != "done":
        return None
    folder, record = store.path(cell).parent, store.path(cell)
    earlier = folder.glob(weights_of("*"))
    files = [*(folder / name for name in (WEIGHTS, HISTORY, *PREDICTIONS)), *earlier]
    files.append(record)  # the last one to go
    mark = next(mark for mark in _marks(old.config_hash) if not _taken(files, mark))
    for path in files:
        if path.exists():
            path.replace(set_aside_as(path, mark))
    return set_aside_as(record, mark)


def checkpoints_folder(store: Store, cell: Cell) -> Path:
    """Where a cell's checkpoints lie as long as it isn't finished; one folder a configuration."""
    return store.path(cell).parent / "checkpoints" / cell.config_hash


def weights_of(phase: str) -> str:
    """The file with the weights that an earlier phase of training ended with."""
    return f"{phase}.{WEIGHTS}"


def set_aside_as(path: Path, mark: str) -> Path:
    """`record.json` -> `record.<mark>.json`."""
    return path.with_name(f"{path.stem}.{mark}{path.suffix}")


def _marks(config_hash: str) -> Iterator[str]:
    """The hash, then the hash with 2, 3, ..."""
    yield config_hash
    for number in itertools.count(2):
        yield f"{config_hash}-{number}"


def _taken(files: Sequence[Path], mark: str) -> bool:
    return any(set_aside_as(path, mark).exists() for path in files)


def now() -> datetime.datetime:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC)
