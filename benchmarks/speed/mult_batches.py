"""Batches for the benchmark of MulT: items of realistic lengths, trimmed or padded in full.

The published files hold no lengths, so they are drawn: words log-normal with median 17 (mean about
20 of 50); audio and vision in proportion to a sentence's words times a log-normal speed of speech
(mean about 45 % of 500, some 7 % of the items at the limit).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...datamodules.sentiment_loader import SentimentPlan
from ...models.mult import MultConfig
from ...models.streams import MODALITIES, Streams, last_valid

DIMS = {"text": 300, "audio": 74, "vision": 35}


@dataclass(frozen=True)
class Size:
    """Sizes of one measurement; ``items`` are drawn, ``padded`` batches of a peer are timed."""

    batch: int
    items: int
    padded: int
    text_steps: int
    other_steps: int
    dim: int
    heads: int
    layers: int
    threads: int

    def config(self, **changes: Any) -> MultConfig:
        """The model's settings: the paper's for CMU-MOSEI but for these sizes."""
        return MultConfig(
            dims=DIMS,
            outputs=1,
            dim=self.dim,
            heads=self.heads,
            crossmodal_layers=self.layers,
            memory_layers=max(3, self.layers),
            **changes,
        )

    def steps(self, modality: str) -> int:
        """Steps that a stream is padded to."""
        return self.text_steps if modality == "text" else self.other_steps


Batch = tuple[Streams, Tensor]
"""Streams and labels (B, 1)."""


def draw_lengths(size: Size, seed: int = 0) -> dict[str, np.ndarray]:
    """Real steps of each item, as the module's docstring says."""
    random = np.random.default_rng(seed)
    words = 0.34 * np.exp(0.55 * random.standard_normal(size.items))  # shares of the longest
    duration = 1.2 * words * np.exp(0.25 * random.standard_normal(size.items))
    shares = {"text": words, "audio": duration, "vision": duration}
    return {
        name: np.clip(np.round(share * size.steps(name)), 1, size.steps(name)).astype(int)
        for name, share in shares.items()
    }


def batches(size: Size) -> list[Batch]:
    """One epoch of trimmed batches, from the shortest items to the longest."""
    lengths = draw_lengths(size)
    plan = SentimentPlan(size.batch, seed=0, shuffle=True, bucket="length")
    total = np.sum(list(lengths.values()), axis=0)
    order = sorted(plan.batches(total, epoch=0), key=lambda rows: total[rows].max())
    made = []
    for rows in order:
        generator = torch.Generator().manual_seed(int(rows[0]))
        features, valid = {}, {}
        for name in MODALITIES:
            real_B1 = torch.from_numpy(lengths[name][rows])[:, None]
            valid[name] = torch.arange(int(real_B1.max()))[None] < real_B1
            x_BTF = torch.randn(*valid[name].shape, DIMS[name], generator=generator)
            features[name] = x_BTF * valid[name][..., None]
        read_at = {name: last_valid(real) for name, real in valid.items()}
        labels_B1 = 6 * torch.rand(len(rows), 1, generator=generator) - 3
        made.append((Streams(features, valid, read_at), labels_B1))
    return made


def padded(batch: Batch, size: Size) -> Batch:
    """The same items at the full lengths."""
    streams, labels = batch
    more = {name: size.steps(name) - x.shape[1] for name, x in streams.features.items()}
    pad = nn.functional.pad
    features = {name: pad(x, (0, 0, 0, more[name])) for name, x in streams.features.items()}
    valid = {name: pad(real, (0, more[name])) for name, real in streams.valid.items()}
    return Streams(features, valid, streams.read_at), labels
