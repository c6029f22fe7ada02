"""Readers of sentiment data against real files in the published layouts."""

from pathlib import Path

import numpy as np
import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.pickles import read_pickle
from attnbench.datamodules.sentiment_config import SentimentDataConfig
from attnbench.datamodules.sentiment_open import open_sentiment
from attnbench.datamodules.sentiment_records import MODALITIES, RawPart, RawSentiment
from tests.datamodules.sentiment_files import write_pickle
from tests.shared import data_dir


def folder(name: str) -> Path:
    found = data_dir() / "sentiment" / name
    if not found.is_dir():
        pytest.skip(f"{found} is not there")
    return found


@pytest.fixture(scope="module")
def from_csv() -> RawSentiment:
    return open_sentiment(SentimentDataConfig(dataset="mosi"), folder("mosi_utterance"))


@pytest.fixture(scope="module")
def from_npz() -> RawSentiment:
    config = SentimentDataConfig(dataset="mosi", file=Path("mosi_by_video.npz"))
    return open_sentiment(config, folder("mosi_utterance"))


def own(part: RawPart) -> np.ndarray:
    """Each utterance's own features, all modalities in a row."""
    assert part.read_at is not None
    rows = np.arange(len(part))
    return np.hstack([part.features[m][rows, part.read_at[m]] for m in MODALITIES])


def test_cmu_mosi_as_csv(from_csv: RawSentiment) -> None:
    assert from_csv.format == "CSV of utterances" and from_csv.kind == "binary"
    assert {name: len(part) for name, part in from_csv.parts.items()} == {
        "train": 1447,
        "test": 752,
    }
    train, test = from_csv.parts["train"], from_csv.parts["test"]
    assert len(set(train.groups)) == 62 and len(set(test.groups)) == 31
    assert not set(train.groups) & set(test.groups)
    assert {m: test.features[m].shape for m in MODALITIES} == {
        "text": (752, 63, 100),
        "audio": (752, 63, 73),
        "vision": (752, 63, 100),
    }
    assert train.labels.sum() == 709 and round(float(test.labels.mean()), 3) == 0.621
    assert train.texts is not None and all(train.texts)
    # Utterances of a video are in its order, not in that of their names (_10 before _2).
    for group in set(train.groups):
        numbers = [int(i.rpartition("_")[2]) for i in train.ids if i.rpartition("_")[0] == group]
        assert numbers == list(range(1, len(numbers) + 1))


def test_the_layouts_hold_the_same_videos(from_csv: RawSentiment, from_npz: RawSentiment) -> None:
    for name, part in from_csv.parts.items():
        other = from_npz.parts[name]
        mine, theirs = own(part), own(other)
        match = [int(np.abs(theirs - row).max(1).argmin()) for row in mine]
        assert len(set(match)) == len(part)
        np.testing.assert_array_equal(part.labels, other.labels[match])
        for modality in MODALITIES:
            # Not only the utterance, also its video: all neighbours in their order.
            np.testing.assert_allclose(
                part.features[modality], other.features[modality][match], atol=1e-3
            )
            np.testing.assert_array_equal(part.lengths[modality], other.lengths[modality][match])


def test_the_python_2_pickle_holds_the_same_audio(from_npz: RawSentiment, tmp_path: Path) -> None:
    source = folder("mosi_utterance") / "audio_python2.pickle"
    content = read_pickle(source)
    assert content[0].shape == (62, 63, 73) and content[2].shape == (31, 63, 73)
    with pytest.raises(DataError, match="no pickle of text and none of vision"):
        config = SentimentDataConfig(dataset="mosi", file=Path(source.name))
        open_sentiment(config, source.parent)
    # Beside it the other two modalities as the same layout has them.
    (tmp_path / "audio.pickle").write_bytes(source.read_bytes())
    for modality, name in (("text", "text"), ("vision", "video")):
        parts = []
        for part, place in (("train", 0), ("test", 2)):
            shape = (*content[place].shape[:2], from_npz.parts[part].features[modality].shape[2])
            videos = np.zeros(shape, np.float32)
            read_at = from_npz.parts[part].read_at
            assert read_at is not None
            stream = from_npz.parts[part].features[modality][read_at[modality] == 0]
            videos[:, : stream.shape[1]] = stream
            parts += [videos, content[place + 1]]
        write_pickle(tmp_path / f"{name}.pickle", (*parts, *content[4:]), 2)
    raw = open_sentiment(SentimentDataConfig(dataset="mosi"), tmp_path)
    assert len(raw.files) == 3
    for name, part in raw.parts.items():
        other = from_npz.parts[name]
        np.testing.assert_array_equal(part.labels, other.labels)
        assert part.groups == other.groups
        for modality in MODALITIES:
            np.testing.assert_allclose(
                part.features[modality], other.features[modality], rtol=1e-5, atol=1e-5
            )


def test_cmu_mosei_by_video() -> None:
    raw = open_sentiment(SentimentDataConfig(dataset="mosei"), folder("mosei_video_level"))
    assert raw.format == "pickles by video" and list(raw.parts) == ["val", "test"]
    assert {name: len(part) for name, part in raw.parts.items()} == {"val": 264, "test": 658}
    widths = {m: array.shape[1:] for m, array in raw.parts["test"].features.items()}
    assert widths == {"text": (1, 768), "audio": (1, 40), "vision": (1, 35)}
    # Values are left as they are.
    for name, infinite in (("val", 195), ("test", 458)):
        features = raw.parts[name].features
        assert int(np.isneginf(features["audio"]).sum()) == infinite
        assert all(np.isfinite(features[m]).all() for m in ("text", "vision"))
    assert "metadata.pkl names 2,370 items of train; 0 are here" in raw.notes
    assert "no part train in the files" in raw.notes
