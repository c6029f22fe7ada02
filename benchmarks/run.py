"""One cell from settings to record: prepare, train (or go on), average, evaluate."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning
import safetensors.torch
import torch
from torch import Tensor, nn

from ..datamodules.errors import DataError
from ..results import DataStamp, RunRecord, Store, StoreError, environment, write_atomically
from ..tasks.averaging import average_checkpoints
from ..tasks.errors import Diverged
from .callbacks import Clock, Report, SaveCheckpoints
from .cell import Cell
from .checkpoints import Checkpoints, WholeFiles
from .events import Advanced, Emit, Note
from .peak import peak_bytes, reset_peak
from .records import PREDICTIONS, WEIGHTS, begin_record, finish_record, make_room
from .runlog import RunLog, one_line

CHECKPOINTS = "checkpoints"

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class RunOptions:
    """How cells are run, none of which changes a result.

    `command` is what the user typed, for the record. `worker` numbers the processes of one run;
    with several GPUs it chooses one. `anew`: don't go on from a cell's checkpoints. `readable`:
    the cells whose data could be read; filled by `run_cell`, by each process for itself.
    """

    command: str = ""
    keep_checkpoints: bool = False
    worker: int = 0
    anew: bool = False
    readable: set[str] = field(default_factory=set, compare=False)


def run_cell(cell: Cell, store: Store, options: RunOptions, emit: Emit) -> RunRecord:
    """Run `cell` and store its record, which is also returned.

    A run that fails or diverges, or a cell that can't be run at all, gets a record with the
    reason. The caller holds the cell's lock.

    Raises:
        DataError: the data can't be read, nor could those of an earlier cell; where they could,
            the cell has failed.
        StoreError: a file can't be written, e.g. a full disk; that holds for other cells too.
        Interrupted: passed through; the next run goes on from the newest checkpoint.
    """
    begun = begin_record(cell, options.command)
    if cell.refusal is not None:
        return finish_record(store, cell, begun, status="refused", reason=cell.refusal)
    folder = store.path(cell).parent
    with _log(folder) as log, log.instead_of_the_terminal():
        log.write(f"cell {cell.name} of {cell.grid}, settings {cell.config_hash}")
        run = _Run(cell, store, options, emit, log)
        try:
            outcome = run.execute()
        except (DataError, StoreError) as error:
            if isinstance(error, StoreError) or not options.readable:
                log.write(f"stopped: {error}")
                raise
            outcome = {"status": "failed", "reason": " ".join(str(error).split())}
        except Diverged as error:
            outcome = {"status": "diverged", "reason": str(error)}
            run.checkpoints.remove()
        except Exception as error:
            _raise_if_disk_full(error, folder)
            log.write(traceback.format_exc())
            outcome = {"status": "failed", "reason": one_line(error)}
        kept = make_room(store, cell, failed=outcome["status"] != "done")
        if kept is not None:
            log.write(f"the finished record is kept as {kept.name}")
            emit(Note(f"{cell.name}: the finished record is kept as {kept}"))
        record = finish_record(store, cell, begun, **outcome)
        if record.status == "done" and not options.keep_checkpoints:
            run.checkpoints.remove()
        log.write(" ".join(filter(None, (record.status, record.reason, _shown(record.metrics)))))
    return record


class _Run:
    """The steps of one run, with what they share."""

    def __init__(
        self, cell: Cell, store: Store, options: RunOptions, emit: Emit, log: RunLog
    ) -> None:
        self.cell, self.store, self.options, self.emit, self.log = cell, store, options, emit, log
        # Every task's configuration has these settings under the same names.
        self.config: Any = cell.config
        self.folder = store.path(cell).parent
        self.checkpoints = Checkpoints(
            self.folder / CHECKPOINTS / cell.config_hash, keep=self.config.average_last
        )

    def execute(self) -> dict[str, Any]:
        """Everything; gives the fields of a record that is done."""
        begin = time.monotonic()
        self._phase("preparing")
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        data: Any = self.cell.entry.data(self.config)
        card, fingerprint = data.card(), data.fingerprint()
        data.predict_dataloader("test")  # so that bad test data stop the cell before training
        self.log.write(card.render())
        lightning.seed_everything(self.cell.seed, verbose=False)
        module: Any = self.cell.entry.build(self.config, data)
        clock = Clock()
        trainer = self._trainer(clock)
        device = trainer.strategy.root_device
        reset_peak(device)
        resume = self._where_to_go_on(fingerprint)
        self.options.readable.add(self.cell.name)
        prepared = time.monotonic()
        self._phase("training")
        trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        trained = time.monotonic()
        self._phase("evaluating")
        self._average(module)
        evaluation = module.to(device).evaluate(data)
        evaluated = time.monotonic()
        self._save_outputs(module, evaluation.predictions)
        cost = self.cell.entry.measure(self.config)
        seconds = {"prepare": prepared - begin, "train": clock.seconds}
        seconds["evaluate"] = evaluated - trained
        seconds["total"] = sum(seconds.values())
        return {
            "status": "done",
            "data": DataStamp(fingerprint=fingerprint, card=card.model_dump(mode="json")),
            "items": evaluation.items,
            "metrics": evaluation.metrics,
            "signatures": evaluation.signatures,
            "parameters": sum(p.numel() for p in module.parameters()),
            "macs": cost.macs,
            "macs_executed": cost.macs_executed,
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "peak_memory_bytes": peak_bytes(device),
            "device": _device_name(device),
        }

    def _phase(self, phase: str) -> None:
        self.log.write(phase)
        self.emit(Advanced(worker=self.options.worker, cell=self.cell.name, phase=phase))

    def _trainer(self, clock: Clock) -> lightning.Trainer:
        config = self.config
        return lightning.Trainer(
            accelerator=config.accelerator,
            devices=_devices(config.accelerator, self.options.worker),
            precision=config.precision,
            max_steps=config.max_steps,
            max_epochs=-1,
            accumulate_grad_batches=config.accumulate,
            gradient_clip_val=config.clip_norm or None,
            val_check_interval=(config.validate_every or config.check_every) * config.accumulate,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            callbacks=[
                clock,
                SaveCheckpoints(self.checkpoints, config.check_every),
                Report(self.options.worker, self.cell.name, self.emit, self.log),
            ],
            plugins=[WholeFiles()],
            default_root_dir=self.folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def _where_to_go_on(self, fingerprint: Mapping[str, str]) -> str | None:
        """The newest checkpoint that can be read, if this cell was begun before."""
        if self.options.anew and self.checkpoints.all():
            self.log.write("starting anew, without the checkpoints that lay here")
            self.checkpoints.remove()
        if not self.checkpoints.belong_to(_of_training(fingerprint)):
            raise DataError(
                f"{self.cell.name} was begun on other training data: give the --root it was begun "
                "with, or start anew with --only all (--again for train)"
            )
        path, broken = self.checkpoints.newest_readable()
        for damaged in broken:
            self.log.write(f"{damaged.name} can't be read and is removed")
            damaged.unlink(missing_ok=True)
        if path is not None:
            self.log.write(f"going on from {path.name}")
        return None if path is None else str(path)

    def _average(self, module: nn.Module) -> None:
        """Give the module the mean weights of its last checkpoints."""
        for damaged in self.checkpoints.unreadable():
            self.log.write(f"{damaged.name} can't be read and is left out of the average")
            damaged.unlink(missing_ok=True)
        paths = self.checkpoints.last(self.config.average_last)
        average = average_checkpoints(paths)
        for name, _ in module.named_parameters():
            if not average[name].isfinite().all():
                raise Diverged(f"the averaged weights {name} hold numbers that aren't finite")
        module.load_state_dict(average)
        self.log.write(f"averaged {', '.join(path.name for path in paths)}")

    def _save_outputs(self, module: nn.Module, predictions: list[str]) -> None:
        make_room(self.store, self.cell)
        tensors = {name: value.detach().cpu().contiguous() for name, value in _named(module)}
        metadata = {"config_hash": self.cell.config_hash}  # one key: several come in any order
        write_atomically(self.folder / WEIGHTS, safetensors.torch.save(tensors, metadata))
        text = "".join(f"{line}\n" for line in predictions)
        write_atomically(self.folder / PREDICTIONS, text.encode("utf-8", "replace"))


def _of_training(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """What training depends on: its own files, the subwords and the vocabularies."""
    return {
        name: value
        for name, value in fingerprint.items()
        if "train" in name or name.endswith(("subword", "vocabulary"))
    }


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


def _devices(accelerator: str, worker: int) -> list[int] | int:
    """One device a cell; the workers of one run take turns on the GPUs."""
    gpus = torch.cuda.device_count() if accelerator in ("auto", "gpu", "cuda") else 0
    return [worker % gpus] if gpus else 1


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return environment()["device"]


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
