"""What the runner does while Lightning trains: save, count time, report."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from .checkpoints import Checkpoints
from .events import Advanced, Emit
from .progress import describe
from .runlog import RunLog

_REPORT_SECONDS = 0.5
_LOG_SECONDS = 20.0
_RATE_WINDOW = 50


class SaveCheckpoints(Callback):
    """Saves every `every` updates and after the last one, and keeps the newest few."""

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


def _number(value: Tensor | float) -> float:
    return float(value)
