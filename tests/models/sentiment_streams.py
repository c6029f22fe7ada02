"""Small random streams of text, audio and vision, padded on either side."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnbench.models.sentiment import (
    SentimentModelConfig,
    SentimentModelName,
    build_sentiment_model,
)
from attnbench.models.streams import MODALITIES, Streams

DIMS = {"text": 6, "audio": 5, "vision": 4}
Side = Literal["left", "right"]
ALIGNED = {"text": (5, 2, 1, 4), "audio": (5, 2, 1, 4), "vision": (5, 2, 1, 4)}
UNALIGNED = {"text": (5, 2, 1, 4), "audio": (9, 3, 6, 4), "vision": (7, 7, 1, 5)}


def streams(
    lengths: Mapping[str, Sequence[int]],
    *,
    side: Side = "right",
    extra: int = 0,
    seed: int = 0,
    padding: float = 0.0,
) -> Streams:
    """Float64 streams; the real steps are the same on either side and for any padding.

    Args:
        lengths: real steps of each item, by modality.
        side: where padding is.
        extra: steps of padding beyond the longest item's.
        seed: of the features.
        padding: what lies in padding.
    """
    features: dict[str, Tensor] = {}
    valid: dict[str, Tensor] = {}
    read_at: dict[str, Tensor] = {}
    for name, numbers in lengths.items():
        generator = torch.Generator().manual_seed(1000 * seed + MODALITIES.index(name))
        total = max(numbers) + extra
        x = torch.full((len(numbers), total, DIMS[name]), padding, dtype=torch.float64)
        mask = torch.zeros(len(numbers), total, dtype=torch.bool)
        for item, number in enumerate(numbers):
            real = torch.randn(number, DIMS[name], generator=generator, dtype=torch.float64)
            place = slice(0, number) if side == "right" else slice(total - number, total)
            x[item, place], mask[item, place] = real, True
        last = torch.tensor([n - 1 if side == "right" or not n else total - 1 for n in numbers])
        features[name], valid[name], read_at[name] = x, mask, last
    return Streams(features, valid, read_at)


def item_of(many: Streams, index: int, at_least: int = 0) -> Streams:
    """One item of right padded streams by itself, without padding."""
    steps = {name: max(at_least, int(mask[index].sum())) for name, mask in many.valid.items()}
    return Streams(
        {name: x[index : index + 1, : steps[name]] for name, x in many.features.items()},
        {name: mask[index : index + 1, : steps[name]] for name, mask in many.valid.items()},
        {name: read[index : index + 1] for name, read in many.read_at.items()},
    )


def small(**options: Any) -> SentimentModelConfig:
    """Small settings without dropout."""
    dropout = {name: 0.0 for name in SentimentModelConfig.__dataclass_fields__ if "dropout" in name}
    sizes = {"dims": DIMS, "outputs": 2, "dim": 8, "heads": 2, "hidden": 8, "text_steps": 12}
    layers = {"crossmodal_layers": 1, "memory_layers": 2, "ctc_hidden": 7}
    return SentimentModelConfig(**{**sizes, **layers, **dropout, **options})


def built(name: SentimentModelName, **options: Any) -> nn.Module:
    """A float64 model in evaluation, every parameter off its starting value."""
    torch.manual_seed(5)
    model = build_sentiment_model(name, small(**options)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()
