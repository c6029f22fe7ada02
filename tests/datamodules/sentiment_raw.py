"""Small sentiment data as readers give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attnbench.datamodules.sentiment_records import RawPart, RawSentiment

DIMS = {"text": 4, "audio": 3, "vision": 2}
STEPS = {"text": 5, "audio": 9, "vision": 7}


def raw_part(
    name: str, items: int, *, side: str = "left", seed: int = 0, videos: int | None = None
) -> RawPart:
    """Items of known lengths: item n has 1 + n mod T steps in each modality."""
    random = np.random.default_rng([seed, *name.encode()])
    features = {}
    for modality, dim in DIMS.items():
        steps = STEPS[modality]
        array = np.zeros((items, steps, dim), np.float32)
        for number in range(items):
            real = 1 + number % steps
            rows = random.normal(size=(real, dim))
            array[number, steps - real :] = rows if side == "left" else 0
            if side == "right":
                array[number, :real] = rows
        features[modality] = array
    return RawPart(
        ids=[f"{name}-{number}" for number in range(items)],
        groups=[f"{name}-v{number % (videos or items)}" for number in range(items)],
        features=features,
        lengths={},
        labels=random.integers(-3, 4, (items, 1)).astype(np.float32),
    )


def raw_sentiment(root: Path, parts: dict[str, RawPart] | None = None, **more) -> RawSentiment:
    """A data set of three parts with a source file that exists."""
    source = root / "source.pkl"
    if not source.exists():
        source.write_bytes(b"not read here")
    if parts is None:
        parts = {"train": raw_part("train", 20, videos=6)}
        parts |= {"val": raw_part("val", 7), "test": raw_part("test", 9)}
    return RawSentiment("made here", [source], parts, "regression", **more)
