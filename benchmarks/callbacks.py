"""What the runner does while Lightning trains: save, count time, keep what was said, report."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from ..tasks.module import Phase
from .checkpoints import Checkpoints
from .events import Advanced, Emit
from .history import Entry, History
from .progress import describe
from .runlog import RunLog

_REPORT_SECONDS = 0.5
_LOG_SECONDS = 20.0
_RATE_WINDOW = 50


class SaveCheckpoints(Callback):
    """Saves every `every` updates and after the last one, and keeps the newest few.

    Where a validation is due at the same update, it comes first: Lightning does not validate again
    what a checkpoint says was trained, so a resumed run would never have its numbers.
    """

    def __init__(self, checkpoints: Checkpoints, every: int) -> None:
        self._checkpoints, self._every = checkpoints, every
        self._saved = -1

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """After a resume, don't save the same step again."""
        self._saved = trainer.global_step

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: Any
    ) -> None:
        """Save where it is due; with gradient accumulation not every batch is an update."""
        if not _validates_next(trainer):
            self._save_if_due(trainer)

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Save what had to wait for the validation."""
        self._save_if_due(trainer)

    def _save_if_due(self, trainer: lightning.Trainer) -> None:
        step = trainer.global_step
        due = step % self._every == 0 or step == trainer.max_steps
        if due and step > self._saved:
            trainer.save_checkpoint(self._checkpoints.path(step))
            self._checkpoints.thin_out()
            self._saved = step


class Clock(Callback):
    """Seconds of training that led to the present weights, over all restarts.

    What was lost between the last checkpoint and a crash isn't counted.
    """

    def __init__(self) -> None:
        self._before = 0.0
        self._started: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        now = 0.0 if self._started is None else time.monotonic() - self._started
        return self._before + now

    def on_train_start(self, *_: Any) -> None:
        """Begin to count."""
        self._started = time.monotonic()

    def on_train_end(self, *_: Any) -> None:
        """Stop counting."""
        self._before, self._started = self.seconds, None

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self._before = float(state_dict["seconds"])


class WriteHistory(Callback):
    """Appends a line after each validation of a phase.

    It must stand before what saves checkpoints, so that no checkpoint is ahead of the file.
    """

    def __init__(self, history: History, phase: Phase, clock: Clock) -> None:
        self._history, self._phase, self._clock = history, phase, clock
        self._last = 0

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """After a resume, forget what came after the checkpoint."""
        self._last = self._history.keep_until(self._phase.name, trainer.global_step)

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Write the numbers of this validation, unless a run before a resume did so."""
        if trainer.global_step <= self._last:
            return
        self._last = trainer.global_step
        self._history.append(
            Entry(
                phase=self._phase.name,
                update=trainer.global_step,
                updates=self._phase.max_steps,
                epoch=_epochs(trainer),
                seconds=round(self._clock.seconds, 3),
                values={name: _finite(each) for name, each in trainer.callback_metrics.items()},
            )
        )


class Report(Callback):
    """Tells how far training is: to the display twice a second, to the log every 20 seconds.

    `phase` is what is going on, in words.
    """

    def __init__(self, worker: int, cell: str, phase: str, emit: Emit, log: RunLog) -> None:
        self._worker, self._cell, self._phase = worker, cell, phase
        self._emit, self._log = emit, log
        self._reported = 0.0
        self._logged = time.monotonic()
        self._unit = ""
        self._done: deque[tuple[float, int, int]] = deque(maxlen=_RATE_WINDOW)
        self._items = 0

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Report if it is time to."""
        now = time.monotonic()
        self._items += getattr(batch, "tokens", None) or len(batch)
        self._done.append((now, trainer.global_step, self._items))
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._unit = "tokens/s" if hasattr(batch, "tokens") else "items/s"
            event = self._event(trainer)
            self._emit(event)
            if now - self._logged >= _LOG_SECONDS:
                self._logged = now
                self._log.write(describe(event))

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Put the validation's numbers into the log."""
        self._log.write(describe(self._event(trainer)))

    def _event(self, trainer: lightning.Trainer) -> Advanced:
        rate = left = None
        if len(self._done) > 1 and self._done[-1][0] > self._done[0][0]:
            (start, first, before), (end, step, items) = self._done[0], self._done[-1]
            rate = (items - before) / (end - start)
            if step > first:
                left = (trainer.max_steps - step) * (end - start) / (step - first)
        return Advanced(
            worker=self._worker,
            cell=self._cell,
            phase=self._phase,
            step=trainer.global_step,
            max_steps=trainer.max_steps,
            epoch=trainer.current_epoch,
            values={name: _number(value) for name, value in trainer.callback_metrics.items()},
            rate=rate,
            unit=self._unit,
            seconds_left=left,
        )


def _validates_next(trainer: lightning.Trainer) -> bool:
    """Whether the batch that ends now is followed by a validation."""
    batches = trainer.fit_loop.epoch_loop.total_batch_idx + 1
    return trainer.enable_validation and batches % int(trainer.val_check_batch or 1) == 0


def _epochs(trainer: lightning.Trainer) -> float:
    """Epochs done, with the fraction of the present one where its length is known."""
    batches, seen = trainer.num_training_batches, trainer.fit_loop.epoch_loop.batch_idx + 1
    part = min(1.0, seen / batches) if math.isfinite(batches) and batches else 0.0
    return round(trainer.current_epoch + part, 4)


def _number(value: Tensor | float) -> float:
    return float(value)


def _finite(value: Tensor | float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
