"""The settings that the runner itself reads; every task's configuration has them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator

from .errors import ConfigError


class TrainingConfig(BaseModel):
    """How a `lightning.Trainer` is set up, and on which device."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    accumulate: int = Field(1, ge=1, description="batches an update")
    clip_norm: float = Field(0.0, ge=0, description="largest gradient norm; 0 does not clip")
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = Field(
        "32-true", description="numbers that training computes with"
    )

    # The machine; can't change what is computed except in the last bits.
    threads: int | None = Field(None, ge=1, description="CPU threads; none: all cores")
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = Field(
        "auto", description="device; auto takes a GPU where there is one"
    )

    @model_validator(mode="after")
    def _half_precision_needs_a_gpu(self) -> Self:
        if self.precision == "16-mixed" and self.accelerator == "cpu":
            raise ValueError(
                "precision=16-mixed needs a GPU; with accelerator=cpu choose bf16-mixed or 32-true"
            )
        return self

    @property
    def first_weights(self) -> Path | None:
        """File of weights that training begins with; None: from scratch."""
        return None

    def check_training(self) -> None:
        """Raise ConfigError if training has nothing sensible to begin with."""

    def check_machine(self) -> None:
        """Raise ConfigError if this machine lacks what the settings ask for."""
        found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        found["gpu"] = any(found.values())
        if not found.get(self.accelerator, True):
            raise ConfigError(
                f"accelerator={self.accelerator}, but this machine has no such device: use "
                "accelerator=auto or accelerator=cpu"
            )
        if self.precision == "16-mixed" and not found["gpu"]:
            raise ConfigError(
                "precision=16-mixed needs a GPU and this machine has none: choose bf16-mixed or "
                "32-true"
            )
