import pytest

from attnbench.datamodules.sentiment_config import SentimentDataConfig
from attnbench.datamodules.sentiment_convert import convert
from attnbench.datamodules.sentiment_splits import Splits, make_splits
from tests.datamodules.sentiment_raw import raw_part, raw_sentiment
from tests.datamodules.writing import Sentence


def splits(tmp_path, parts=None, **settings) -> Splits:
    store = convert(raw_sentiment(tmp_path, parts), tmp_path)
    return make_splits(SentimentDataConfig(dataset="mosi", **settings), store)


def videos(tmp_path, found, name):
    store = convert(raw_sentiment(tmp_path), tmp_path)
    split = found.found[name]
    return {store.parts[split.part].groups[row] for row in split.rows}


def test_each_split_is_its_part_of_the_files(tmp_path):
    found = splits(tmp_path)
    sizes = {name: (split.part, len(split.rows)) for name, split in found.found.items()}
    assert sizes == {"train": ("train", 20), "val": ("val", 7), "test": ("test", 9)}
    assert found.notes == []


def test_whole_videos_are_held_out_by_seed(tmp_path):
    settings = {"val_part": "held-out", "hold_out": 0.34}
    found = splits(tmp_path, **settings)
    train, val = (videos(tmp_path, found, name) for name in ("train", "val"))
    assert len(val) == 2 and len(train) == 4 and not train & val
    assert len(found.found["train"].rows) + len(found.found["val"].rows) == 20
    again = splits(tmp_path, **settings)
    assert again.found["val"].rows.tolist() == found.found["val"].rows.tolist()
    drawn = {
        frozenset(videos(tmp_path, splits(tmp_path, **settings, split_seed=seed), "val"))
        for seed in range(8)
    }
    assert len(drawn) > 3
    assert "of 2 videos (of 6) held out of part train, split_seed 0" in found.notes[0]


def test_files_without_validation_hold_some_out_and_say_so(tmp_path):
    parts = {"train": raw_part("train", 20, videos=6), "test": raw_part("test", 9)}
    found = splits(tmp_path, parts)
    assert found.found["val"].part == "train"
    assert any("no part val" in note for note in found.notes)


def test_parts_may_change_roles(tmp_path):
    parts = {"val": raw_part("val", 7), "test": raw_part("test", 9)}
    found = splits(tmp_path, parts, train_part="test", test_part="val", val_part="held-out")
    assert found.found["train"].part == found.found["val"].part == "test"
    assert found.found["test"].part == "val" and len(found.found["test"].rows) == 7
    with Sentence("train_part and test_part are both test", "two roles"):
        splits(tmp_path, parts, train_part="test", test_part="test", val_part="held-out")
    with Sentence("val_part and test_part are both val", "held-out"):
        splits(tmp_path, parts, train_part="test", test_part="val")


def test_a_part_that_is_missing(tmp_path):
    parts = {"val": raw_part("val", 7), "test": raw_part("test", 9)}
    found = splits(tmp_path, parts)
    with Sentence("no part train, which train needs", "only val, test", "train_part"):
        found.of("train", tmp_path)
    with Sentence("no split 'other'"):
        found.of("other", tmp_path)
    assert len(found.of("test", tmp_path).rows) == 9


def test_an_item_in_two_splits_is_refused_but_not_a_name(tmp_path):
    train, test = raw_part("train", 6), raw_part("test", 4)
    test.ids[1] = "train-2"
    found = splits(tmp_path, {"train": train, "test": test}, val_part="held-out")
    assert "1 ids are in several splits, for different items" in found.notes
    for modality, array in test.features.items():
        array[1] = train.features[modality][2]
    with Sentence("Item train-2 is in", "test", "remove it"):
        splits(tmp_path, {"train": train, "test": test}, val_part="held-out")


def test_videos_that_train_and_test_share_are_counted(tmp_path):
    train, test = raw_part("train", 6), raw_part("test", 4)
    test.groups[0] = test.groups[1] = "train-v0"
    found = splits(tmp_path, {"train": train, "val": raw_part("val", 3), "test": test})
    assert found.notes == ["1 videos have items in train and in test, as the files have it"]


def test_only_the_first_items(tmp_path):
    found = splits(tmp_path, train_items=5, eval_items=3)
    assert {name: len(split.rows) for name, split in found.found.items()} == {
        "train": 5,
        "val": 3,
        "test": 3,
    }
    held = splits(tmp_path, val_part="held-out", train_items=5)
    whole = splits(tmp_path, val_part="held-out")
    assert held.found["val"].rows.tolist() == whole.found["val"].rows.tolist()


def test_one_video_cannot_be_cut(tmp_path):
    parts = {"train": raw_part("train", 6, videos=1), "test": raw_part("test", 4)}
    with Sentence("one video only", "val_part"):
        splits(tmp_path, parts)


@pytest.mark.parametrize("bad", [{"hold_out": 0}, {"hold_out": 1}, {"context": -1}, {"extra": 1}])
def test_settings_out_of_range(bad):
    with pytest.raises(ValueError):
        SentimentDataConfig(**bad)
