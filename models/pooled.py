"""A linear map of mean-pooled streams: the simplest thing that reads every modality."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .sentiment_config import SentimentModelConfig
from .streams import Streams, StreamsOutput


class Pooled(nn.Module):
    """Means over the real steps of each modality, side by side, and one linear layer.

    A task sets ``linear`` in closed form: ridge regression, or zero weights and a bias for the
    majority. Order of the inputs: ``config.used``, as ``pool`` lists it.

    Args:
        config: ``dims``, ``modalities`` and ``outputs`` are read.
    """

    def __init__(self, config: SentimentModelConfig) -> None:
        super().__init__()
        self.modalities = tuple(config.used)
        self.linear = nn.Linear(sum(config.used.values()), config.outputs)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O); there are neither losses nor attention weights."""
        return StreamsOutput(self.linear(pool(streams, self.modalities)), {}, {})


def pool(streams: Streams, modalities: tuple[str, ...]) -> Tensor:
    """Means over real steps, (B, sum of F); zeros where an item has none."""
    means: list[Tensor] = []
    for name in modalities:
        valid_BT1 = streams.valid[name][..., None]
        total_BF = streams.features[name].masked_fill(~valid_BT1, 0).sum(1)
        means.append(total_BF / valid_BT1.sum(1).clamp_min(1))
    return torch.cat(means, -1)
