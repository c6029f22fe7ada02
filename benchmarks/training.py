"""The Lightning trainer of a phase, and the device it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lightning
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch.callbacks import Callback

from ..results import environment
from ..tasks.module import Phase
from ..tasks.training_config import TrainingConfig
from .checkpoints import WholeFiles


def make_trainer(
    config: TrainingConfig,
    phase: Phase,
    *,
    worker: int,
    folder: Path,
    callbacks: Sequence[Callback] = (),
) -> lightning.Trainer:
    """A silent trainer that writes nothing on its own.

    Args:
        config: the cell's settings.
        phase: what is trained.
        worker: number of this process among those of a run; with several GPUs it chooses one.
        folder: the cell's folder.
        callbacks: what saves and reports.
    """
    return lightning.Trainer(
        accelerator=config.accelerator,
        devices=_devices(config.accelerator, worker),
        precision=config.precision,
        max_steps=phase.max_steps,
        max_epochs=-1,
        accumulate_grad_batches=config.accumulate,
        gradient_clip_val=config.clip_norm or None,
        val_check_interval=phase.validate_every * config.accumulate,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        callbacks=list(callbacks),
        # Slurm's environment would ask for as many processes as the job has tasks, and requeue.
        plugins=[WholeFiles(), LightningEnvironment()],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def device_of(config: TrainingConfig) -> torch.device:
    """Where a trained model is asked: the first GPU, or the processor."""
    wanted = config.accelerator
    if wanted in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return torch.device("cuda", 0)
    if wanted in ("auto", "gpu", "mps") and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def device_name(device: torch.device) -> str:
    """For people: the GPU's name, or the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return environment()["device"]


def _devices(accelerator: str, worker: int) -> list[int] | int:
    """One device a cell; the workers of one run take turns on the GPUs."""
    gpus = torch.cuda.device_count() if accelerator in ("auto", "gpu", "cuda") else 0
    return [worker % gpus] if gpus else 1
