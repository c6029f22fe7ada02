"""Writes small sentiment data in the published layouts, and opens them."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.sentiment_config import SentimentDataConfig
from attnbench.datamodules.sentiment_open import open_sentiment
from attnbench.datamodules.sentiment_records import RawSentiment

SIZES = {"train": 6, "valid": 3, "test": 4}
STEPS = {"text": (5, 4), "audio": (9, 3), "vision": (7, 2)}


def write_pickle(path: Path, content: Any, protocol: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def streams(items: int, steps: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    """Random features of the three modalities, of `steps` each if given."""
    random = np.random.default_rng(seed)
    return {
        modality: random.normal(size=(items, steps or long, wide))
        for modality, (long, wide) in STEPS.items()
    }


def scores(items: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 100).uniform(-3, 3, items).astype(np.float32)


def mult(steps: int | None = None, **fields: Any) -> dict[str, dict[str, Any]]:
    """MulT's layout; `fields` are added to every part."""
    return {
        part: {**streams(items, steps, items), "labels": scores(items)[:, None, None], **fields}
        for part, items in SIZES.items()
    }


def iemocap(positive: int = 1, share: float = 0.25, items: int = 40) -> dict[str, dict[str, Any]]:
    """MulT's layout with emotions: each is there in a share of the items, at a known place."""
    content: dict[str, dict[str, Any]] = {}
    for number, part in enumerate(SIZES):
        there = np.zeros((items, 4), int)
        for emotion in range(4):
            there[(np.arange(round(share * items)) + 7 * emotion) % items, emotion] = 1
        labels = np.eye(2)[there if positive == 1 else 1 - there]
        content[part] = {**streams(items, seed=number), "labels": labels}
    return content


def mmsa(aligned: bool = False) -> dict[str, dict[str, Any]]:
    """MMSA's layout: BERT's features aren't zero in padding; lengths of what isn't aligned."""
    content: dict[str, dict[str, Any]] = {}
    for part, items in SIZES.items():
        random = np.random.default_rng(items)
        features = streams(items, 5 if aligned else None, items)
        mask = np.arange(5) < random.integers(2, 6, items)[:, None]
        content[part] = {
            "raw_text": [f"words of {number}" for number in range(items)],
            **features,
            "text_bert": np.stack((np.full((items, 5), 7), mask, np.zeros((items, 5))), 1),
            "id": [f"{part}{number // 2}$_${number % 2}" for number in range(items)],
            "annotations": ["Positive"] * items,
            "classification_labels": np.zeros(items),
            "regression_labels": scores(items),
        }
        if not aligned:
            for modality in ("audio", "vision"):
                steps = features[modality].shape[1]
                content[part][f"{modality}_lengths"] = random.integers(1, steps + 1, items).tolist()
    return content


# Utterances of each video, in the order of the data set.
VIDEOS = {"train": (3, 1, 4), "test": (2, 3)}
WIDTHS = {"text": 4, "audio": 3, "vision": 2}


def utterances(seed: int = 0) -> dict[str, dict[str, Any]]:
    """By part: features (U, F), labels (U,), number of the video and position in it (U,)."""
    random = np.random.default_rng(seed)
    parts: dict[str, dict[str, Any]] = {}
    before = 0
    for part, numbers in VIDEOS.items():
        count = sum(numbers)
        parts[part] = {
            "features": {
                m: random.normal(size=(count, wide)).astype(np.float32)
                for m, wide in WIDTHS.items()
            },
            "labels": random.integers(0, 2, count),
            "videos": np.repeat(np.arange(len(numbers)) + before, numbers),
            "places": np.concatenate([np.arange(number) for number in numbers]),
        }
        before += len(numbers)
    return parts


def write_npz(path: Path, parts: dict[str, dict[str, Any]], **changes: Any) -> Path:
    def joined(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in parts.values()])

    order = np.random.default_rng(5).permutation(len(joined("labels")))
    arrays: dict[str, Any] = {
        ("video" if m == "vision" else m): np.concatenate(
            [part["features"][m] for part in parts.values()]
        )[order]
        for m in WIDTHS
    }
    split = np.repeat([0, 1], [len(part["labels"]) for part in parts.values()])
    arrays |= {
        "label": joined("labels")[order],
        "video_id": joined("videos")[order],
        "position": joined("places")[order],
        "split": split[order],
    }
    np.savez(path, **(arrays | changes))
    return path


def write_csv_folder(folder: Path, parts: dict[str, dict[str, Any]]) -> Path:
    """Rows shuffled; transcripts sorted by name, as published, so that _10 comes before _2."""
    names = {
        part: [
            f"Vid_{10 - video}x_{place + 1}"
            for video, place in zip(each["videos"], each["places"], strict=True)
        ]
        for part, each in parts.items()
    }
    said = sorted(
        (name, int(label), int(video))
        for part, each in parts.items()
        for name, label, video in zip(names[part], each["labels"], each["videos"], strict=True)
    )
    line = {name: number for number, (name, _, _) in enumerate(said)}
    rows = [f'"{name}","WORDS, OF {name}","{video}","{label}"' for name, label, video in said]
    write_gzip(folder / "transcripts.csv.gz", rows)
    for part, each in parts.items():
        order = np.random.default_rng(3).permutation(len(each["labels"]))
        for modality, name in (("text", "text"), ("audio", "audio"), ("vision", "video")):
            rows = [
                ",".join(f'"{float(x)!r}"' for x in each["features"][modality][row])
                + f',"{each["labels"][row]}"'
                for row in order
            ]
            write_gzip(folder / name / f"{name}_{part}0.csv.gz", rows)
        rows = [
            f'"{line[names[part][row]]}",'
            + ",".join(f'"{float(x)!r}"' for x in each["features"]["text"][row])
            for row in order
        ]
        write_gzip(folder / f"text_{part}.csv.gz", rows)
    return folder


def write_gzip(path: Path, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))


def filled(part: dict[str, Any], modality: str, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (V, U, F) and labels (V, U) of whole videos, zeros behind."""
    videos = np.unique(part["videos"])
    features = np.zeros((len(videos), longest, part["features"][modality].shape[1]))
    labels = np.zeros((len(videos), longest))
    features[part["videos"] - videos[0], part["places"]] = part["features"][modality]
    labels[part["videos"] - videos[0], part["places"]] = part["labels"]
    return features, labels


def write_utterance_pickles(
    folder: Path, parts: dict[str, dict[str, Any]], one_hot: bool = False
) -> list[Path]:
    longest = max(max(np.bincount(part["videos"])) for part in parts.values()) + 1
    numbers = [
        np.bincount(part["videos"] - part["videos"].min()).tolist() for part in parts.values()
    ]
    paths: list[Path] = []
    for modality, name in (("text", "text"), ("audio", "audio"), ("vision", "video")):
        made: list[Any] = []
        for part in parts.values():
            features, labels = filled(part, modality, longest)
            made += [features, np.eye(2)[labels.astype(int)] if one_hot else labels]
        content = (*made, longest, *numbers)
        paths.append(write_pickle(folder / f"{name}_2way.pickle", content, 2))
    return paths


def write_video_level(folder: Path, parts: tuple[str, ...] = ("train", "val", "test")) -> None:
    random = np.random.default_rng(1)
    for part in parts:
        items = {"train": 5, "val": 3, "test": 4}[part]
        acoustic = random.normal(size=(items, 3)).astype(np.float32)
        acoustic[0, 1] = -np.inf
        content = {
            "language": random.normal(size=(items, 6)).astype(np.float32),
            "acoustic": acoustic,
            "visual": random.normal(size=(items, 2)).astype(np.float32),
            "labels": scores(items),
        }
        write_pickle(folder / f"{part}_data.pkl", content)
    write_pickle(folder / "metadata.pkl", {"train_samples": 5, "val_samples": 3, "test_samples": 4})


def opened(root: Path, **settings: Any) -> RawSentiment:
    settings = {"dataset": "mosi", **settings}
    return open_sentiment(SentimentDataConfig(**settings), root)


def refused(root: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        opened(root, **settings)
    assert str(root) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def note(raw: RawSentiment, word: str) -> str:
    found = [each for each in raw.notes if word in each]
    assert len(found) == 1, raw.notes
    return found[0]
