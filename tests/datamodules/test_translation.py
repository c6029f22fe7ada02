"""The DataModule over every layout: what users get, and what bad data give them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from attnbench.datamodules.translation import TranslationData
from attnbench.datamodules.translation_config import TranslationDataConfig
from attnbench.datamodules.vocabulary import Vocabulary
from tests.datamodules.fairseq_files import write_folder
from tests.datamodules.test_wmt14 import as_saved
from tests.datamodules.writing import EVAL, TRAIN, Sentence, write_corpus, write_lines

MOSES = [("It &apos;s a well @-@ known dog .", "Das ist ein &quot; Hund &quot; .")] * 3


def open_data(root: Path | None, **settings) -> TranslationData:
    settings = {"dataset": "demo", "vocabulary_size": 300, **settings}
    return TranslationData(TranslationDataConfig(root=root, **settings))


def collect(loader) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Each line's own row, without padding, by line number."""
    rows = {}
    for batch in loader:
        for row, line in enumerate(batch.index_B.tolist()):
            assert line not in rows
            source, target = batch.source_valid_BS[row], batch.target_valid_BT[row]
            rows[line] = (
                batch.source_BS[row][source].tolist(),
                batch.target_input_BT[row][target].tolist(),
                batch.target_output_BT[row][target].tolist(),
            )
    return rows


def test_batches_follow_the_conventions(tmp_path):
    data = open_data(write_corpus(tmp_path), max_tokens=60)
    vocabulary = data.vocabulary
    tokens = 0
    for batch in data.train_dataloader():
        assert batch.source_BS.dtype == batch.target_input_BT.dtype == torch.int64
        assert batch.source_valid_BS.dtype == torch.bool
        assert batch.source_BS[~batch.source_valid_BS].eq(vocabulary.pad).all()
        assert batch.target_output_BT[~batch.target_valid_BT].eq(vocabulary.pad).all()
        assert batch.target_input_BT[~batch.target_valid_BT].eq(vocabulary.pad).all()
        assert max(batch.source_BS.numel(), batch.target_output_BT.numel()) <= 60
        assert batch.tokens == int(batch.target_valid_BT.sum())
        tokens += batch.tokens
    rows = collect(data.train_dataloader())
    assert sorted(rows) == list(range(len(TRAIN)))
    assert tokens == sum(len(target) for _, _, target in rows.values())
    for line, (source, given, wanted) in rows.items():
        assert source[-1] == wanted[-1] == given[0] == vocabulary.eos
        assert given[1:] == wanted[:-1]
        assert vocabulary.unk not in source + wanted
        assert data.decode(wanted) == TRAIN[line][1]
        assert data.decode(source) == TRAIN[line][0], "the vocabulary is joint"


def test_batches_move_between_devices(tmp_path):
    batch = next(iter(open_data(write_corpus(tmp_path)).train_dataloader()))
    moved = batch.to("meta")
    assert moved.source_BS.device.type == moved.index_B.device.type == "meta"
    assert moved.tokens == batch.tokens and len(moved) == len(batch)
    assert batch.source_BS.device.type == "cpu"


def test_evaluated_splits_keep_every_line_in_file_order(tmp_path):
    data = open_data(write_corpus(tmp_path))
    for loader in (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader("test")):
        rows = collect(loader)
        assert sorted(rows) == [0, 1, 2]
        assert rows[1][0] == [data.vocabulary.eos], "an empty source is </s> alone"
        assert [data.decode(rows[line][2]) for line in range(3)] == data.references("test")
    assert data.references("val") == [target for _, target in EVAL]


def test_training_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path):
    train = [*TRAIN, ("", "leer"), ("empty", " "), ("", "")]
    data = open_data(write_corpus(tmp_path, train=train, val=EVAL, test=EVAL))
    assert sorted(collect(data.train_dataloader())) == list(range(20))
    card = data.card()
    assert card.splits["train"].dropped == {"empty source or target": 3}
    assert card.splits["train"].pairs == 20
    assert card.splits["val"].dropped == {} and card.splits["val"].empty == 1


def test_long_and_unlike_pairs_are_dropped_and_counted(tmp_path):
    train = [("a", "b"), ("a " * 9, "b"), ("a " * 20, "b " * 20), ("a " * 40, "b " * 40)]
    root = write_corpus(tmp_path, train=train, val=[("a", "b")], test=[("a", "b")])
    settings = {"subword": "none", "max_length": 30, "max_tokens": 20, "max_ratio": 2.0}
    card = open_data(root, **settings).card()
    assert card.splits["train"].dropped == {
        "longer than max_length=30": 1,
        "lengths differ more than max_ratio=2.0": 1,
        "longer than max_tokens=20": 1,
    }
    assert card.splits["train"].pairs == 1
    with Sentence("No training pair of split 'train'", "4 longer than max_tokens=1"):
        open_data(root, subword="none", max_tokens=1).train_dataloader()


def test_first_lines_only(tmp_path):
    data = open_data(write_corpus(tmp_path), train_lines=7, eval_lines=2)
    assert sorted(collect(data.train_dataloader())) == list(range(7))
    assert data.references("test") == [EVAL[0][1], EVAL[1][1]]
    assert len(data.encoded("val").lines) == 2


def test_moses_text_is_told_and_given_in_both_forms(tmp_path):
    data = open_data(write_corpus(tmp_path, train=MOSES, val=MOSES, test=MOSES))
    assert data.card().text == "moses"
    assert data.references("test")[0] == 'Das ist ein "Hund".'
    assert data.reference_tokens("test")[0] == MOSES[0][1]
    ids = data.encoded("test").target[0]
    assert data.decode(ids.tolist()) == 'Das ist ein "Hund".'
    assert data.decode_tokens(torch.from_numpy(ids)) == MOSES[0][1]


def test_raw_text_is_told_and_given_in_both_forms(tmp_path):
    data = open_data(write_corpus(tmp_path))
    assert data.card().text == "raw"
    ids = data.encoded("test").target[2].tolist()
    assert data.decode([*ids, 4, 5]) == "Ist die Katze neu?", "what follows </s> is ignored"
    assert data.decode_tokens(ids) == data.reference_tokens("test")[2] == "Ist die Katze neu ?"
    assert data.decode([2]) == data.decode_tokens([2]) == ""


CODES = ["#version: 0.2", "t h", "th e</w>", "K a", "t z"]


def test_codes_and_words(tmp_path):
    root = write_corpus(tmp_path / "data", train=MOSES, val=MOSES, test=MOSES)
    codes = write_lines(tmp_path / "codes", CODES)
    data = open_data(root, subword=str(codes))
    assert "H@@" in data.vocabulary and data.card().subword == "subword-nmt codes"
    assert data.decode_tokens(data.encoded("test").target[0].tolist()) == MOSES[0][1]
    words = open_data(root, subword="none")
    assert "Hund" in words.vocabulary and len(words.vocabulary) == 4 + 13
    assert words.decode_tokens(words.encoded("test").target[0].tolist()) == MOSES[0][1]
    few = open_data(root, subword="none", vocabulary_size=6)
    assert len(few.vocabulary) == 6 and few.card().splits["test"].target.unknown > 0
    with Sentence("no-codes", "does not exist"):
        open_data(root, subword=str(tmp_path / "no-codes")).setup("fit")


def test_a_given_dictionary_decides_the_ids(tmp_path):
    root = write_corpus(tmp_path / "data", train=MOSES, val=MOSES, test=MOSES)
    path = write_lines(tmp_path / "dict.txt", ["Hund 4", "ein 3", "Das 1", "madeupword0000 0"])
    data = open_data(root, subword="none", dictionary=path)
    assert data.vocabulary == Vocabulary.from_file(path)
    assert data.encoded("test").target[0].tolist() == [6, 3, 5, 3, 4, 3, 3, 2]


def test_subwords_on_disk_are_kept_and_removed_from_text(tmp_path):
    pieces = [("the ca@@ t s@@ leeps .", "die Ka@@ tze s@@ chläft .")] * 3
    root = write_corpus(tmp_path, train=pieces, val=pieces, test=pieces)
    data = open_data(root)
    assert "Ka@@" in data.vocabulary
    assert data.card().subword == "subwords as on disk, marked @@"
    assert data.references("test")[0] == "die Katze schläft."
    assert data.reference_tokens("test")[0] == "die Katze schläft ."
    assert data.decode(data.encoded("test").target[0].tolist()) == "die Katze schläft."
    codes = write_lines(tmp_path / "codes", CODES)
    with Sentence("already cut into subwords", "subword=none"):
        open_data(root, subword=str(codes)).setup("fit")


IDS = [[4, 5, 6, 7, 2], [5, 2], [2], [5, 6, 5, 2]]


def test_fairseq_folder_under_any_name(tmp_path):
    root = write_folder(tmp_path, train=IDS, valid=IDS, test=IDS)
    data = open_data(root, dataset="wmt14")
    assert sorted(collect(data.train_dataloader())) == [0, 1, 3], "the empty pair is dropped"
    assert sorted(collect(data.val_dataloader())) == [0, 1, 2, 3]
    assert data.references("test") == ["Hausboot, madeupword0000", "boot", "", "boot, boot"]
    assert data.reference_tokens("test")[3] == "boot , boot"
    card = data.card()
    assert card.format == "fairseq-preprocessed, joined dictionaries"
    assert card.text == "moses" and card.subword == "subwords as on disk, marked @@"
    assert any("recovered from ids" in note for note in card.notes)
    assert len(data.vocabulary) == 8 and card.source_vocabulary_size is None


def test_separate_dictionaries(tmp_path):
    root = write_folder(tmp_path, train=IDS, valid=IDS, test=IDS)
    write_lines(root / "dict.en.txt", ["the 5", "boat 3", ", 2", "x 1", "y 1"])
    data = open_data(root)
    assert data.vocabulary is data.target_vocabulary
    assert data.source_vocabulary.symbols[4:] == ["the", "boat", ",", "x", "y"]
    card = data.card()
    assert (card.source_vocabulary_size, card.vocabulary_size) == (9, 8)
    assert data.fingerprint()["source vocabulary"] != data.fingerprint()["target vocabulary"]


def test_hugging_face_folder(tmp_path):
    root = as_saved(tmp_path / "data")
    data = open_data(root, dataset="wmt14")
    assert data.card().format == "Hugging Face datasets (arrow)"
    assert sorted(collect(data.train_dataloader())) == list(range(20))
    assert data.references("val") == [target for _, target in EVAL]
    assert data.test_splits == ["test"]


def test_the_demo_needs_no_folder():
    data = open_data(None, train_lines=50)
    assert len(data.encoded("train").lines) == 50
    assert len(data.references("test")) == 200
    other = open_data(None, train_lines=50)
    assert other.root != data.root
    assert other.fingerprint() == data.fingerprint(), "and is the same each time"
    folder = data.root
    assert folder.is_dir()
    del data
    assert not folder.exists()


def test_test_split_by_name(tmp_path):
    splits = {"train": TRAIN, "val": EVAL, "test_2016_flickr": EVAL, "test_2017_mscoco": EVAL[:1]}
    root = write_corpus(tmp_path, **splits)
    data = open_data(root, dataset="multi30k")
    assert data.test_splits == ["test_2016_flickr", "test_2017_mscoco"]
    assert len(data.references("test")) == 3
    assert len(data.references("test_2017_mscoco")) == 1
    chosen = open_data(root, dataset="multi30k", test_split="test_2017_mscoco")
    assert len(chosen.references("test")) == 1
    with Sentence("no test split 'test_2018'", "test_2016_flickr, test_2017_mscoco"):
        open_data(root, test_split="test_2018").setup("test")


def test_missing_splits_and_folders(tmp_path):
    root = write_corpus(tmp_path / "a", train=TRAIN, val=EVAL)
    data = open_data(root)
    data.setup("fit")
    with Sentence("no split 'test'", "found: train, val"):
        data.setup("test")
    with Sentence("trained on"):
        data.references("train")
    with Sentence("nowhere does not exist", "demo"):
        open_data(tmp_path / "nowhere").setup("fit")
    (tmp_path / "empty").mkdir()
    with Sentence("empty holds no translation data", "train.en", "fairseq", "Hugging Face"):
        open_data(tmp_path / "empty").setup("fit")
    with Sentence("Unknown data set 'wmt41'", "'wmt14'"):
        open_data(root, dataset="wmt41").setup("fit")
    with Sentence("multi30k needs root"):
        open_data(None, dataset="multi30k").setup("fit")


def test_bad_files_stop_the_stage_that_needs_them(tmp_path):
    root = write_corpus(tmp_path)
    write_lines(root / "val.de", ["eine Zeile"])
    data = open_data(root)
    with Sentence("val.en has 3 lines but val.de has 1"):
        data.setup("fit")
    data.setup("test")
    with Sentence("Line 2 of split 'test'", "5 tokens", "max_tokens=3"):
        open_data(root, max_tokens=3, subword="none").test_dataloader()


def test_lines_beyond_the_first_are_checked_too(tmp_path):
    root = write_corpus(tmp_path)
    write_lines(root / "train.de", [target for _, target in TRAIN[:-1]])
    with Sentence("train.en has 20 lines but train.de has 19"):
        open_data(root, train_lines=3).setup("fit")


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="max_token\n"):
        TranslationDataConfig.model_validate({"max_token": 5})


def test_fingerprint_changes_with_content_only(tmp_path):
    first = open_data(write_corpus(tmp_path / "a")).fingerprint()
    assert first == open_data(write_corpus(tmp_path / "b")).fingerprint()
    assert set(first) >= {"train.en", "test.de", "subword", "target vocabulary"}
    changed = open_data(write_corpus(tmp_path / "c", train=TRAIN[:-1], val=EVAL, test=EVAL))
    assert {key for key, value in changed.fingerprint().items() if value != first[key]} >= {
        "train.en",
        "train.de",
    }


def test_a_cache_gives_the_same_batches_memory_mapped(tmp_path):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"
    plain = open_data(root)
    fresh, again = (open_data(root, cache=cache) for _ in range(2))
    expected = collect(plain.train_dataloader())
    assert collect(fresh.train_dataloader()) == expected
    written = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert collect(again.train_dataloader()) == expected
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == written
    assert isinstance(again.encoded("train").source.ids, np.memmap)
    assert again.fingerprint() == plain.fingerprint()
    assert again.card() == plain.card()
    assert again.references("test") == plain.references("test")


@pytest.mark.parametrize("subword", ["learn", "none", "codes"])
def test_a_cache_entry_is_used_for_what_it_was_made_from_only(tmp_path, subword):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"
    codes = write_lines(tmp_path / "codes", CODES)
    settings = {"cache": cache, "subword": str(codes) if subword == "codes" else subword}

    def batches(**changed) -> dict:
        data = open_data(root, **{**settings, **changed})
        fresh = open_data(root, **{**settings, **changed, "cache": None})
        assert data.vocabulary == fresh.vocabulary
        rows = collect(data.train_dataloader())
        assert rows == collect(fresh.train_dataloader())
        return rows

    first = batches()
    assert batches(train_lines=5) != first
    if subword == "learn":
        batches(vocabulary_size=280)
    write_lines(codes, [*CODES, "D i", "Di e</w>"])
    batches()
    write_lines(root / "train.de", [target[::-1] for _, target in TRAIN])
    assert batches() != first


def test_a_damaged_cache_entry_is_made_again(tmp_path):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"
    expected = collect(open_data(root, cache=cache).train_dataloader())
    entry = next(cache.iterdir())
    for name, content in (
        ("source.ids.npy", b""),
        ("target.lengths.npy", b"\x93NUMPY"),
        ("meta.json", b"{"),
        ("dict.txt", b"x"),
    ):
        (entry / name).write_bytes(content)
        assert collect(open_data(root, cache=cache).train_dataloader()) == expected
        assert json.loads((entry / "meta.json").read_text())["style"]["kind"] == "raw"
        assert [path.name for path in cache.iterdir()] == [entry.name]


def test_a_cache_that_cannot_be_written(tmp_path):
    root = write_corpus(tmp_path / "data")
    blocked = write_lines(tmp_path / "file", ["in the way"])
    with Sentence("cache", "can't be written", "another folder"):
        open_data(root, cache=blocked).setup("fit")


def test_a_full_disk_while_caching_leaves_nothing(tmp_path, monkeypatch):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with Sentence("can't be written", "No space left"):
        open_data(root, cache=cache).setup("fit")
    assert list(cache.iterdir()) == []


def test_a_folder_that_the_system_refuses(tmp_path):
    with Sentence("can't be read", "name too long"):
        open_data(tmp_path / ("a" * 300)).setup("fit")
    with Sentence("can't be read", "name too long"):
        root = write_corpus(tmp_path / "data")
        open_data(root, subword=str(tmp_path / ("a" * 300))).setup("fit")


@pytest.mark.parametrize(
    "meta",
    [
        [],
        {},
        {"marker": None, "style": {"kind": "raw", "why": "x"}, "bpe": "{}"},
        {"marker": None, "style": {"kind": "odd", "why": "x"}},
        {"marker": 3, "style": {"kind": "raw", "why": "x"}},
        {"marker": None, "style": "raw"},
    ],
)
def test_a_cache_entry_with_a_foreign_description_is_made_again(tmp_path, meta):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"
    expected = collect(open_data(root, cache=cache).train_dataloader())
    path = next(cache.iterdir()) / "meta.json"
    written = path.read_bytes()
    path.write_text(json.dumps(meta))
    assert collect(open_data(root, cache=cache).train_dataloader()) == expected
    assert path.read_bytes() == written


@pytest.mark.parametrize("wrong", [60_000, 400])
def test_cached_ids_outside_of_the_vocabulary_are_made_again(tmp_path, wrong):
    root, cache = write_corpus(tmp_path / "data"), tmp_path / "cache"
    expected = collect(open_data(root, cache=cache).train_dataloader())
    path = next(cache.iterdir()) / "source.ids.npy"
    ids = np.load(path)
    ids[3] = wrong
    np.save(path, ids)
    assert collect(open_data(root, cache=cache).train_dataloader()) == expected
