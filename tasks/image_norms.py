"""What a backbone with frozen norms needs before it is trained."""

from __future__ import annotations

from ..models.image_config import DetectorSettings, SegmenterSettings
from .errors import ConfigError


def check_frozen_norms(settings: DetectorSettings | SegmenterSettings) -> None:
    """Raise ConfigError where norms that don't learn would have nothing to start from."""
    if settings.batch_norm == "frozen" and settings.weights is None:
        raise ConfigError(
            "batch_norm=frozen keeps what trained weights have learnt, and there are none: set "
            f"weights to a file of {settings.resnet} trained on ImageNet, or batch_norm=batch to "
            "learn from scratch"
        )
