import os
from pathlib import Path

import numpy as np
import pytest

from attnbench.datamodules.sentiment_cache import cached_store, verify_store
from attnbench.datamodules.sentiment_config import SentimentDataConfig
from attnbench.datamodules.sentiment_convert import convert
from attnbench.datamodules.sentiment_store import SentimentStore
from tests.datamodules.sentiment_raw import raw_sentiment
from tests.datamodules.writing import Sentence


class Source:
    """A data set that counts how often it is read."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "root", folder / "cache"
        self.root.mkdir(exist_ok=True)
        self.reads = 0
        self.raw = raw_sentiment(self.root)

    def open(self, **settings) -> SentimentStore:
        config = SentimentDataConfig(dataset="mosi", cache=self.cache, **settings)
        return cached_store(config, self.root, self._make)

    def _make(self) -> SentimentStore:
        self.reads += 1
        return convert(self.raw, self.root)

    def entries(self) -> list[Path]:
        return sorted((self.cache / "sentiment").iterdir())


def same(one: SentimentStore, other: SentimentStore) -> bool:
    for name, part in one.parts.items():
        there = other.parts[name]
        assert (part.ids, part.groups, part.texts) == (there.ids, there.groups, there.texts)
        np.testing.assert_array_equal(part.labels, there.labels)
        assert part.labels.dtype == there.labels.dtype
        for modality, stream in part.streams.items():
            numbers = np.arange(len(part))
            for as_in_file in (False, True):
                a, b = (
                    each.gather(numbers, as_in_file=as_in_file)
                    for each in (stream, there.streams[modality])
                )
                np.testing.assert_array_equal(a.features_BTF, b.features_BTF)
                np.testing.assert_array_equal(a.valid_BT, b.valid_BT)
                np.testing.assert_array_equal(a.read_at_B, b.read_at_B)
    return True


def test_sources_are_read_once(tmp_path):
    source = Source(tmp_path)
    first, second = source.open(), source.open()
    assert source.reads == 1
    assert same(convert(source.raw, source.root), second) and same(first, second)
    assert second.header.files.keys() == {"source.pkl"}
    assert second.header.parts == first.header.parts
    assert second.parts["train"].streams["audio"].rows_RF.base is not None  # mapped, not read
    assert len(source.entries()) == 1


def test_settings_that_change_nothing_share_an_entry_and_others_do_not(tmp_path):
    source = Source(tmp_path)
    source.open()
    source.open(batch_size=3, scale="standard", val_part="held-out", seed=4)
    assert source.reads == 1
    source.open(context=2)
    source.open(alignment="aligned")
    assert source.reads == 3 and len(source.entries()) == 3


def test_a_changed_source_is_read_again(tmp_path):
    source = Source(tmp_path)
    source.open()
    stamp = (source.root / "source.pkl").stat()
    (source.root / "source.pkl").write_bytes(b"not read herE")  # as long as before
    os.utime(source.root / "source.pkl", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    source.raw.parts["train"].features["text"][3] += 1
    changed = source.open()
    assert source.reads == 2 and same(convert(source.raw, source.root), changed)
    source.open()
    assert source.reads == 2 and len(source.entries()) == 1


@pytest.mark.parametrize("name", ["header.json", "train.npz", "test.json", "val.audio.npy"])
@pytest.mark.parametrize("how", ["cut", "gone", "other"])
def test_a_damaged_entry_is_made_again(tmp_path, name, how):
    source = Source(tmp_path)
    source.open()
    path = source.entries()[0] / name
    content = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "other":
        path.write_bytes(b"{}")
    again = source.open()
    assert source.reads == 2 and same(convert(source.raw, source.root), again)
    source.open()
    assert source.reads == 2
    assert [path.name for path in source.entries()] == [source.entries()[0].name]


def test_a_changed_value_in_the_cache_is_found_by_a_check(tmp_path):
    source = Source(tmp_path)
    verify_store(source.open())
    path = source.entries()[0] / "train.text.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with Sentence("train.text.npy", "is damaged", "remove"):
        verify_store(source.open())


def test_a_cache_that_cannot_be_written(tmp_path):
    source = Source(tmp_path)
    source.cache.write_text("a file")
    with Sentence(str(source.cache), "can't be written", "another folder"):
        source.open()


def test_two_at_once_leave_one_whole_entry(tmp_path):
    source = Source(tmp_path)
    inner: list[SentimentStore] = []
    make = source._make

    def slow() -> SentimentStore:  # another process is through while this one still reads
        made = make()
        if not inner:
            inner.append(made)
            source.open()
        return made

    source._make = slow
    found = source.open()
    assert source.reads == 2 and same(inner[0], found)
    source.open()
    assert source.reads == 2 and len(source.entries()) == 1


def test_without_a_cache_nothing_is_written(tmp_path):
    source = Source(tmp_path)
    store = cached_store(SentimentDataConfig(dataset="mosi"), source.root, source._make)
    assert store.folder is None and not source.cache.exists()
    verify_store(store)
