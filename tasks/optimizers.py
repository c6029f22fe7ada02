"""The optimisers that the tasks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from .captioning_config import CaptioningConfig
    from .detection_config import DetectionConfig
    from .segmentation_config import SegmentationConfig
    from .sentiment_config import SentimentConfig
    from .training_config import TrainingConfig
    from .translation_config import TranslationConfig


def adam(
    model: nn.Module,
    config: TranslationConfig | CaptioningConfig | SentimentConfig,
    learning_rate: float,
) -> torch.optim.Adam:
    """Adam as ``config`` has it; parameters that carry ``lr_scale`` learn at that multiple."""
    return torch.optim.Adam(
        groups_by_rate(model, learning_rate),
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
        fused=_one_pass(config),
    )


def adamw(model: nn.Module, config: SegmentationConfig | DetectionConfig) -> torch.optim.AdamW:
    """AdamW as ``config`` has it; parameters that carry ``lr_scale`` learn at that multiple."""
    return torch.optim.AdamW(
        groups_by_rate(model, config.learning_rate),
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
        fused=_one_pass(config),
    )


def _one_pass(config: TrainingConfig) -> bool:
    """Whether all weights are updated in one pass; Lightning can't clip in front of it if mixed."""
    clips = config.clip_norm or getattr(config, "clip_value", 0.0)
    return config.precision == "32-true" or (config.precision == "bf16-mixed" and not clips)


def sgd(
    model: nn.Module, *, learning_rate: float, momentum: float, weight_decay: float
) -> torch.optim.SGD:
    """SGD with momentum; parameters that carry ``lr_scale`` learn at that multiple."""
    return torch.optim.SGD(
        groups_by_rate(model, learning_rate), momentum=momentum, weight_decay=weight_decay
    )


def sgd_or_adamw(
    model: nn.Module, config: SegmentationConfig | DetectionConfig
) -> torch.optim.Optimizer:
    """The optimiser that ``config.optimiser`` names."""
    if config.optimiser == "adamw":
        return adamw(model, config)
    return sgd(
        model,
        learning_rate=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )


def by_update(optimizer: torch.optim.Optimizer, factor: Callable[[int], float]) -> dict[str, Any]:
    """The optimiser with a factor of its rate by update, as Lightning wants them."""
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def groups_by_rate(model: nn.Module, learning_rate: float) -> list[dict[str, Any]]:
    """The parameters that learn, in one group for each ``lr_scale`` that they carry (default 1)."""
    by_scale: dict[float, list[Tensor]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            by_scale.setdefault(getattr(parameter, "lr_scale", 1.0), []).append(parameter)
    return [{"params": group, "lr": learning_rate * scale} for scale, group in by_scale.items()]
