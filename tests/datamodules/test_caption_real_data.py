"""Readers against real files in the published layouts."""

import h5py
import numpy as np
import pytest

from attnbench.datamodules.caption_cocotalk import read_cocotalk
from attnbench.datamodules.caption_config import CaptionDataConfig
from attnbench.datamodules.caption_open import open_captions
from attnbench.datamodules.caption_vocabulary import CaptionVocabulary
from tests.shared import data_dir


def folder(name):
    found = data_dir() / "captioning" / name
    if not found.is_dir():
        pytest.skip(f"{found} is not there")
    return found


def test_self_criticals_labels_are_what_its_words_make_of_karpathys_tokens():
    root = folder("karpathy_format_ucm")
    captions = open_captions(CaptionDataConfig(dataset="coco-captions"), root)
    labels = read_cocotalk(root / "cocotalk.json")
    assert len(captions.images) == len(labels.images) == 2100
    words = CaptionVocabulary(captions.vocabulary or ())
    with h5py.File(root / "cocotalk_label.h5") as file:
        stored = np.asarray(file["labels"])
    row = 0
    for image, label in zip(captions.images, labels.images, strict=True):
        assert (image.id, image.split) == (label.id, label.split)
        for tokens, cut in zip(image.tokens, label.tokens, strict=True):
            ids = words.encode(tokens)[:16]
            assert ids == words.encode(cut) == [i for i in stored[row] if i]
            row += 1
    assert row == len(stored)


def test_the_counted_vocabulary_is_self_criticals():
    captions = open_captions(
        CaptionDataConfig(dataset="coco-captions"), folder("karpathy_format_ucm")
    )
    counted = CaptionVocabulary.count((t for i in captions.images for t in i.tokens), 5)
    assert captions.vocabulary is not None
    assert set(counted.words) == set(captions.vocabulary)
    assert counted.words[-1] == captions.vocabulary[-1] == "UNK"


def test_flickr8k_with_its_splits():
    captions = open_captions(CaptionDataConfig(dataset="flickr8k"), folder("flickr8k_1000"))
    splits = [image.split for image in captions.images]
    assert [splits.count(name) for name in ("train", "val", "test", "")] == [753, 113, 125, 9]
    assert all(len(image.raw) == 5 for image in captions.images)


def test_the_coco_images_that_are_there():
    captions = open_captions(CaptionDataConfig(dataset="coco-captions"), folder("coco_val2017"))
    assert len(captions.images) == 386
    assert sum(len(image.raw) for image in captions.images) == 1931
    assert {image.split for image in captions.images} == {"train", "val", "test"}
