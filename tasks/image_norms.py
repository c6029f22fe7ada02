"""Batch normalisation needs more than a single cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ConfigError


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
