"""Parameters and multiply-accumulates of the sentiment models at the published sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ..datamodules.demo.sentiment import DIMS, STEPS
from ..models.sentiment import build_sentiment_model
from ..models.streams import MODALITIES, Streams, StreamsOutput
from .cost import CostReport, cost_report
from .errors import ConfigError
from .sentiment_config import CLOSED_FORM, SentimentConfig


@dataclass(frozen=True)
class Sizes:
    """Widths and steps of text, audio and vision, steps of aligned streams, and outputs."""

    name: str
    widths: tuple[int, int, int]
    steps: tuple[int, int, int]
    aligned: int
    outputs: int = 1


SIZES = {
    "mosi": Sizes("CMU-MOSI", (300, 5, 20), (50, 375, 500), 50),
    "mosei": Sizes("CMU-MOSEI", (300, 74, 35), (50, 500, 500), 50),
    "iemocap": Sizes("IEMOCAP", (300, 74, 35), (20, 400, 500), 20, outputs=8),
    "demo": Sizes(
        "the demo",
        (DIMS["text"], DIMS["audio"], DIMS["vision"]),
        (STEPS["text"][1], STEPS["audio"][1], STEPS["vision"][1]),
        STEPS["text"][1],
    ),
}
"""The shapes of MulT's files, and of the demo's."""

RECURRENT = ("ef-lstm", "lf-lstm", "raven", "mctn")
"""Models that are really run to be counted: without data an LSTM is thousands of operations."""


def build_model(
    config: SentimentConfig, dims: Mapping[str, int], outputs: int, text_steps: int
) -> torch.nn.Module:
    """The model that the settings name. Raises ConfigError where they don't fit together."""
    name = "pooled" if config.model in CLOSED_FORM else config.model
    try:
        return build_sentiment_model(name, config.model_config_of(dims, outputs, text_steps))  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(str(error)) from error


def measure(config: SentimentConfig) -> CostReport:
    """Cost of one item of MulT's files, every step real."""
    sizes = SIZES.get(config.dataset, SIZES["mosei"])
    aligned = config.alignment == "aligned"
    steps = (sizes.aligned,) * 3 if aligned else sizes.steps
    dims: dict[str, int] = dict(zip(MODALITIES, sizes.widths, strict=True))
    device = "cpu" if config.model in RECURRENT else "meta"
    with torch.device(device), torch.no_grad(), torch.random.fork_rng(devices=[]):
        model = build_model(config, dims, sizes.outputs, steps[0]).eval()
        lengths = dict(zip(MODALITIES, steps, strict=True))
        streams = Streams(
            {name: torch.ones(1, lengths[name], dims[name]) for name in MODALITIES},
            {name: torch.ones(1, lengths[name], dtype=torch.bool) for name in MODALITIES},
            {name: torch.full((1,), lengths[name] - 1) for name in MODALITIES},
        )

        def run() -> StreamsOutput:
            return model(streams)

        shapes = ", ".join(f"{name} {lengths[name]} x {dims[name]}" for name in MODALITIES)
        return cost_report(model, run, 1, f"one item as in MulT's files of {sizes.name}: {shapes}")
