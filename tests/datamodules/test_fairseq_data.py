import json
import struct
from pathlib import Path

import numpy as np
import pytest

from attnbench.datamodules.fairseq_data import FairseqData, read_side
from attnbench.datamodules.vocabulary import Vocabulary
from tests.datamodules.fairseq_files import (
    CODES,
    SENTENCES,
    write_folder,
    write_mmap,
    write_old,
)
from tests.datamodules.writing import Sentence
from tests.shared import golden_dir

VOCABULARY = Vocabulary(["Haus@@", "boot", ",", "madeupword0000"])
WRITERS = {"mmap": write_mmap, "old": write_old}


def as_lists(store) -> list[list[int]]:
    return [store[row].tolist() for row in range(len(store))]


def golden_folders() -> list[Path]:
    return sorted(path for path in (golden_dir() / "fairseq").iterdir() if path.is_dir())


def decoded(folder: Path) -> dict:
    """The reference's own reading; the older format holds the same sentences as the newer."""
    name = folder.name.removesuffix("_tntidx") + "_decoded.json"
    return json.loads((folder.parent / name).read_text(encoding="utf-8"))


def test_reference_folders_are_read_to_the_same_ids_and_dictionaries():
    checked = 0
    for folder in golden_folders():
        expected = decoded(folder)
        data = FairseqData(folder, ("en", "de"))
        for language, vocabulary in (
            ("en", data.source_vocabulary),
            ("de", data.target_vocabulary),
        ):
            assert vocabulary.symbols == expected["dictionary"][language]["symbols"]
        for split in filter(None, (data.training, data.validation, *data.tests)):
            for language, store in zip(("en", "de"), data.stores(split), strict=True):
                assert as_lists(store) == expected["ids"][f"{split}.{language}"]
                checked += 1
    assert checked


@pytest.mark.fairseq
def test_the_package_reads_reference_folders_to_the_same_ids():
    for folder in golden_folders():
        ours, theirs = (FairseqData(folder, ("en", "de"), kind) for kind in ("own", "fairseq"))
        for split in filter(None, (ours.training, ours.validation, *ours.tests)):
            for own, package in zip(ours.stores(split), theirs.stores(split), strict=True):
                assert as_lists(own) == as_lists(package)


@pytest.mark.fairseq
@pytest.mark.parametrize("form", WRITERS)
def test_the_package_reads_what_the_tests_write(tmp_path, form):
    prefix = WRITERS[form](tmp_path / "train.en-de.en", SENTENCES)
    assert as_lists(read_side(prefix, VOCABULARY, "fairseq")) == SENTENCES


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("code", CODES)
def test_every_type_of_id(tmp_path, form, code):
    prefix = WRITERS[form](tmp_path / "train.en-de.en", SENTENCES, code)
    store = read_side(prefix, VOCABULARY)
    assert as_lists(store) == SENTENCES
    padded, valid = store.padded(np.array([2, 0]))
    assert padded.tolist() == [[7, 2, 1, 1], [4, 5, 6, 2]]
    assert valid.tolist() == [[True, True, False, False], [True] * 4]


def test_ids_are_mapped_not_loaded(tmp_path):
    prefix = write_mmap(tmp_path / "train.en-de.en", SENTENCES)
    assert isinstance(read_side(prefix, VOCABULARY).ids, np.memmap)


def test_both_directions_and_missing_pairs(tmp_path):
    root = write_folder(tmp_path, train=SENTENCES, valid=SENTENCES, test=SENTENCES, test1=SENTENCES)
    for languages in (("en", "de"), ("de", "en")):
        data = FairseqData(root, languages)
        assert (data.training, data.validation) == ("train", "valid")
        assert data.tests == ["test", "test1"]
    with Sentence("no fairseq data for en-fr", "pairs found: en-de"):
        FairseqData(root, ("en", "fr"))
    (root / "dict.de.txt").unlink()
    with Sentence("dict.de.txt is missing"):
        FairseqData(root, ("en", "de"))


def test_sides_of_different_length(tmp_path):
    root = write_folder(tmp_path, train=SENTENCES)
    write_mmap(root / "train.en-de.de", SENTENCES[:3])
    with Sentence("split train", "4 en sentences but 3 de"):
        FairseqData(root, ("en", "de")).stores("train")


@pytest.mark.parametrize("form", WRITERS)
def test_ids_outside_the_dictionary(tmp_path, form):
    prefix = WRITERS[form](tmp_path / "train.en-de.en", [[4, 2], [5, 8, 2]])
    with Sentence("train.en-de.en.bin, line 2", "id 8", "8 symbols"):
        read_side(prefix, VOCABULARY)


def test_a_sentence_without_end(tmp_path):
    prefix = write_mmap(tmp_path / "train.en-de.en", [[4, 2], [5, 6]])
    with Sentence("train.en-de.en.bin, line 2", "does not end with </s>"):
        read_side(prefix, VOCABULARY)


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("keep", [0, 4, 12, 30, -1, -9])
def test_truncated_index(tmp_path, form, keep):
    prefix = WRITERS[form](tmp_path / "train.en-de.en", SENTENCES)
    index = tmp_path / "train.en-de.en.idx"
    index.write_bytes(index.read_bytes()[:keep])
    with Sentence("train.en-de.en.idx"):
        read_side(prefix, VOCABULARY)


@pytest.mark.parametrize("form", WRITERS)
def test_truncated_data(tmp_path, form):
    prefix = WRITERS[form](tmp_path / "train.en-de.en", SENTENCES)
    data = tmp_path / "train.en-de.en.bin"
    data.write_bytes(data.read_bytes()[:-1])
    with Sentence("train.en-de.en.bin is cut off", "needs 13 ids", "holds 12"):
        read_side(prefix, VOCABULARY)
    data.write_bytes(b"")
    with Sentence("train.en-de.en.bin is empty"):
        read_side(prefix, VOCABULARY)
    data.unlink()
    with Sentence("train.en-de.en.bin is missing"):
        read_side(prefix, VOCABULARY)


def change(path: Path, offset: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)


def test_wrong_magic_number_version_and_type(tmp_path):
    index = tmp_path / "train.en-de.en.idx"
    prefix = tmp_path / "train.en-de.en"
    for offset, value, parts in (
        (0, b"PK\x03\x04", ("no fairseq index", "PK", "MMIDIDX or TNTIDX")),
        (9, struct.pack("<Q", 2), ("version 2", "expected version 1")),
        (17, b"\x0b", ("type code 11", "1 to 10")),
        (18, struct.pack("<Q", 5), ("cut off",)),
        (18, struct.pack("<Q", 3), ("longer than its header says",)),
        (18, struct.pack("<Q", 2**60), ("cut off",)),
        (26, struct.pack("<i", -4), ("damaged",)),
        (42, struct.pack("<q", 1), ("damaged",)),
        (42, struct.pack("<q", -8), ("damaged",)),
        (50, struct.pack("<q", 2**40), ("cut off",)),
    ):
        write_mmap(prefix, SENTENCES)
        change(index, offset, value)
        with Sentence("train.en-de.en", *parts):
            read_side(prefix, VOCABULARY)


def test_fractions_are_no_ids(tmp_path):
    prefix = write_mmap(tmp_path / "train.en-de.en", SENTENCES, code=7)
    change(tmp_path / "train.en-de.en.bin", 0, struct.pack("<d", 4.5))
    with Sentence("fractions"):
        read_side(prefix, VOCABULARY)


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fairseq.data", None)
    monkeypatch.setitem(sys.modules, "fairseq", None)
    with Sentence("attnbench[fairseq]", "reader=own"):
        read_side(write_mmap(tmp_path / "train.en-de.en", SENTENCES), VOCABULARY, "fairseq")
