import shutil
from pathlib import Path

import pytest

from attnbench.datamodules.translation import TranslationData
from attnbench.datamodules.translation_config import TranslationDataConfig
from attnbench.datamodules.wmt14 import HuggingFaceText, is_hugging_face
from tests.datamodules.writing import EVAL, TRAIN, Sentence

datasets = pytest.importorskip("datasets")
SPLITS = {"train": TRAIN, "validation": EVAL, "test": EVAL[:2]}


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()


def dataset_dict(languages=("de", "en"), column="translation"):
    """A set in the exact schema of `wmt14`, configuration de-en."""
    features = datasets.Features({column: datasets.Translation(languages=list(languages))})
    return datasets.DatasetDict(
        {
            split: datasets.Dataset.from_dict(
                {column: [dict(zip(languages, (de, en), strict=True)) for en, de in pairs]},
                features=features,
            )
            for split, pairs in SPLITS.items()
        }
    )


def as_saved(root: Path) -> Path:
    dataset_dict().save_to_disk(str(root))
    return root


def as_saved_in_shards(root: Path) -> Path:
    dataset_dict().save_to_disk(str(root), num_shards={"train": 3, "validation": 1, "test": 1})
    return root


def as_on_the_hub(root: Path) -> Path:
    """Parquet files in a folder of the configuration, beside another configuration."""
    for split, rows in dataset_dict().items():
        for pair in ("de-en", "cs-en"):
            (root / pair).mkdir(parents=True, exist_ok=True)
            rows.to_parquet(str(root / pair / f"{split}-00000-of-00001.parquet"))
    return root


def as_cached(root: Path) -> Path:
    """Arrow files named as load_dataset names them in its cache_dir."""
    folder = root / "wmt___wmt14" / "de-en" / "0.0.0" / "abc123"
    saved = as_saved_in_shards(root / "saved")
    folder.mkdir(parents=True)
    for split in SPLITS:
        shards = sorted((saved / split).glob("*.arrow"))
        for number, path in enumerate(shards):
            shard = f"-{number:05}-of-{len(shards):05}" if len(shards) > 1 else ""
            shutil.copy(path, folder / f"wmt14-{split}{shard}.arrow")
    shutil.rmtree(saved)
    return root


LAYOUTS = [as_saved, as_saved_in_shards, as_on_the_hub, as_cached]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs_in_order(tmp_path, layout):
    root = layout(tmp_path / "data")
    before = sorted(path for path in root.rglob("*"))
    assert is_hugging_face(root)
    corpus = HuggingFaceText(root, ("en", "de"))
    assert (corpus.training, corpus.validation, corpus.tests) == ("train", "validation", ["test"])
    for split, pairs in SPLITS.items():
        assert list(corpus.pairs(split)) == pairs
        assert all(path.is_file() for path in corpus.files(split))
    back = HuggingFaceText(root, ("de", "en"))
    assert list(back.pairs("train")) == [(target, source) for source, target in TRAIN]
    assert sorted(path for path in root.rglob("*")) == before, "nothing is written into the data"


def test_missing_sides_are_empty_lines_and_line_ends_are_spaces(tmp_path):
    rows = [{"de": None, "en": "a\nb"}, {"de": "c", "en": "d"}]
    features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
    train = datasets.Dataset.from_dict({"translation": rows}, features=features)
    datasets.DatasetDict({"train": train}).save_to_disk(str(tmp_path))
    corpus = HuggingFaceText(tmp_path, ("en", "de"))
    assert list(corpus.pairs("train")) == [("a b", ""), ("d", "c")]
    assert corpus.validation is None and corpus.tests == []


def test_other_rows_and_languages(tmp_path):
    dataset_dict(column="text").save_to_disk(str(tmp_path / "column"))
    with Sentence("split train", "'translation'", "columns text"):
        next(HuggingFaceText(tmp_path / "column", ("en", "de")).pairs("train"))
    dataset_dict(("fr", "en")).save_to_disk(str(tmp_path / "language"))
    with Sentence("split train", "en and de", "languages fr, en"):
        next(HuggingFaceText(tmp_path / "language", ("en", "de")).pairs("train"))


def test_a_single_split_several_sets_and_nothing(tmp_path):
    dataset_dict()["train"].save_to_disk(str(tmp_path / "single"))
    with Sentence("single split", "save_to_disk"):
        HuggingFaceText(tmp_path / "single", ("en", "de"))
    for name in ("a", "b"):
        as_on_the_hub(tmp_path / "two" / name)
    with Sentence("sets in", "exactly one set"):
        HuggingFaceText(tmp_path / "two", ("en", "de"))
    (tmp_path / "none").mkdir()
    assert not is_hugging_face(tmp_path / "none")


@pytest.mark.parametrize("layout", [as_saved, as_on_the_hub, as_cached])
def test_damaged_files(tmp_path, layout):
    root = layout(tmp_path)
    corpus = HuggingFaceText(root, ("en", "de"))
    path = corpus.files("train")[0]
    path.write_bytes(path.read_bytes()[:100])
    with Sentence("split train", "copy the set again"):
        list(corpus.pairs("train"))


@pytest.mark.parametrize("row", [None, {"de": "c", "en": 5}])
def test_a_row_without_text_is_named(tmp_path, row):
    good = {"de": "a", "en": "b"} if row is None else {"de": "a", "en": 1}
    text = datasets.Value("string" if row is None else "int64")
    features = datasets.Features({"translation": {"de": datasets.Value("string"), "en": text}})
    rows = [good, row] if row is None else [{"de": "a", "en": None}, row]
    train = datasets.Dataset.from_dict({"translation": rows}, features=features)
    datasets.DatasetDict({"train": train}).save_to_disk(str(tmp_path))
    with Sentence("split train", "row 2", "instead of text"):
        list(HuggingFaceText(tmp_path, ("en", "de")).pairs("train"))


def test_local_parquet_needs_no_network(tmp_path, monkeypatch):
    root = as_on_the_hub(tmp_path)
    asked = []

    def refuse(host, *rest, **options):
        asked.append(host)
        raise OSError("no network")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert len(list(HuggingFaceText(root, ("en", "de")).pairs("train"))) == len(TRAIN)
    assert not asked


def test_training_files_are_told_apart_whatever_folders_are_called(tmp_path):
    root = tmp_path / "train-data"
    for split, rows in dataset_dict().items():
        (root / "training" / "de-en").mkdir(parents=True, exist_ok=True)
        rows.to_parquet(str(root / "training" / "de-en" / f"{split}-00000-of-00001.parquet"))
    data = TranslationData(
        TranslationDataConfig.model_validate({"dataset": "wmt14", "root": root, "subword": "none"})
    )
    everything, training = data.fingerprint(), data.training_fingerprint()
    test = "training/de-en/test-00000-of-00001.parquet"
    assert test in everything and test not in training
    assert training == {
        name: everything[name]
        for name in (
            "training/de-en/train-00000-of-00001.parquet",
            "subword",
            "source vocabulary",
            "target vocabulary",
        )
    }
