"""Optimisers under every precision, with and without clipping, in a real trainer."""

from typing import Literal

import lightning
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attnbench.tasks.detection_config import DetectionConfig
from attnbench.tasks.module import TaskModule
from attnbench.tasks.optimizers import adam, adamw
from attnbench.tasks.translation_config import TranslationConfig


class Line(TaskModule):
    """Fits y = 3 x with the optimiser of a task."""

    def __init__(self, optimizer: str, precision: Literal["32-true", "bf16-mixed"]) -> None:
        super().__init__()
        self.model, self.optimizer = nn.Linear(1, 1), optimizer
        settings = {"precision": precision, "clip_norm": 1.0, "learning_rate": 0.1}
        kind = TranslationConfig if optimizer == "adam" else DetectionConfig
        self.config = kind.model_validate(settings)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.optimizer == "adam":
            return adam(self.model, self.config, 0.1)
        return adamw(self.model, self.config)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return (self.model(batch) - 3 * batch).square().mean()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_gradients_can_be_clipped_in_any_precision(
    optimizer: str, precision: Literal["32-true", "bf16-mixed"]
) -> None:
    torch.manual_seed(0)
    task = Line(optimizer, precision)
    before = task.model.weight.detach().clone()
    trainer = lightning.Trainer(
        max_steps=5,
        accelerator="cpu",
        precision=precision,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, DataLoader(torch.linspace(-1, 1, 8).unsqueeze(1), batch_size=2))  # type: ignore[arg-type]
    assert (task.model.weight - 3).abs() < (before - 3).abs()
