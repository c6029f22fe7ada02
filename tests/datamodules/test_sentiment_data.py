import gc
import json
import pickle

import numpy as np
import pytest
import torch

from attnbench.benchmarks.cli import main
from attnbench.datamodules import sentiment
from attnbench.datamodules.demo.sentiment import DIMS, draw_parts, write_sentiment_demo
from attnbench.datamodules.sentiment import SentimentData
from attnbench.datamodules.sentiment_card import SentimentCard, check_sentiment
from attnbench.datamodules.sentiment_config import SentimentDataConfig
from tests.datamodules.writing import Sentence

SIZES = {"train": 40, "val": 10, "test": 20}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_sentiment_demo(tmp_path_factory.mktemp("demo") / "demo", **SIZES)


def data(root, **settings) -> SentimentData:
    return SentimentData(SentimentDataConfig(root=root, **{"batch_size": 8, **settings}))


def contents(batches):
    return [(b.index_B.tolist(), b.features["vision"].tolist()) for b in batches]


@pytest.mark.parametrize("alignment", ["aligned", "unaligned"])
def test_the_demo_is_read_as_it_was_drawn(root, alignment):
    module = data(root, alignment=alignment)
    drawn = draw_parts(0, {"train": 40, "valid": 10, "test": 20})
    assert module.dims == DIMS and module.kind == "regression" and module.emotions == ()
    assert module.label_count == 1 and module.texts("train") is None
    for split, part in {"train": "train", "val": "valid", "test": "test"}.items():
        labels = module.labels(split)
        np.testing.assert_array_equal(labels, drawn[part].labels)
        assert labels.dtype == np.float32
        assert len(module.ids(split)) == len(set(module.ids(split))) == len(labels)
        assert len(set(module.groups(split))) == -(-len(labels) // 4)
    streams = drawn["test"].streams[alignment]
    for batch in module.test_dataloader():
        for modality, features in batch.features.items():
            for place, number in enumerate(batch.index_B.tolist()):
                expected = np.nan_to_num(streams[modality][number], neginf=0)
                real = (streams[modality][number] != 0).any(-1)
                found = features[place, batch.valid[modality][place]]
                np.testing.assert_array_equal(found, expected[real])


def test_the_padding_of_the_file(root):
    batch = next(iter(data(root, padding="file").train_dataloader()))
    assert [batch.features[m].shape[1] for m in DIMS] == [12, 36, 24]
    assert all(batch.valid[m][:, -1].all() for m in DIMS)
    assert batch.read_at["audio"].tolist() == [35] * 8


def test_scaling_is_that_of_the_training_part(root):
    module = data(root, scale="standard", padding="trim")
    for modality in DIMS:
        rows = torch.cat(
            [b.features[modality][b.valid[modality]] for b in module.train_dataloader()]
        )
        np.testing.assert_allclose(rows.mean(0), np.zeros(DIMS[modality]), atol=1e-4)
        np.testing.assert_allclose(rows.std(0), np.ones(DIMS[modality]), atol=1e-2)
    other = data(root, scale="standard", train_items=10)
    assert not np.array_equal(module.pooled("test"), other.pooled("test"))
    assert module.train_pooled().shape == (40, sum(DIMS.values()))


def test_training_goes_on_with_the_next_batch(root):
    module = data(root)
    batches = iter(module.train_dataloader())
    for _ in range(2):
        next(batches)
    state = json.loads(json.dumps(module.state_dict()))
    rest = contents(batches)
    second = data(root)
    second.load_state_dict(state)
    assert contents(second.train_dataloader()) == rest
    other = data(root, batch_size=5)
    other.load_state_dict(state)
    with Sentence("batch_size was 8 and is 5"):
        other.train_dataloader()


def test_a_second_start_reads_no_pickle(root, tmp_path, monkeypatch):
    first = data(root, cache=tmp_path)
    expected = contents(first.train_dataloader())
    fingerprint, card = first.fingerprint(), first.card()

    def refuse(*_):
        raise AssertionError("read again")

    monkeypatch.setattr(sentiment, "open_sentiment", refuse)
    second = data(root, cache=tmp_path)
    assert contents(second.train_dataloader()) == expected
    assert second.fingerprint() == fingerprint and second.card() == card
    with pytest.raises(AssertionError, match="read again"):
        data(root, cache=tmp_path, alignment="aligned").setup("fit")


def test_the_demo_needs_no_folder_and_leaves_none(monkeypatch):
    monkeypatch.setattr(
        sentiment, "write_sentiment_demo", lambda root: write_sentiment_demo(root, **SIZES)
    )
    module = data(None)
    module.setup("fit")
    folder = module.root
    assert folder.is_dir()
    del module
    gc.collect()
    assert not folder.exists()
    with Sentence("mosi needs root", "multicomp.cs.cmu.edu"):
        data(None, dataset="mosi").setup("fit")


def test_parts_that_are_missing(tmp_path):
    write_pickle(tmp_path, {name: part(name, 6) for name in ("valid", "test")})
    module = data(tmp_path, dataset="mosei")
    module.setup("test")
    with Sentence(str(tmp_path), "no part train"):
        module.setup("fit")
    turned = data(tmp_path, dataset="mosei", train_part="test", test_part="val")
    with Sentence("val_part and test_part are both val"):
        turned.setup("fit")
    with Sentence("no folder"):
        data(tmp_path / "nowhere", dataset="mosei").setup("fit")


def part(name: str, items: int) -> dict:
    drawn = draw_parts(len(name), {name: items})[name]
    return drawn.as_in_file("unaligned")


def write_pickle(folder, content):
    (folder / "mosi_data_noalign.pkl").write_bytes(pickle.dumps(content, protocol=4))


def test_the_card_says_what_was_found(root):
    card = check_sentiment("demo", root, scale="standard", val_part="held-out")
    assert card.streams["audio"].cleaned["-inf"] > 0 and card.streams["text"].cleaned == {}
    assert card.streams["vision"].side == "left" and card.streams["vision"].steps == [24]
    assert card.streams["text"].shortest == 8 and card.streams["text"].longest == 12
    split = card.splits["val"]
    assert split.part == "train" and split.videos == 2 and split.items == 8
    assert card.splits["train"].items == 32
    assert list(card.files) == ["demo_data_noalign.pkl"]
    text = card.render(200)
    for words in ("held out of part train", "became 0", "MulT pickle", "zero %"):
        assert words in text
    assert SentimentCard.model_validate_json(card.model_dump_json()) == card


def test_labels_that_never_change_and_text_that_is_missing_are_said(tmp_path):
    parts = {name: part(name, 12) for name in ("train", "valid", "test")}
    parts["test"]["labels"][:] = 1.5
    parts["train"]["text"][[0, 3]] = 0
    write_pickle(tmp_path, parts)
    notes = check_sentiment("mosi", tmp_path).notes
    assert "test: the label is 1.5 for every item; correlation is undefined" in notes
    assert any(
        note.startswith("train, text: 2 items have no real step, such as train-0[0,5]")
        for note in notes
    )
    batch = next(iter(data(tmp_path, dataset="mosi").predict_dataloader("train")))
    assert [place < 0 for place in batch.read_at["text"].tolist()[:4]] == [True, False, False, True]
    assert not batch.valid["text"][0].any()
    parts["valid"]["text"][:] = 0
    write_pickle(tmp_path, parts)
    with Sentence("no item of part val has a real step of text"):
        check_sentiment("mosi", tmp_path)


def test_the_commands(root, tmp_path, capsys):
    assert main(["data", "check", "demo", "--root", str(root), "alignment=aligned", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["streams"]["audio"]["steps"] == [12] and card["format"].startswith("MulT pickle")
    assert main(["data", "check", "mosi", "--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["data", "check", "mosi", "--root", str(root), "paddings=file"]) == 2
    assert "did you mean padding" in capsys.readouterr().err
    assert main(["data", "pack", "mosi", "--root", str(root)]) == 2
    assert "no image features" in capsys.readouterr().err


def test_torch_state_is_left_alone(root):
    before = torch.get_rng_state()
    for _ in data(root).train_dataloader():
        pass
    assert torch.equal(torch.get_rng_state(), before)
