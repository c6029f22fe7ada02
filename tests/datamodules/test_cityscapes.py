"""The reader of the layout of Cityscapes: which label files, which values, which splits."""

import shutil

import numpy as np
import pytest

from attnbench.datamodules.cityscapes import open_cityscapes
from attnbench.datamodules.errors import DataError
from attnbench.datamodules.segmentation_card import check_segmentation
from tests.datamodules.segmentation_files import (
    TRAIN_IDS,
    data,
    frame,
    write_cityscapes,
    write_frame,
)


def test_label_ids_become_train_ids_and_the_rest_is_void(tmp_path):
    found = data(write_cityscapes(tmp_path))
    _, labels = found.read("train", 0)
    assert labels.ravel()[:21].tolist() == [*range(19), 255, 255]
    assert found.label_ids == TRAIN_IDS
    assert (found.classes[0], found.classes[18]) == ("road", "bicycle")
    assert sum(found.class_pixels("train")) == 3 * 240 - np.sum(
        [(found.read("train", number)[1] == 255).sum() for number in range(3)]
    )
    assert found.palette.shape == (19, 3)
    assert found.palette[13].tolist() == [0, 0, 142]


def test_train_ids_are_detected_by_name_and_give_the_same_labels(tmp_path):
    ids = data(write_cityscapes(tmp_path / "ids"))
    made = data(write_cityscapes(tmp_path / "made", "labelTrainIds"))
    for number in range(3):
        assert np.array_equal(ids.read("train", number)[1], made.read("train", number)[1])
    assert made.card().format == "Cityscapes folders, labelTrainIds"
    assert made.label_ids == TRAIN_IDS  # predictions are written in labelIds all the same


def test_of_both_kinds_the_original_is_read_and_the_card_says_so(tmp_path):
    write_cityscapes(tmp_path)
    write_cityscapes(tmp_path, "labelTrainIds")
    card = data(tmp_path).card()
    assert card.format == "Cityscapes folders, labelIds"
    assert "5 labelTrainIds files are there too and not read" in card.notes


def test_incomplete_label_ids_give_way_to_complete_train_ids(tmp_path):
    write_cityscapes(tmp_path, "labelTrainIds")
    write_frame(tmp_path, "train", "ulm", 0, [7], "labelIds")
    assert data(tmp_path).card().format == "Cityscapes folders, labelTrainIds"


def test_names_order_and_sizes(tmp_path):
    found = data(write_cityscapes(tmp_path))
    assert found.names("train") == [
        "aachen_000000_000019",
        "aachen_000001_000019",
        "ulm_000000_000019",
    ]
    batches = list(found.predict_dataloader("val"))
    assert [batch.names for batch in batches] == [(name,) for name in found.names("val")]
    assert batches[0].images_B3HW.shape == (1, 3, 12, 20)


def test_tests_run_on_val_and_the_test_images_can_be_predicted_only(tmp_path):
    found = data(write_cityscapes(tmp_path))
    assert found.names("test") == found.names("val")
    assert found.card().tested == "val"
    assert found.has_labels("test") and not found.has_labels("server")
    (batch,) = found.predict_dataloader("server")
    assert batch.names == ("berlin_000000_000019",)
    assert (batch.labels_BHW == 255).all()
    with pytest.raises(DataError, match="not public.*test on val.*server"):
        found.check_labels("server")
    with pytest.raises(DataError, match="not public"):
        data(tmp_path, test_split="server").card()


def test_no_test_images_are_needed(tmp_path):
    shutil.rmtree(write_cityscapes(tmp_path) / "leftImg8bit" / "test")
    assert list(data(tmp_path).card().splits) == ["train", "val"]


def test_the_folders_of_the_archives_may_lie_one_deeper(tmp_path):
    write_cityscapes(tmp_path / "made")
    for name in ("leftImg8bit", "gtFine"):
        place = tmp_path / "root" / f"{name}_trainvaltest"
        place.mkdir(parents=True)
        shutil.move(tmp_path / "made" / name, place)
    assert len(data(tmp_path / "root").names("train")) == 3


def test_equal_frame_names_in_two_cities_stay_apart(tmp_path):
    write_cityscapes(tmp_path)
    for city in ("aachen", "ulm"):
        for place in frame(tmp_path, "train", city, 0):
            shutil.copy(place, place.with_name(place.name.replace(city, "same")))
    names = data(tmp_path).names("train")
    assert len(set(names)) == 5
    assert {"aachen_same_000000_000019", "ulm_same_000000_000019"} <= set(names)


@pytest.mark.parametrize(
    ("kind", "value", "hint"),
    [
        ("labelTrainIds", 33, "if the file holds labelIds, name it"),
        ("labelTrainIds", 19, "make the train ids again"),
        ("labelIds", 255, "if the file holds train ids, name it"),
        ("labelIds", 34, "copy it from the archive again"),
    ],
)
def test_values_of_the_other_kind_are_refused_with_file_value_and_count(
    tmp_path, kind, value, hint
):
    write_cityscapes(tmp_path, kind)
    write_frame(tmp_path, "train", "ulm", 0, [0, 1, 0, value], kind)
    with pytest.raises(DataError) as caught:
        data(tmp_path).card()
    assert f"ulm_000000_000019_gtFine_{kind}.png has label {value} in 60 pixels" in str(
        caught.value
    )
    assert hint in str(caught.value)


def test_labels_that_are_all_void_are_no_labels(tmp_path):
    write_cityscapes(tmp_path)
    for number in range(2):
        write_frame(tmp_path, "val", "lindau", number, [0, 4])
    with pytest.raises(DataError, match="No pixel of split 'val' has a class"):
        data(tmp_path).card()


def test_an_image_without_labels_is_refused_or_left_out_and_counted(tmp_path):
    write_cityscapes(tmp_path)
    frame(tmp_path, "train", "ulm", 0)[1].unlink()
    with pytest.raises(
        DataError, match=r"1 of 3 images of train have no labels, .*gtFine_labelIds"
    ):
        open_cityscapes(tmp_path)
    left = data(tmp_path, missing="leave_out")
    assert len(left.names("train")) == 2
    assert left.card().splits["train"].dropped == {"image without labels": 1}


def test_labels_without_an_image_are_refused_or_left_out(tmp_path):
    write_cityscapes(tmp_path)
    frame(tmp_path, "val", "lindau", 1)[0].unlink()
    with pytest.raises(DataError, match="1 label files of val have no image.*lindau_000001"):
        open_cityscapes(tmp_path)
    assert data(tmp_path, missing="leave_out").names("val") == ["lindau_000000_000019"]


def test_other_files_and_those_of_macos_are_passed_over(tmp_path):
    write_cityscapes(tmp_path)
    image = frame(tmp_path, "train", "ulm", 0)[0]
    (image.parent / f"._{image.name}").write_bytes(b"no image")
    (image.parent / "Thumbs.db").write_bytes(b"no image")
    (image.parents[1] / "readme.txt").write_text("no city")
    assert len(data(tmp_path).names("train")) == 3


def test_folders_that_are_not_the_layout_are_refused_with_what_is_expected(tmp_path):
    with pytest.raises(DataError, match="no folder leftImg8bit.*leftImg8bit_trainvaltest.zip"):
        open_cityscapes(tmp_path)
    write_cityscapes(tmp_path)
    shutil.rmtree(tmp_path / "gtFine")
    with pytest.raises(DataError, match="no folder gtFine"):
        open_cityscapes(tmp_path)
    (tmp_path / "gtFine").mkdir()
    with pytest.raises(DataError, match="have no labels"):
        open_cityscapes(tmp_path)
    shutil.rmtree(tmp_path / "leftImg8bit")
    (tmp_path / "leftImg8bit" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match="no images in train/<city>"):
        open_cityscapes(tmp_path)


@pytest.mark.parametrize("below", ["leftImg8bit", "gtFine"])
def test_a_folder_inside_of_the_layout_is_not_taken_for_another_layout(tmp_path, below):
    with pytest.raises(DataError, match="no folder leftImg8bit"):
        check_segmentation("cityscapes", write_cityscapes(tmp_path) / below)


def test_data_check_reads_every_image(tmp_path):
    card = check_segmentation("cityscapes", write_cityscapes(tmp_path))
    text = card.render()
    assert "20x12 (3)" in text and "no labels" in text and "motorcycle" in text
    assert card.splits["train"].void == pytest.approx(2 / 21, abs=0.01)
    assert sum(card.splits["train"].shares) == pytest.approx(1)
    image = frame(tmp_path, "test", "berlin", 0)[0]
    image.write_bytes(image.read_bytes()[:-40])
    with pytest.raises(DataError, match="berlin_000000_000019_leftImg8bit.png is no whole image"):
        check_segmentation("cityscapes", tmp_path)
