"""The one place that builds any sentiment model."""

from __future__ import annotations

from torch import nn

from .pooled import Pooled
from .sentiment_config import SentimentModelConfig, SentimentModelName

__all__ = ["SentimentModelConfig", "SentimentModelName", "build_sentiment_model"]


def build_sentiment_model(name: SentimentModelName, config: SentimentModelConfig) -> nn.Module:
    """A model that takes ``Streams`` (and ``need_weights``) and gives ``StreamsOutput``.

    Raises:
        ValueError: where the configuration doesn't fit the model; one sentence.
        SpecError, SiteError: from the attention specs.
    """
    if name == "pooled":
        return Pooled(config)
    raise ValueError(f"there is no sentiment model {name!r}")
