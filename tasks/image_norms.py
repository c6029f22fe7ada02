"""What the norms of a backbone need: trained weights if they are frozen, else enough cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def enough_to_norm(size: str) -> Iterator[None]:
    """Raise ConfigError where a batch has a single value a channel, which has no deviation.

    Args:
        size: the settings that say how large images are, for the advice.
    """
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ConfigError(
            "a batch of one image is so small that its last map has a single cell, which batch "
            f"normalisation can't work with: raise {size} or batch_size, or start from weights "
            "with batch_norm=frozen"
        ) from error
