import json

import h5py
import numpy as np
import pytest

from attnbench.datamodules.caption_config import CaptionDataConfig
from attnbench.datamodules.caption_open import has_captions, open_captions
from attnbench.datamodules.caption_records import CaptionSet
from tests.datamodules.caption_files import (
    IDS,
    SENTENCES,
    karpathy_entries,
    write_cocotalk,
    write_json,
    write_karpathy,
)
from tests.datamodules.writing import Sentence


def read(root, **settings) -> CaptionSet:
    return open_captions(CaptionDataConfig(dataset="coco-captions", **settings), root)


def test_karpathy_with_restval_as_training(tmp_path):
    write_karpathy(tmp_path)
    found = read(tmp_path)
    assert found.format == "Karpathy JSON"
    assert [image.id for image in found.images] == IDS
    assert [image.split for image in found.images] == ["train", "train", "train", "val", "test"]
    assert [image.raw for image in found.images] == SENTENCES
    assert found.images[0].tokens[0] == ["a", "dog", "runs", "on", "the", "grass"]
    assert found.images[0].file_name == "val2014/COCO_val2014_000000391895.jpg"
    assert "1 images of restval are part of train" in found.notes
    assert "captions an image: 1 to 3" in found.notes


def test_flickr_in_karpathys_form_has_neither_cocoid_nor_filepath(tmp_path):
    entries = karpathy_entries()
    for entry in entries:
        del entry["cocoid"], entry["filepath"]
        entry["filename"] = f"{entry['imgid']}_abc.jpg"
    write_karpathy(tmp_path, entries)
    found = read(tmp_path)
    assert [image.id for image in found.images] == [0, 1, 2, 3, 4]
    assert found.images[1].file_name == "1_abc.jpg"


def test_what_is_left_out_is_counted(tmp_path):
    entries = karpathy_entries()
    entries[0]["sentences"].append({"tokens": [], "raw": " "})
    entries[1]["sentences"] = []
    entries[2]["sentences"] = [{"tokens": [], "raw": "..."}]
    write_karpathy(tmp_path, entries)
    found = read(tmp_path)
    assert [image.id for image in found.images] == [391895, 100, 9]
    assert len(found.images[0].tokens) == len(found.images[0].raw) == 2
    assert "2 captions without a word left out" in found.notes
    assert "2 images without captions left out, such as 42, 7" in found.notes


def test_raw_captions_without_spaces_are_replaced_by_their_tokens(tmp_path):
    entries = karpathy_entries()
    entries[0]["sentences"] = [{"tokens": ["A", "dog"], "raw": "Adog."}]
    write_karpathy(tmp_path, entries)
    found = read(tmp_path)
    assert found.images[0].raw == ["A dog"] and found.images[0].tokens == [["A", "dog"]]
    assert any("1 raw captions lack their spaces" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda e: e.append(e[0]), ("image 391895 more than once",)),
        (lambda e: e[1].update(cocoid=None, imgid=None), ("image number 1", "cocoid")),
        (lambda e: e[1].pop("split"), ("image number 1", "split")),
        (lambda e: e[1].update(sentences=[{"raw": 3}]), ("image number 1", "without tokens")),
        (lambda e: e.clear(), ("no image with a caption",)),
    ],
)
def test_a_damaged_karpathy_file_is_named_with_the_place(tmp_path, change, parts):
    entries = karpathy_entries()
    change(entries)
    path = write_karpathy(tmp_path, entries)
    with Sentence(str(path), *parts):
        read(tmp_path, captions=path.name) if entries else read_karpathy_of(path)


def read_karpathy_of(path):
    from attnbench.datamodules.karpathy import read_karpathy

    return read_karpathy(path)


def test_files_that_are_no_json(tmp_path):
    path = write_karpathy(tmp_path)
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with Sentence(str(path), "not complete JSON", "copy it again"):
        read(tmp_path)
    path.write_text("<!DOCTYPE html><p>404", encoding="utf-8")
    with Sentence(str(path), "no captions file"):
        read(tmp_path, captions=path)
    with Sentence("has no captions"):
        read(tmp_path)
    with Sentence("no folder"):
        read(tmp_path / "nowhere")
    assert not has_captions(tmp_path) and not has_captions(tmp_path / "nowhere")


def coco(ids, texts):
    return {
        "info": {},
        "images": [{"id": i, "file_name": f"{i:012}.jpg", "width": 64, "height": 48} for i in ids],
        "annotations": [
            {"id": 100 * i + n, "image_id": i, "caption": text}
            for i in ids
            for n, text in enumerate(texts)
        ],
    }


def test_coco_captions_of_training_and_validation(tmp_path):
    folder = tmp_path / "annotations"
    write_json(folder / "captions_train2017.json", coco([1, 2], ["A dog.", "A  black-cat\n!"]))
    write_json(folder / "captions_val2017.json", coco([3], ["A bus."]))
    write_json(folder / "instances_val2017.json", {"images": [], "annotations": [{"bbox": []}]})
    found = read(tmp_path)
    assert [(image.id, image.split) for image in found.images] == [
        (1, "train"),
        (2, "train"),
        (3, "val"),
    ]
    assert found.images[0].tokens == [["a", "dog"], ["a", "blackcat"]]
    assert found.images[0].raw == ["A dog.", "A black-cat !"]
    assert found.images[0].size == (64, 48)


def test_coco_without_splits_is_drawn_the_same_way_always(tmp_path):
    write_json(tmp_path / "captions_val2017.json", coco(range(300), ["A dog."]))
    found, again = read(tmp_path), read(tmp_path)
    splits = [image.split for image in found.images]
    assert splits == [image.split for image in again.images]
    assert 200 < splits.count("train") < 280 and splits.count("val") and splits.count("test")
    assert any("no published ones" in note for note in found.notes)


def test_a_list_of_splits_and_images_outside_of_it(tmp_path):
    write_json(tmp_path / "captions_val2017.json", coco([1, 2, 3, 4], ["A dog."]))
    lists = write_json(tmp_path / "lists.json", {"train": [1, 2], "val": [], "test": [3]})
    found = read(tmp_path, split_file="lists.json")
    assert [image.split for image in found.images] == ["train", "train", "test", ""]
    assert "1 images belong to no split and are not used, such as 4" in found.notes
    write_json(lists, {"train": [1], "val": [1]})
    with Sentence("lists.json", "puts 1 into train and val"):
        read(tmp_path, split_file=lists)
    write_json(lists, {"train": [99]})
    with Sentence("lists.json", "none of the images"):
        read(tmp_path, split_file=lists)


def test_of_a_coco_file_and_a_part_of_it_the_one_with_its_images_is_read(tmp_path):
    write_json(tmp_path / "captions_val2017.json", coco([1, 2, 3], ["A dog."]))
    write_json(tmp_path / "captions_val2017_some.json", coco([1, 2], ["A dog."]))
    with Sentence("captions_val2017.json, captions_val2017_some.json", "captions="):
        read(tmp_path)
    (tmp_path / "images").mkdir()
    for name in (1, 2):
        (tmp_path / "images" / f"{name:012}.jpg").touch()
    assert [image.id for image in read(tmp_path).images] == [1, 2]
    whole = read(tmp_path, captions="captions_val2017.json")
    assert [image.id for image in whole.images] == [1, 2, 3]


def test_bad_coco_files(tmp_path):
    path = tmp_path / "captions_val2017.json"
    content = coco([1, 2], ["A dog."])
    content["images"].append(content["images"][0])
    write_json(path, content)
    with Sentence(str(path), "image 1 more than once"):
        read(tmp_path)
    content = coco([1, 2], ["A dog."])
    content["annotations"][1]["caption"] = None
    write_json(path, content)
    with Sentence(str(path), "annotation number 1"):
        read(tmp_path)
    content = coco([1, 2], ["A dog."])
    content["annotations"].append({"image_id": 77, "caption": "A ghost."})
    write_json(path, content)
    assert any("1 captions of images" in note for note in read(tmp_path).notes)


def test_kaggles_captions_with_commas_and_quotes(tmp_path):
    text = 'image,caption\n1_a.jpg,"A dog , running ."\n1_a.jpg,"He says ""hi"" ."\n2_b.jpg,Cat\n'
    (tmp_path / "captions.txt").write_text(text, encoding="utf-8")
    (tmp_path / "split.csv").write_text("image,split\n1_a.jpg,train\n2_b.jpg,dev\n")
    found = read(tmp_path)
    assert [image.id for image in found.images] == ["1_a", "2_b"]
    assert found.images[0].raw == ["A dog , running .", 'He says "hi" .']
    assert found.images[0].tokens == [["a", "dog", "running"], ["he", "says", "hi"]]
    assert [image.split for image in found.images] == ["train", "val"]


def test_the_original_token_file_with_the_official_lists(tmp_path):
    lines = "1_a.jpg#0\tA dog .\n1_a.jpg#1\tDog\n2_b.jpg#0\tCat\n3_c.jpg#0\tBus\n4_d.jpg#0\tX\n"
    (tmp_path / "Flickr8k.token.txt").write_text(lines, encoding="utf-8")
    for name, image in (("train", "1_a"), ("dev", "2_b"), ("test", "3_c")):
        (tmp_path / f"Flickr_8k.{name}Images.txt").write_text(f"{image}.jpg\n", encoding="utf-8")
    found = read(tmp_path)
    assert [image.split for image in found.images] == ["train", "val", "test", ""]
    assert found.images[0].tokens == [["a", "dog"], ["dog"]]


def test_a_line_that_is_no_caption_is_named(tmp_path):
    path = tmp_path / "captions.txt"
    path.write_text("image,caption\na.jpg,A dog\nnonsense\n", encoding="utf-8")
    with Sentence(str(path), "line 3"):
        read(tmp_path)


def test_cocotalk_ranges_are_one_based_and_inclusive(tmp_path):
    write_cocotalk(tmp_path)
    found = read(tmp_path)
    assert found.vocabulary == ("a", "dog", "UNK")
    assert [image.tokens for image in found.images] == [
        [["a", "dog"], ["dog"]],
        [["a", "UNK", "dog", "a"]],
        [["UNK"], ["dog", "dog"]],
    ]
    assert [image.split for image in found.images] == ["train", "val", "test"]
    assert found.images[0].size == (10, 20) and found.images[1].size is None
    assert [path.name for path in found.files] == ["cocotalk.json", "cocotalk_label.h5"]


def test_karpathys_captions_take_the_words_of_a_cocotalk_file_beside_them(tmp_path):
    write_karpathy(tmp_path)
    write_cocotalk(tmp_path)
    found = read(tmp_path)
    assert found.format == "Karpathy JSON" and found.vocabulary == ("a", "dog", "UNK")
    assert any("cocotalk.json" in note for note in found.notes)


def test_bad_label_files(tmp_path):
    path, labels = write_cocotalk(tmp_path)
    whole = labels.read_bytes()
    labels.write_bytes(b"<html><body>Quota exceeded</body></html>")
    with Sentence(str(labels), "HTML page", "download it again"):
        read(tmp_path)
    labels.write_bytes(whole[: len(whole) // 2])
    with Sentence(str(labels), "copy it again"):
        read(tmp_path)
    labels.write_bytes(whole)
    with h5py.File(labels, "a") as file:
        del file["labels"]
        file["labels"] = np.full((5, 4), 44, np.uint32)
    with Sentence(str(labels), "id 44", "only 3 words"):
        read(tmp_path)
    labels.write_bytes(whole)
    with h5py.File(labels, "a") as file:
        del file["label_end_ix"]
        file["label_end_ix"] = np.array([2, 3, 50], np.uint32)
    with Sentence(str(labels), "ranges outside"):
        read(tmp_path)
    labels.unlink()
    with Sentence(str(path), "cocotalk_label.h5", "there is none"):
        read(tmp_path)
    content = json.loads(path.read_text())
    content["ix_to_word"] = {"1": "a", "3": "b"}
    write_json(path, content)
    labels.write_bytes(whole)
    with Sentence(str(path), "no word '2'"):
        read(tmp_path)


def test_several_files_need_a_choice(tmp_path):
    write_karpathy(tmp_path)
    other = write_karpathy(tmp_path).read_text()
    (tmp_path / "dataset_flickr8k.json").write_text(other)
    assert read(tmp_path).files[0].name == "dataset_coco.json"  # has the data set's name
    (tmp_path / "dataset_coco.json").rename(tmp_path / "dataset_other.json")
    with Sentence("dataset_flickr8k.json, dataset_other.json", "captions="):
        read(tmp_path)
