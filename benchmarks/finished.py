"""A finished run brought back from its folder: record, data and the module with its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..datamodules.errors import DataError
from ..results import RunRecord, StoreError
from ..tasks.module import TaskModule
from ..tasks.registry import TaskEntry
from ..tasks.settings import resolve
from .cell import task_entry
from .errors import UsageError
from .grid import Settings
from .records import WEIGHTS, weights_of
from .runlog import away_from_the_terminal

RECORD = "record.json"


@dataclass(frozen=True)
class FinishedRun:
    """What a run left, ready to be asked.

    `data` is the task's data module, `module` has the weights, `earlier` says that they are those
    of an earlier phase than the record's.
    """

    folder: Path
    record: RunRecord
    data: Any
    module: TaskModule
    earlier: bool = False


def load_run(
    run: Path,
    *,
    root: Path | None = None,
    phase: str | None = None,
    settings: Settings | None = None,
) -> FinishedRun:
    """Bring a finished run back; nothing is trained.

    Args:
        run: the run's folder, or its record.
        root: folder of the data set.
        phase: take the weights of this earlier phase of training.
        settings: stronger than the record's, e.g. where features lie or a beam width.

    Raises:
        UsageError: no finished run is there, or it has no weights of that phase.
        StoreError: the record or the weights can't be read.
        ConfigError, DataError: settings or data that don't fit the run.
    """
    folder, record = _record(run)
    weights = _weights(folder, record, phase)
    entry = task_entry(record.task)
    place = {} if root is None else {"root": root}
    known = {**record.config, **_no_first_weights(entry), **place, **(settings or {})}
    config: Any = resolve(entry.config, known)
    with away_from_the_terminal(lambda line: None):
        config.check_machine()
        if config.threads:
            torch.set_num_threads(config.threads)
        data: Any = entry.data(config)
        _check_vocabulary(record, data)
        _check_classes(record, data)
        module = entry.build(config, data)
    _load(module, weights, folder)
    return FinishedRun(folder, record, data, module, _is_earlier(record, phase))


def _no_first_weights(entry: TaskEntry) -> dict[str, Any]:
    """Leave out the file that training began with: the run's own weights take their place."""
    return {name: None for name in ("weights",) if name in entry.config.model_fields}


def _record(run: Path) -> tuple[Path, RunRecord]:
    """The run's folder and its record, which must be done."""
    path = run / RECORD if run.is_dir() else run
    if not path.is_file():
        raise UsageError(
            f"there is no finished run in {run}: give the folder that holds its {RECORD}, such as "
            "runs/GRID/DATASET.PRESET/ROW/seed0"
        )
    try:
        record = RunRecord.from_json(path.read_bytes())
    except StoreError as error:
        raise StoreError(f"can't read {path}: {error}; give another run") from None
    if record.status != "done":
        raise UsageError(f"{path} is of a run that is {record.status}: {record.reason}")
    return path.parent, record


def _weights(folder: Path, record: RunRecord, phase: str | None) -> dict[str, Tensor]:
    final = not _is_earlier(record, phase)
    path = folder / (WEIGHTS if final or phase is None else weights_of(phase))
    if not path.is_file():
        there = [found.name.removesuffix(f".{WEIGHTS}") for found in folder.glob(weights_of("*"))]
        known = ", ".join(filter(None, [record.phase, *sorted(there)]))
        if final:
            hint = "; run the cell again"
        elif known:
            hint = f": its phases are {known}"
        else:
            hint = ": its training has only one phase, leave out --phase"
        raise UsageError(f"{folder} has no {path.name}{hint}")
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"can't read the weights {path}: {error}; run the cell again") from None


def _is_earlier(record: RunRecord, phase: str | None) -> bool:
    return phase not in (None, "", record.phase)


def _check_vocabulary(record: RunRecord, data: Any) -> None:
    """Other words would get the weights of those that the model learnt."""
    hashes = record.data.fingerprint.items()
    known = {name: digest for name, digest in hashes if name.endswith("vocabulary")}
    if not known:  # a fingerprint needs all splits, and of images they aren't needed here
        return
    now = data.fingerprint()
    if any(now.get(name, digest) != digest for name, digest in known.items()):
        raise DataError(
            "the data give another vocabulary than the run was trained with: give the --root "
            "and the settings it was trained on"
        )


def _check_classes(record: RunRecord, data: Any) -> None:
    """As many classes of other names, or in another order, would get the wrong ones' scores."""
    known, now = record.data.card.get("classes"), getattr(data, "classes", None)
    if isinstance(known, list) and now is not None and known != list(now):
        raise DataError(
            f"the data have the classes {_few(now)} and the run was trained with {_few(known)}: "
            "give the --root and the settings it was trained on"
        )


def _few(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:5])) + (", …" if len(names) > 5 else "")


def _load(module: TaskModule, weights: dict[str, Tensor], folder: Path) -> None:
    """Fill the module; a tensor that has several names is stored under one of them."""
    there = dict(module.named_parameters()) | dict(module.named_buffers())
    wrong = sorted(
        name
        for name in there.keys() | weights.keys()
        if name not in there or name not in weights or there[name].shape != weights[name].shape
    )
    if wrong:
        raise DataError(
            f"the weights in {folder} are another model's ({wrong[0]}): give the settings and data "
            "that the run was made with"
        )
    module.load_state_dict(weights, strict=False)
