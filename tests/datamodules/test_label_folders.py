"""The reader of plain image and label folders, with CamVid's classes or a list of one's own."""

import numpy as np
import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.label_classes import read_classes
from attnbench.datamodules.segmentation_card import check_segmentation
from tests.datamodules.segmentation_files import data, some_image, write_folders, write_image
from tests.shared import data_dir


def test_camvid_has_eleven_classes_and_void(tmp_path):
    found = data(write_folders(tmp_path), "camvid")
    _, labels = found.read("train", 0)
    assert labels.ravel()[:12].tolist() == [*range(11), 255]
    assert found.label_ids == tuple(range(11))
    assert (found.classes[3], found.classes[10]) == ("road", "bicyclist")
    assert found.names("test") == ["frame 0", "frame 1"]  # a name with a space in it


def test_both_layouts_hold_the_same_data(tmp_path):
    flat = data(write_folders(tmp_path / "flat"), "camvid")
    nested = data(write_folders(tmp_path / "nested", nested=True), "camvid")
    assert flat.fingerprint() == nested.fingerprint()


def test_a_list_of_classes_brings_values_names_and_colours(tmp_path):
    write_folders(tmp_path, [3, 10, 0, 3])
    (tmp_path / "classes.csv").write_text("10,sea,0,0,200\n3,land,0,200,0\n0,nothing,0,0,0\n\n")
    found = data(tmp_path, "labels", classes_file="classes.csv", void_values=(0,))
    assert (found.classes, found.label_ids) == (("sea", "land"), (10, 3))
    assert found.palette.tolist() == [[0, 0, 200], [0, 200, 0]]
    assert found.read("val", 0)[1].ravel()[:4].tolist() == [1, 0, 255, 1]


def test_a_list_of_names_counts_from_zero(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("background\ncat\ndog\n")
    classes = read_classes(path, void=(255,))
    assert classes.values == (0, 1, 2)
    assert classes.names == ("background", "cat", "dog")
    assert len(set(classes.palette)) == 3
    assert read_classes(path, void=(0,)).names == ("cat", "dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,cat\n1,dog\n", "line 2: value 1 is listed twice"),
        ("1,cat\n2,cat\n", "line 2: the name 'cat' is listed twice"),
        ("1,cat\ndog\n", "line 2, has 1 fields; expected value,name"),
        ("one,cat\n", "'one' is no whole number"),
        ("1,cat,0,0,300\n", "'300' is no whole number from 0 to 255"),
        ("1,\n", "line 1, has the class name ''"),
        ("1,cat\n2,do\tg\n", r"line 2, has the class name 'do\\tg'"),
        ("bus stop\nbus_stop\n", "line 2: the name 'bus_stop' .* differs .* in spaces and _"),
        (f"{'9' * 5000},cat\n", "line 1: '9{60}' is no whole number from 0 to 65,535"),
        ("255,void\n", "0 classes that aren't void"),
        ("", "is empty"),
    ],
)
def test_lists_that_can_not_be_read_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_classes(path, void=(255,))


def test_values_outside_the_list_are_refused_with_file_value_and_count(tmp_path):
    write_folders(tmp_path, [0, 12, 1, 200])
    with pytest.raises(
        DataError,
        match=r"frame 0.png has label 12 in 60, 200 in 60 pixels, which is none of .* CamVid",
    ):
        data(tmp_path, "camvid").card()


def test_a_palette_picture_is_read_by_its_indices(tmp_path):
    from PIL import Image

    write_folders(tmp_path)
    path = tmp_path / "trainannot" / "frame 0.png"
    picture = Image.fromarray(np.resize(np.arange(12, dtype=np.uint8), (12, 20))).convert("P")
    picture.putpalette([255 - value for value in range(256) for _ in range(3)])
    picture.save(path)
    assert data(tmp_path, "camvid").read("train", 0)[1].ravel()[:12].tolist() == [*range(11), 255]


def test_a_split_without_label_folder_can_be_predicted_only(tmp_path):
    write_folders(tmp_path)
    for path in (tmp_path / "testannot").iterdir():
        path.unlink()
    (tmp_path / "testannot").rmdir()
    found = data(tmp_path, "camvid")
    assert len(list(found.predict_dataloader("test"))) == 2
    with pytest.raises(DataError, match="there is no folder .*testannot"):
        found.check_labels("test")
    assert data(tmp_path, "camvid", test_split="val").card().tested == "val"


def test_folders_that_do_not_say_what_labels_mean_are_refused(tmp_path):
    with pytest.raises(DataError, match="set classes_file"):
        data(write_folders(tmp_path), "cityscapes").card()


def test_missing_splits_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="does not exist; give the folder of camvid"):
        data(tmp_path / "no", "camvid").card()
    with pytest.raises(DataError, match="neither train and trainannot nor images/train"):
        data(tmp_path, "camvid").card()
    write_image(tmp_path / "train" / "a.png", some_image(0))
    write_image(tmp_path / "trainannot" / "a.png", some_image(0)[..., 0] % 11)
    with pytest.raises(DataError, match="has no split 'val'; found: train"):
        data(tmp_path, "camvid").card()


def test_an_empty_folder_and_two_images_of_one_name_are_refused(tmp_path):
    write_folders(tmp_path)
    write_image(tmp_path / "val" / "frame 0.png", some_image(1))
    with pytest.raises(DataError, match="frame 0.jpg and frame 0.png differ in their endings only"):
        data(tmp_path, "camvid").card()
    for path in (tmp_path / "val").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="val has no image"):
        data(tmp_path, "camvid").card()


def test_real_camvid():
    root = data_dir() / "segmentation" / "camvid_240x180"
    if not root.is_dir():
        pytest.skip(f"{root} is not there")
    found = data(root, "camvid", workers=2)
    card = found.card()
    assert {name: split.images for name, split in card.splits.items()} == {
        "train": 367,
        "val": 101,
        "test": 233,
    }
    assert card.splits["train"].sizes == {"240x180": 367}
    # Road covers most, bicyclists and pedestrians least: the order of the classes is right.
    shares = dict(zip(card.classes, card.splits["train"].shares, strict=True))
    assert max(shares, key=lambda name: shares[name]) == "road"
    assert shares["bicyclist"] < shares["pedestrian"] < 0.01 < shares["pole"]
    batch = next(iter(found.train_dataloader()))
    assert batch.images_B3HW.shape == (2, 3, 8, 10)


def test_data_check_describes_plain_folders(tmp_path):
    text = check_segmentation("camvid", write_folders(tmp_path)).render()
    assert "image and label folders" in text and "bicyclist" in text
