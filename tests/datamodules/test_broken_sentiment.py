"""Wrongly made sentiment data: whatever the files hold, they are read or refused in a sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.pickles import read_pickle
from attnbench.datamodules.sentiment_config import SentimentDataConfig
from attnbench.datamodules.sentiment_open import open_sentiment
from tests.datamodules.sentiment_files import (
    iemocap,
    mmsa,
    mult,
    scores,
    streams,
    utterances,
    write_npz,
    write_pickle,
    write_utterance_pickles,
)

WRONG: list[Any] = [
    *(None, True, -1, 10**30, float("nan"), "", "x", b"\xff", [], [1], {}, (), [[1], [2, 3]]),
    *(np.array(5), np.array([{}, None], object), np.zeros((6, 0)), np.zeros((2, 3, 4, 5))),
    *(np.full((6, 9, 3), 1j), np.array(["a"] * 6), ["\ud800"] * 6, [None] * 6, [10**30] * 6),
]


def read_or_refused(root: Path, **settings: Any) -> bool:
    """Open what is there; tell whether it could be read."""
    config = SentimentDataConfig(**{"dataset": "mosi", **settings})
    try:
        raw = open_sentiment(config, root)
    except DataError as error:
        assert str(root) in str(error) and str(error).endswith(".")
        assert "\n" not in str(error) and len(str(error)) < 700
        return False
    for part in raw.parts.values():
        assert len(set(part.ids)) == len(part.groups) == len(part.labels) == len(part)
        assert all(isinstance(name, str) for name in (*part.ids, *part.groups))
        for modality, array in part.features.items():
            assert array.dtype == np.float32 and array.ndim == 3 and len(array) == len(part)
            lengths = part.lengths.get(modality, np.zeros(len(part), int))
            assert len(lengths) == len(part) and lengths.max() <= array.shape[1]
    return True


def changes(content: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each field of a part with each wrong value, and without it."""
    for field in content["train"]:
        for wrong in WRONG:
            yield field, wrong, {**content, "train": {**content["train"], field: wrong}}
        rest = {key: value for key, value in content["train"].items() if key != field}
        yield field, "left out", {**content, "train": rest}
    for wrong in WRONG:
        yield "part", wrong, {**content, "valid": wrong}


@pytest.mark.parametrize("layout", ["mult", "iemocap", "mmsa", "ids"])
def test_any_value_of_a_field(tmp_path: Path, layout: str) -> None:
    content: dict[str, Any] = {
        "mult": mult,
        "iemocap": iemocap,
        "mmsa": mmsa,
        "ids": lambda: mult(id=None, raw_text=None),
    }[layout]()
    path = tmp_path / "a_noalign.pkl"
    write_pickle(path, content)
    assert read_or_refused(tmp_path)
    outcomes: dict[str, set[bool]] = {}
    for field, _, changed in changes(content):
        write_pickle(path, changed)
        outcomes.setdefault(field, set()).add(read_or_refused(tmp_path))
    for field in ("text", "audio", "vision"):
        assert outcomes[field] == {False}


def test_any_value_in_the_pickles_by_utterance(tmp_path: Path) -> None:
    path = write_utterance_pickles(tmp_path, utterances())[1]
    whole = path.read_bytes()
    content = read_pickle(path)
    assert read_or_refused(tmp_path)
    for place in (0, 1, 2, 3, 5, 6):
        for wrong in WRONG:
            changed = list(content)
            changed[place] = wrong
            write_pickle(path, tuple(changed))
            assert not read_or_refused(tmp_path)
    path.write_bytes(whole)
    assert read_or_refused(tmp_path)


def test_any_value_in_the_pickles_by_video(tmp_path: Path) -> None:
    content = {m: x[:, 0] for m, x in streams(6).items()} | {"labels": scores(6)}
    path = tmp_path / "train_data.pkl"
    write_pickle(path, content)
    assert read_or_refused(tmp_path)
    for field in content:
        for wrong in WRONG:
            write_pickle(path, content | {field: wrong})
            read_or_refused(tmp_path)
    for wrong in WRONG:
        write_pickle(tmp_path / "metadata.pkl", {"train_samples": wrong})
        write_pickle(path, content)
        assert read_or_refused(tmp_path)
        write_pickle(tmp_path / "metadata.pkl", wrong)
        assert read_or_refused(tmp_path)


def test_any_array_in_the_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    parts = utterances()
    for name in ("text", "audio", "video", "label", "video_id", "position", "split"):
        for wrong in (5, np.ones(13, "U3"), np.full(13, np.nan), np.zeros((13, 0)), np.ones(0)):
            write_npz(path, parts, **{name: np.asarray(wrong)})
            read_or_refused(tmp_path)


@pytest.mark.parametrize("name", ["a.pkl", "train_data.pkl", "text.pickle", "a.npz", "x/a.p"])
@pytest.mark.parametrize("data", [b"", b"<html>", b"PK\x03\x04", b"\x80\x04.", b"\x80\x04N.", b"x"])
def test_files_that_are_something_else(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    assert not read_or_refused(tmp_path)
    if not name.startswith("x"):
        assert not read_or_refused(tmp_path, file=name)
