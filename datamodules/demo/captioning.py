"""Writer of the captioning demo: Karpathy's JSON, features as npz and boxes as npy an image.

The features of a region tell its shape and colour, with noise, and nothing of its place or size:
those are in the boxes alone, so that only a model that uses them can say them.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ..caption_records import simple_tokens
from .folder import write_folder
from .shapes import BACKGROUND, COLOURS, SHAPES, Scene, draw_pair
from .shapes_captions import describe

DIM = 64
_NOISE = 0.15


def write_captioning_demo(
    root: Path, *, seed: int = 0, train: int = 800, val: int = 100, test: int = 200
) -> Path:
    """Write ``dataset_demo.json``, ``demo_att/*.npz`` and ``demo_box/*.npy`` in one step.

    The same arguments give the same bytes.

    Args:
        root: the folder; made if it is missing. Running again with the same arguments changes
            nothing.
        seed: seed of the scenes.
        train: number of training images.
        val: number of validation images.
        test: number of test images.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, is the current one, or can't be read or written.
    """
    return write_folder(Path(root), _contents(seed, {"train": train, "val": val, "test": test}))


def _contents(seed: int, sizes: dict[str, int]) -> dict[str, bytes]:
    random, noise = Random(seed), np.random.default_rng(seed)
    looks = np.random.default_rng(0).normal(
        size=(len(SHAPES) + len(COLOURS) + len(BACKGROUND), DIM)
    )
    contents: dict[str, bytes] = {}
    images: list[dict[str, Any]] = []
    for split, size in sizes.items():
        for _ in range(size):
            number, scene = len(images), draw_pair(random)
            images.append(_entry(number, split, scene, describe(scene, random)))
            features, boxes = _regions(scene, looks, noise)
            contents[f"demo_att/{number}.npz"] = _npz(feat=features)
            contents[f"demo_box/{number}.npy"] = _npy(boxes)
    text = json.dumps({"images": images, "dataset": "demo"}, separators=(",", ":"))
    return {"dataset_demo.json": text.encode(), **contents}


def _entry(number: int, split: str, scene: Scene, captions: list[str]) -> dict[str, Any]:
    """Give an image as Karpathy's file has it, with its size added."""
    sentids = [number * len(captions) + place for place in range(len(captions))]
    return {
        "imgid": number,
        "filename": f"{number:06}.png",
        "split": split,
        "width": scene.width,
        "height": scene.height,
        "sentids": sentids,
        "sentences": [
            {"tokens": simple_tokens(raw), "raw": raw, "imgid": number, "sentid": sentid}
            for raw, sentid in zip(captions, sentids, strict=True)
        ],
    }


def _regions(
    scene: Scene, looks: np.ndarray, noise: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Give features and boxes of the things and the background, in a random order."""
    parts = len(SHAPES), len(COLOURS)
    shapes, colours, background = (
        looks[: parts[0]],
        looks[parts[0] : sum(parts)],
        looks[sum(parts) :],
    )
    rows = [
        shapes[SHAPES.index(thing.shape)] + colours[COLOURS.index(thing.colour)]
        for thing in scene.things
    ]
    boxes = [*(thing.box for thing in scene.things), *BACKGROUND.values()]
    features, corners = np.array([*rows, *background]), np.array(boxes, np.float32)
    order = noise.permutation(len(features))
    features += noise.normal(scale=_NOISE, size=features.shape)
    return features[order].astype(np.float32), corners[order]


def _npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
