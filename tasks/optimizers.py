"""The optimiser that the tasks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from .captioning_config import CaptioningConfig
    from .sentiment_config import SentimentConfig
    from .translation_config import TranslationConfig


def adam(
    model: nn.Module,
    config: TranslationConfig | CaptioningConfig | SentimentConfig,
    learning_rate: float,
) -> torch.optim.Adam:
    """Adam as ``config`` has it; parameters that carry ``lr_scale`` learn at that multiple."""
    by_scale: dict[float, list[Tensor]] = {}
    for parameter in model.parameters():
        by_scale.setdefault(getattr(parameter, "lr_scale", 1.0), []).append(parameter)
    return torch.optim.Adam(
        [{"params": group, "lr": learning_rate * scale} for scale, group in by_scale.items()],
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
        # One pass over the weights. GradScaler can't clip in front of it.
        fused=config.precision != "16-mixed",
    )
