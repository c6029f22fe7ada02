import collections
import json
import os
import pickle
from pathlib import Path

import pytest

from attnbench.tasks.metrics.captions import CaptionScoreError, DocumentFrequencies
from tests.shared import data_dir

from . import slow

REFERENCES = [[[1, 2, 1, 2], [3]], [[1], [1, 2, 3, 4, 5]], [[]]]


def written(path: Path, content: object, protocol: int = 2) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def as_strings(frequencies: DocumentFrequencies) -> dict:
    found = collections.defaultdict(float)
    found.update({tuple(map(str, gram)): float(frequencies[gram]) for gram in frequencies})
    return found


def test_counts_follow_the_definition() -> None:
    found = DocumentFrequencies.count(REFERENCES)
    expected = slow.document_frequencies(REFERENCES)
    assert {gram: found[gram] for gram in found} == dict(expected)
    assert len(found) == len(expected) and found.documents == 3
    assert found[(9, 9)] == 0
    assert found == DocumentFrequencies.from_counts(expected, 3)
    assert found.fingerprint() == DocumentFrequencies.from_counts(expected, 3).fingerprint()
    assert found.fingerprint() != DocumentFrequencies.count(REFERENCES, end=0).fingerprint()


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_gives_back_what_was_counted(tmp_path: Path, protocol: int) -> None:
    for end in (None, 0):
        counted = DocumentFrequencies.count(REFERENCES, end)
        content = {"document_frequency": as_strings(counted), "ref_len": 3}
        path = written(tmp_path / "idxs.p", content, protocol)
        assert DocumentFrequencies.from_pickle(path) == counted


def test_words_need_their_ids(tmp_path: Path) -> None:
    content = {"document_frequency": {("a", "dog"): 1.0, ("<eos>",): 2.0}, "ref_len": 2}
    path = written(tmp_path / "words.p", content)
    found = DocumentFrequencies.from_pickle(path, {"a": 4, "dog": 7})
    assert (found[(4, 7)], found[(0,)], found.end) == (1, 2, 0)
    with pytest.raises(CaptionScoreError, match=r"words\.p .* holds words, not ids; use .*-idxs"):
        DocumentFrequencies.from_pickle(path)
    with pytest.raises(CaptionScoreError, match="no word 'dog'"):
        DocumentFrequencies.from_pickle(path, {"a": 4})


def test_frequencies_of_real_captions_equal_those_in_the_pickle() -> None:
    folder = data_dir() / "captioning/karpathy_format_ucm"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    data = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    words = json.loads((folder / "cocotalk.json").read_text(encoding="utf-8"))["ix_to_word"]
    ids = {word: int(number) for number, word in words.items()}
    # The pickle's file name says train: no caption of another split, and every caption whole.
    references = [
        [[ids.get(word, ids.get("UNK", -1)) for word in s["tokens"]] for s in image["sentences"]]
        for image in data["images"]
        if image["split"] in ("train", "restval")
    ]
    given = DocumentFrequencies.from_pickle(folder / "coco-train-idxs.p")
    assert given.end == 0 and given.documents == len(references)
    assert DocumentFrequencies.count(references, end=0) == given


class Command:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_code_is_refused_unopened(tmp_path: Path) -> None:
    path = written(tmp_path / "idxs.p", {"document_frequency": Command(tmp_path / "made")})
    with pytest.raises(CaptionScoreError, match=r"idxs\.p isn't opened: it holds .*mkdir"):
        DocumentFrequencies.from_pickle(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"ref_len": 3}, "no document_frequency and ref_len"),
        ([1, 2], "no document_frequency and ref_len"),
        ({"document_frequency": [], "ref_len": 3}, "no dictionary"),
        ({"document_frequency": {}, "ref_len": 0.5}, "no number of images"),
        ({"document_frequency": {("1",): 4.0}, "ref_len": 3}, "of 3 images .* in 4"),
        ({"document_frequency": {("1",): 1.5}, "ref_len": 3}, "whole numbers"),
        ({"document_frequency": {("1",): "x"}, "ref_len": 3}, "can't be used"),
        ({"document_frequency": {(): 1.0}, "ref_len": 3}, "one to four"),
        ({"document_frequency": {("1",) * 5: 1.0}, "ref_len": 3}, "one to four"),
        ({"document_frequency": {"1": 1.0}, "ref_len": 3}, "no tuple of strings"),
        ({"document_frequency": {("70000",): 1.0}, "ref_len": 3}, "one to four word ids"),
    ],
)
def test_other_content_is_named(tmp_path: Path, content: object, said: str) -> None:
    path = written(tmp_path / "idxs.p", content)
    with pytest.raises(CaptionScoreError, match=said) as caught:
        DocumentFrequencies.from_pickle(path)
    assert str(path) in str(caught.value)


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    whole = pickle.dumps({"document_frequency": {("1",): 1.0}, "ref_len": 3}, 2)
    path = tmp_path / "idxs.p"
    for data in (b"", b"<!DOCTYPE html>", whole[:-9]):
        path.write_bytes(data)
        with pytest.raises(CaptionScoreError, match="no whole pickle"):
            DocumentFrequencies.from_pickle(path)
    with pytest.raises(CaptionScoreError, match="no such file"):
        DocumentFrequencies.from_pickle(tmp_path / "none.p")
    with pytest.raises(CaptionScoreError, match="at least one image"):
        DocumentFrequencies.count([])
