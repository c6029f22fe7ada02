"""One cell from settings to record: prepare, train (or go on), average, evaluate."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import safetensors.torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from ..datamodules.errors import DataError
from ..results import DataStamp, RunRecord, Store, StoreError, write_atomically
from ..tasks.errors import ConfigError, Diverged
from ..tasks.module import Evaluation, Phase, TaskModule
from . import again
from .callbacks import Clock, Report, SaveCheckpoints, WriteHistory
from .cell import Cell
from .checkpoints import Checkpoints, step_of
from .events import Advanced, Emit, Note
from .history import live_history
from .peak import peak_bytes, reset_peak
from .prepare import Prepared, prepare
from .records import (
    HISTORY,
    WEIGHTS,
    begin_record,
    checkpoints_folder,
    finish_record,
    make_room,
    weights_of,
)
from .runlog import RunLog, away_from_the_terminal, one_line
from .training import device_name, make_trainer

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OtherData(DataError):
    """A cell was begun on other training data, or first weights, than it is given now."""


@dataclass(frozen=True)
class RunOptions:
    """How cells are run, none of which changes a result.

    `command` is what the user typed, for the record. `worker` numbers the processes of one run;
    with several GPUs it chooses one. `anew`: don't go on from a cell's checkpoints.
    """

    command: str = ""
    keep_checkpoints: bool = False
    worker: int = 0
    anew: bool = False


def prepare_first(cell: Cell, store: Store, anew: bool) -> Prepared:
    """Prepare the first cell of a run, before anything is written.

    If that isn't possible, it most likely isn't for the others either, so the run stops here.

    Raises:
        DataError, ConfigError: see `prepare`; or the cell was begun on other data.
    """
    ready = prepare(cell)
    if not anew:
        _check_begun_on(cell, _checkpoints(cell, store), ready)
    return ready


def run_cell(
    cell: Cell, store: Store, options: RunOptions, emit: Emit, ready: Prepared | None = None
) -> RunRecord:
    """Run `cell` and store its record, which is also returned.

    A run that fails or diverges, or a cell that can't be run at all, gets a record with the
    reason. The caller holds the cell's lock. `ready` is the cell, if it is prepared already.

    Raises:
        OtherData: the cell was begun on other training data.
        StoreError: a file can't be written, e.g. a full disk; that holds for other cells too.
        Interrupted: passed through; the next run goes on from the newest checkpoint.
    """
    begun = begin_record(cell, options.command)
    if cell.refusal is not None:
        return finish_record(store, cell, begun, status="refused", reason=cell.refusal)
    folder = store.path(cell).parent
    with _log(folder) as log, away_from_the_terminal(log.write):
        log.write(f"cell {cell.name} of {cell.grid}, settings {cell.config_hash}")
        run = _Run(cell, store, options, emit, log)
        try:
            outcome = run.execute(ready or prepare(cell))
        except (OtherData, StoreError) as error:
            log.write(f"stopped: {error}")
            raise
        except (ConfigError, DataError) as error:
            outcome = {"status": "failed", "reason": " ".join(str(error).split())}
        except Diverged as error:
            outcome = {"status": "diverged", "reason": str(error)}
        except Exception as error:
            _raise_if_disk_full(error, folder)
            log.write(traceback.format_exc())
            outcome = {"status": "failed", "reason": one_line(error)}
        kept = run.make_room()
        if kept is not None and outcome["status"] != "done":
            emit(Note(f"{cell.name}: the finished record is kept as {kept}"))
        ended = outcome["status"] in ("done", "diverged")  # a failed run may go on
        if ended:
            run.history.copy_to(folder / HISTORY)
        record = finish_record(store, cell, begun, **outcome)
        if ended and not (options.keep_checkpoints and record.status == "done"):
            run.checkpoints.remove()
        log.write(" ".join(filter(None, (record.status, record.reason, _shown(record.metrics)))))
    return record


class _Run:
    """The steps of one run, with what they share."""

    def __init__(
        self, cell: Cell, store: Store, options: RunOptions, emit: Emit, log: RunLog
    ) -> None:
        self.cell, self.store, self.options, self.emit, self.log = cell, store, options, emit, log
        self.config: Any = cell.config  # a TrainingConfig
        self.folder = store.path(cell).parent
        self.checkpoints = _checkpoints(cell, store)
        self.history = live_history(store, cell)
        self._say("preparing")

    def execute(self, ready: Prepared) -> dict[str, Any]:
        """Everything; gives the fields of a record that is done."""
        for line in ready.said:
            self.log.write(line)
        self.log.write(ready.card.render())
        if self.options.anew and self.checkpoints.any():
            self.log.write("starting anew, without the checkpoints that lay here")
            self.checkpoints.remove()
        again.begin(self.folder, self.cell.config_hash)
        _check_begun_on(self.cell, self.checkpoints, ready)
        self.checkpoints.belong_to(ready.begun_on)
        phases = self.cell.entry.phases(self.config)
        device = self._trainer(phases[0]).strategy.root_device
        reset_peak(device)
        seconds = {"prepare": ready.seconds, "train": 0.0}
        for phase in phases:
            seconds["train"] += self._train(ready, phase)
        began = time.monotonic()
        self._say("evaluating")
        evaluation = ready.module.to(device).evaluate(ready.data)
        seconds["evaluate"] = time.monotonic() - began
        self._warn(evaluation)
        seconds["total"] = sum(seconds.values())
        self._save_outputs(ready.module, evaluation)
        cost = self.cell.entry.measure(self.config)
        return {
            "status": "done",
            "phase": phases[-1].name,
            "data": DataStamp(
                fingerprint=ready.fingerprint, card=ready.card.model_dump(mode="json")
            ),
            "items": evaluation.items,
            "metrics": evaluation.metrics,
            "notes": evaluation.reasons,
            "signatures": evaluation.signatures,
            "parameters": sum(p.numel() for p in ready.module.parameters()),
            "macs": cost.macs,
            "macs_executed": cost.macs_executed,
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "peak_memory_bytes": peak_bytes(device),
            "device": device_name(device),
        }

    def _say(self, doing: str) -> None:
        self.log.write(doing)
        self.emit(Advanced(worker=self.options.worker, cell=self.cell.name, phase=doing))

    def _warn(self, evaluation: Evaluation) -> None:
        """Say what some values are to be read with; metrics with the same words in one line."""
        said: dict[str, list[str]] = {}
        for name, words in evaluation.reasons.items():
            if evaluation.metrics.get(name) is not None:
                said.setdefault(words, []).append(name)
        for words, names in said.items():
            self.emit(Note(f"{self.cell.name}: {', '.join(names)}: {words}"))

    def _train(self, ready: Prepared, phase: Phase) -> float:
        """Train a phase, or go on with it, to its final weights; gives the seconds it took."""
        doing = f"training ({phase.name})" if phase.name else "training"
        self._say(doing)
        clock, checkpoints = Clock(), self.checkpoints.of_phase(phase.name, phase.keep)
        callbacks = [
            clock,
            WriteHistory(self.history, phase, clock),
            SaveCheckpoints(checkpoints, phase.check_every),
            Report(self.options.worker, self.cell.name, doing, self.emit, self.log),
        ]
        trainer = self._trainer(phase, callbacks)
        ready.module.begin_phase(phase, ready.data)
        resume = self._where_to_go_on(checkpoints)
        trainer.fit(ready.module, datamodule=ready.data, ckpt_path=resume, weights_only=True)
        self._finish(ready.module, checkpoints)
        return clock.seconds

    def _trainer(self, phase: Phase, callbacks: Sequence[Callback] = ()) -> lightning.Trainer:
        worker, folder = self.options.worker, self.folder
        return make_trainer(self.config, phase, worker=worker, folder=folder, callbacks=callbacks)

    def _where_to_go_on(self, checkpoints: Checkpoints) -> str | None:
        """The newest checkpoint that can be read, if this phase was begun before."""
        path, broken = checkpoints.newest_readable()
        for damaged in broken:
            self.log.write(f"{damaged.name} can't be read and is removed")
            damaged.unlink(missing_ok=True)
        if path is not None:
            self.log.write(f"going on from {path.name}")
            of = f" of {checkpoints.phase}" if checkpoints.phase else ""
            self.emit(Note(f"{self.cell.name}: going on from update {step_of(path)}{of}"))
        return None if path is None else str(path)

    def _finish(self, module: TaskModule, checkpoints: Checkpoints) -> None:
        """Give the module the final weights of a phase."""
        for damaged in checkpoints.unreadable():
            self.log.write(f"{damaged.name} can't be read and is left out")
            damaged.unlink(missing_ok=True)
        weights, how = module.final_weights(checkpoints.last())
        for name, _ in module.named_parameters():
            if not weights[name].isfinite().all():
                raise Diverged(f"the final weights {name} hold numbers that aren't finite")
        module.load_state_dict(weights)
        self.log.write(how)

    def make_room(self) -> Path | None:
        """Set the results of an earlier run aside, and say so in the log."""
        kept = make_room(self.store, self.cell)
        if kept is not None:
            self.log.write(f"the record of the run before is kept as {kept.name}")
        return kept

    def _save_outputs(self, module: TaskModule, evaluation: Evaluation) -> None:
        self.make_room()
        self._save_weights(WEIGHTS, dict(_named(module)))
        for phase, weights in module.earlier_weights().items():
            self._save_weights(weights_of(phase), weights)
        if evaluation.kept:
            name, text = evaluation.file()
            write_atomically(self.folder / name, text.encode("utf-8", "replace"))

    def _save_weights(self, name: str, weights: Mapping[str, Tensor]) -> None:
        tensors = {key: value.detach().cpu().contiguous() for key, value in weights.items()}
        metadata = {"config_hash": self.cell.config_hash}  # one key: several come in any order
        write_atomically(self.folder / name, safetensors.torch.save(tensors, metadata))


def _checkpoints(cell: Cell, store: Store) -> Checkpoints:
    return Checkpoints(checkpoints_folder(store, cell))


def _check_begun_on(cell: Cell, checkpoints: Checkpoints, ready: Prepared) -> None:
    """Raise OtherData if the checkpoints that lie here may not be gone on from."""
    if checkpoints.any() and not checkpoints.are_of(ready.begun_on):
        weighted = "weights" in ready.begun_on
        raise OtherData(
            f"{cell.name} was begun on other training data{' or weights' * weighted}: give the "
            f"--root {'and weights ' * weighted}it was begun with, or start anew with --only all "
            "(--again for train)"
        )


def _raise_if_disk_full(error: Exception, folder: Path) -> None:
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        raise StoreError(
            f"can't write {error.filename or folder}: {(error.strerror or '').lower()}; free some "
            "space and start the same command again, what is finished is kept"
        ) from error


def _named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers, each once where several names share one."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _shown(metrics: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in metrics.items() if value is not None)


@contextmanager
def _log(folder: Path) -> Iterator[RunLog]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = RunLog(folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StoreError(f"can't write into {folder}: {reason}; choose another --out") from error
    try:
        yield log
    finally:
        log.close()
