"""From files in the published layouts to the parts of a sentiment data set."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.sentiment_fields import names_of
from attnbench.datamodules.sentiment_records import MODALITIES
from tests.datamodules.sentiment_files import (
    SIZES,
    STEPS,
    iemocap,
    mmsa,
    mult,
    note,
    opened,
    refused,
    scores,
    streams,
    write_pickle,
    write_video_level,
)

# MulT's pickles


def test_the_file_of_the_alignment_that_is_wanted_is_read(tmp_path: Path) -> None:
    write_pickle(tmp_path / "mosi_data.pkl", mult(5))
    write_pickle(tmp_path / "mosi_data_noalign.pkl", mult())
    write_pickle(tmp_path / "mosei_senti_data.pkl", mult(6))
    write_pickle(tmp_path / "mosei_senti_data_noalign.pkl", mult())
    raw = opened(tmp_path)
    assert raw.format == "MulT pickle, unaligned" and raw.kind == "regression"
    assert [path.name for path in raw.files] == ["mosi_data_noalign.pkl"]
    assert note(raw, "steps x width") == "steps x width: text 5 x 4, audio 9 x 3, vision 7 x 2"
    raw = opened(tmp_path, alignment="aligned")
    assert raw.format == "MulT pickle, aligned"
    assert [path.name for path in raw.files] == ["mosi_data.pkl"]
    raw = opened(tmp_path, alignment="aligned", dataset="mosei")
    assert [path.name for path in raw.files] == ["mosei_senti_data.pkl"]
    raw = opened(tmp_path, file="mosei_senti_data_noalign.pkl")
    assert [path.name for path in raw.files] == ["mosei_senti_data_noalign.pkl"]


def test_parts_hold_what_the_file_holds(tmp_path: Path) -> None:
    content = mult()
    content["test"]["audio"][1, 2] = (-np.inf, np.nan, np.inf)
    content["train"]["vision"][0, 3:] = 0
    write_pickle(tmp_path / "a_noalign.pkl", content)
    raw = opened(tmp_path)
    assert list(raw.parts) == ["train", "val", "test"]
    for name, key in (("train", "train"), ("val", "valid"), ("test", "test")):
        part = raw.parts[name]
        assert len(part) == SIZES[key] and list(part.features) == list(MODALITIES)
        for modality, array in part.features.items():
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, content[key][modality].astype(np.float32))
        np.testing.assert_array_equal(part.labels, scores(SIZES[key])[:, None])
        assert part.lengths == {} and part.read_at is None and part.texts is None
        assert part.ids == part.groups == [f"{name}-{n}" for n in range(SIZES[key])]
    assert note(raw, "items:") == "items: train 6, val 3, test 4"
    assert note(raw, "published") == "the published files of mosi have 1,284/229/686 items"
    low, high = (f(part.labels) for f in (np.min, np.max) for part in [raw.parts["train"]])
    assert f"from {low:.4g} to {high:.4g}" in note(raw, "labels from")


def test_published_numbers_of_items_are_recognised(tmp_path: Path) -> None:
    content = {
        part: {m: np.ones((items, 1, 1)) for m in MODALITIES} | {"labels": np.ones((items, 1, 1))}
        for part, items in (("train", 1284), ("valid", 229), ("test", 686))
    }
    write_pickle(tmp_path / "mosi_data.pkl", content)
    raw = opened(tmp_path, alignment="aligned")
    assert "as many items as in the published files" in raw.notes


@pytest.mark.parametrize("shape", ["(N,)", "(N, 1)", "(N, 1, 1)"])
def test_shapes_of_labels(tmp_path: Path, shape: str) -> None:
    content = mult()
    for part, items in SIZES.items():
        content[part]["labels"] = scores(items).reshape(-1, *[1] * shape.count("1"))
    write_pickle(tmp_path / "a.pkl", content)
    np.testing.assert_array_equal(opened(tmp_path).parts["train"].labels[:, 0], scores(6))


def test_keys_in_other_words_and_order(tmp_path: Path) -> None:
    content = {
        b"dev": {
            "Label": scores(3).tolist(),
            b"visual": np.ones((3, 7, 2), np.float32),
            "language": np.ones((3, 5, 4)),
            "covarep": np.ones((3, 9, 3), np.int32),
            "ids": np.array([b"abc[0]", b"abc[1]", b"d\xc3\xa9f[0]"]),
            "raw_text": np.array(["one", "two", "three"]),
        },
        "version": 3,
    }
    write_pickle(tmp_path / "a.pkl", content)
    raw = opened(tmp_path)
    part = raw.parts["val"]
    assert list(raw.parts) == ["val"] and list(part.features) == list(MODALITIES)
    assert part.ids == ["abc[0]", "abc[1]", "d\u00e9f[0]"]
    assert part.groups == ["abc", "abc", "d\u00e9f"] and part.texts == ["one", "two", "three"]
    assert {"no part train in the files", "no part test in the files"} <= set(raw.notes)


@pytest.mark.parametrize(
    ("ids", "names", "groups"),
    [
        (None, ["val-0", "val-1"], ["val-0", "val-1"]),
        ([b"abc_def_1", b"abc_def_12"], ["abc_def_1", "abc_def_12"], ["abc_def"] * 2),
        (["v1$_$0", "v1$_$1"], ["v1$_$0", "v1$_$1"], ["v1", "v1"]),
        (["Ses01F_impro01_F000", "Ses01F_impro01_M000"],) * 2 + (["Ses01F_impro01"] * 2,),
        (
            [("-3g5yACwYnA", "0.0", "4.8"), ("-3g5yACwYnA", "4.8", "9.1")],
            ["-3g5yACwYnA[0.0,4.8]", "-3g5yACwYnA[4.8,9.1]"],
            ["-3g5yACwYnA"] * 2,
        ),
        (np.array([["a", "0", "1"], ["b", "0", "1"]]), ["a[0,1]", "b[0,1]"], ["a", "b"]),
        (np.array([[b"a", 0.5, 1], ["a", 1.5, 2]], object), ["a[0.5,1]", "a[1.5,2]"], ["a", "a"]),
        (np.array([["a"], ["b"]]), ["a", "b"], ["a", "b"]),
        (["same", "same"], ["same", "same#2"], ["same", "same"]),
    ],
)
def test_ids(ids: Any, names: list[str], groups: list[str]) -> None:
    found, videos, _ = names_of("here", ids, 2, "val")
    assert found == names and videos == groups


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    def changed(part: str, drop: str) -> str:
        content = mult()
        del content[part][drop]
        write_pickle(tmp_path / "a.pkl", content)
        return refused(tmp_path)

    assert "part valid has no audio (only text, vision, labels)" in changed("valid", "audio")
    assert "part test has no labels" in changed("test", "labels")
    content = mult()
    for part in content.values():
        del part["text"], part["vision"]
    write_pickle(tmp_path / "a.pkl", content)
    assert "has no text and no vision" in refused(tmp_path)
    write_pickle(tmp_path / "a.pkl", {"training": content["train"], "rest": 1})
    assert "has no text and no vision" in refused(tmp_path)
    write_pickle(tmp_path / "a.pkl", {"a": {}, "b": 1})
    assert "no sentiment data (a dictionary of a, b)" in refused(tmp_path)
    write_pickle(tmp_path / "a.pkl", [1, 2])
    assert "no sentiment data (list)" in refused(tmp_path)


def test_what_does_not_fit_is_named_with_numbers(tmp_path: Path) -> None:
    def changed(**fields: Any) -> str:
        content = mult()
        content["train"] |= fields
        write_pickle(tmp_path / "a.pkl", content)
        return refused(tmp_path)

    good = streams(6)
    said = changed(audio=good["audio"][:5])
    assert "unequal numbers of items (6 of text, 5 of audio, 6 of vision, 6 of labels)" in said
    assert "6 of vision, 7 of labels" in changed(labels=scores(7))
    assert "vision of " in changed(vision=good["vision"][:, 0]) and "(6, 2)" in refused(tmp_path)
    assert "(6, 0, 4)" in changed(text=good["text"][:, :0])
    assert "labels of " in changed(labels=np.ones((6, 1, 7))) and "(6, 1, 7)" in refused(tmp_path)
    assert "text of " in changed(text=np.full((6, 5, 4), "a")) and "numbers" in refused(tmp_path)
    assert "5 ids for 6 items" in changed(id=list("abcde"))
    assert "2 texts for 6 items" in changed(raw_text=["a", "b"])
    assert "audio as audio and as acoustic" in changed(acoustic=good["audio"])
    content = {"train": {m: np.ones((0, 2, 2)) for m in MODALITIES} | {"labels": np.ones(0)}}
    write_pickle(tmp_path / "a.pkl", content)
    assert "no items" in refused(tmp_path)


def test_claims_of_alignment_are_checked(tmp_path: Path) -> None:
    write_pickle(tmp_path / "mosi_data.pkl", mult(5))
    said = refused(tmp_path)
    assert "is aligned (text, audio and vision have 5/5/5 steps)" in said
    assert "set alignment=aligned" in said
    assert opened(tmp_path, file="mosi_data.pkl").format == "MulT pickle, aligned"
    write_pickle(tmp_path / "mosi_data.pkl", mult())
    said = refused(tmp_path, alignment="aligned")
    assert "is unaligned (text, audio and vision have 5/9/7 steps)" in said
    (tmp_path / "mosi_data.pkl").rename(tmp_path / "mosi_aligned.pkl")
    raw = opened(tmp_path)
    assert "the name says aligned, but the streams have 5/9/7 steps" in raw.notes
    write_pickle(tmp_path / "mosi_noalign.pkl", mult(5))
    assert opened(tmp_path).format == "MulT pickle, aligned"


def test_several_files_of_which_none_is_meant(tmp_path: Path) -> None:
    write_pickle(tmp_path / "a.pkl", mult())
    write_pickle(tmp_path / "below" / "b.pkl", mult())
    said = refused(tmp_path)
    assert "several data files (a.pkl, below/b.pkl)" in said and "file=" in said
    assert opened(tmp_path, file="below/b.pkl").files == [tmp_path / "below" / "b.pkl"]
    assert "has no c.pkl" in refused_by_any(tmp_path, file="c.pkl")
    assert "is no folder" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "no sentiment data" in refused(tmp_path / "empty")


def refused_by_any(root: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        opened(root, **settings)
    return str(caught.value)


def test_a_malicious_file_is_refused_before_anything_else(tmp_path: Path) -> None:
    class Command:
        def __reduce__(self) -> tuple[Any, tuple[str, str]]:
            return open, (str(tmp_path / "made"), "w")

    content: dict[str, Any] = mult()
    content["train"]["id"] = [Command()]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
    assert "isn't opened: it holds io.open" in refused(tmp_path)
    assert not (tmp_path / "made").exists()


# IEMOCAP


@pytest.mark.parametrize("positive", [0, 1])
def test_the_place_of_an_emotion_is_found_by_counting(tmp_path: Path, positive: int) -> None:
    write_pickle(tmp_path / "iemocap_data_noalign.pkl", iemocap(positive))
    raw = opened(tmp_path, dataset="iemocap")
    assert raw.kind == "emotions" and raw.emotions == ("neutral", "happy", "sad", "angry")
    labels = raw.parts["train"].labels
    assert labels.shape == (40, 4) and labels.dtype == np.int64
    assert labels.sum(0).tolist() == [10, 10, 10, 10] and labels[0].tolist() == [1, 0, 0, 0]
    first, second = (30, 90) if positive == 0 else (90, 30)
    counted = f"neutral {first} : {second}, happy {first} : {second}"
    assert counted in note(raw, "labels set at")
    said = f"place {positive} means that the emotion is there, the rarer place of 4 of the 4"
    assert said in note(raw, "means that")
    assert note(raw, "published").endswith("have 2,717/798/938 items")
    other = opened(tmp_path, dataset="iemocap", positive=str(1 - positive))
    np.testing.assert_array_equal(other.parts["train"].labels, 1 - labels)
    assert "as set" in note(other, "means that")


def test_one_common_emotion_does_not_mislead(tmp_path: Path) -> None:
    content = iemocap()
    for part in content.values():
        part["labels"][:, 0] = part["labels"][:, 0, ::-1]
    write_pickle(tmp_path / "a.pkl", content)
    raw = opened(tmp_path, dataset="iemocap")
    assert raw.parts["train"].labels.sum(0).tolist() == [30, 10, 10, 10]
    for part in content.values():
        part["labels"][:, 1] = part["labels"][:, 1, ::-1]
    write_pickle(tmp_path / "a.pkl", content)
    said = refused(tmp_path, dataset="iemocap")
    assert "neutral 30 : 90, happy 30 : 90, sad 90 : 30, angry 90 : 30" in said
    assert "positive=0 or positive=1" in said
    assert opened(tmp_path, positive="1").parts["train"].labels.sum(0).tolist() == [30, 30, 10, 10]
    write_pickle(tmp_path / "a.pkl", iemocap(share=0.5))
    assert "isn't clear" in refused(tmp_path, dataset="iemocap")


def test_places_that_were_counted_already_and_wrong_ones(tmp_path: Path) -> None:
    content = iemocap()
    for part in content.values():
        part["labels"] = part["labels"].argmax(2)
    write_pickle(tmp_path / "a.pkl", content)
    assert opened(tmp_path).parts["test"].labels.sum(0).tolist() == [10, 10, 10, 10]
    content = iemocap()
    content["valid"]["labels"][5, 2] = (1, 1)
    write_pickle(tmp_path / "a.pkl", content)
    assert "1 of 40 items haven't one 1 and one 0" in refused(tmp_path)
    content["valid"]["labels"] = content["valid"]["labels"][:, :, 0] * 3
    write_pickle(tmp_path / "a.pkl", content)
    assert "expected (items, 1, 1), or (items, 4, 2)" in refused(tmp_path)
    content["valid"]["labels"] = scores(40)
    write_pickle(tmp_path / "a.pkl", content)
    assert "emotions in some parts" in refused(tmp_path)


# MMSA's pickles


def test_mmsas_lengths_ids_and_texts(tmp_path: Path) -> None:
    content = mmsa()
    write_pickle(tmp_path / "unaligned_50.pkl", content)
    write_pickle(tmp_path / "aligned_50.pkl", mmsa(aligned=True))
    raw = opened(tmp_path)
    assert raw.format == "MMSA pickle, unaligned" and raw.kind == "regression"
    part = raw.parts["val"]
    given = content["valid"]
    assert part.lengths["audio"].tolist() == given["audio_lengths"]
    assert part.lengths["vision"].tolist() == given["vision_lengths"]
    assert part.lengths["text"].tolist() == given["text_bert"][:, 1].sum(1).tolist()
    assert part.ids == ["valid0$_$0", "valid0$_$1", "valid1$_$0"]
    assert part.groups == ["valid0", "valid0", "valid1"]
    assert part.texts == ["words of 0", "words of 1", "words of 2"]
    np.testing.assert_array_equal(part.labels, scores(3)[:, None])
    assert note(raw, "lengths of") == "lengths of text, audio, vision as the file has them"
    raw = opened(tmp_path, alignment="aligned")
    assert raw.format == "MMSA pickle, aligned"
    assert list(raw.parts["train"].lengths) == ["text"]


def test_mmsas_odd_lengths(tmp_path: Path) -> None:
    content = mmsa()
    content["train"]["audio_lengths"][1] = 300
    content["train"]["text_bert"][2, 1] = (0, 1, 1, 0, 0)  # no mask of a start
    write_pickle(tmp_path / "a.pkl", content)
    raw = opened(tmp_path)
    assert raw.parts["train"].lengths["audio"][1] == STEPS["audio"][0]
    assert "text" not in raw.parts["train"].lengths and "text" in raw.parts["test"].lengths
    assert note(raw, "cut to") == "train: 1 lengths of audio cut to the 9 steps there"
    content["train"]["audio_lengths"] = [1, 2]
    write_pickle(tmp_path / "a.pkl", content)
    assert "audio_lengths of " in refused(tmp_path)
    content["train"]["audio_lengths"] = [1, 2, 3, -1, 5, 6]
    write_pickle(tmp_path / "a.pkl", content)
    assert "whole numbers from 0" in refused(tmp_path)
    del content["test"]["regression_labels"]
    del content["train"]["audio_lengths"]
    write_pickle(tmp_path / "a.pkl", content)
    assert "part test has no regression_labels" in refused(tmp_path)


# By video


def test_pickles_by_video(tmp_path: Path) -> None:
    write_video_level(tmp_path)
    raw = opened(tmp_path, dataset="mosei")
    assert raw.format == "pickles by video" and raw.kind == "regression"
    assert [path.name for path in raw.files] == ["train_data.pkl", "val_data.pkl", "test_data.pkl"]
    part = raw.parts["test"]
    assert part.features["text"].shape == (4, 1, 6) and part.ids[3] == "test-3"
    assert np.isneginf(part.features["audio"][0, 0, 1])
    assert part.lengths["vision"].tolist() == [1, 1, 1, 1]
    np.testing.assert_array_equal(part.labels, scores(4)[:, None])
    assert not [said for said in raw.notes if "metadata" in said]
    (tmp_path / "train_data.pkl").unlink()
    raw = opened(tmp_path, dataset="mosei")
    assert list(raw.parts) == ["val", "test"] and "no part train in the files" in raw.notes
    assert note(raw, "metadata") == "metadata.pkl names 5 items of train; 0 are here"
    (tmp_path / "test_data.pkl").rename(tmp_path / "rest.pkl")
    assert "its name doesn't say which" in refused(tmp_path, file="rest.pkl")
    assert opened(tmp_path, file="val_data.pkl").files == [tmp_path / "val_data.pkl"]


def test_broken_pickles_by_video(tmp_path: Path) -> None:
    write_video_level(tmp_path)
    write_pickle(tmp_path / "val_data.pkl", {"language": np.ones((3, 2)), "labels": scores(3)})
    assert "no audio and no vision" in refused(tmp_path)
    write_pickle(tmp_path / "val_data.pkl", [1])
    assert "no language, acoustic or visual features" in refused(tmp_path)
    write_video_level(tmp_path)
    (tmp_path / "valid.pickle").write_bytes((tmp_path / "val_data.pkl").read_bytes())
    assert "both part val" in refused(tmp_path)
