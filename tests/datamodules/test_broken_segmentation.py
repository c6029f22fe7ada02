"""Segmentation data that can't be used, and odd data that can."""

import os

import numpy as np
import pytest
from PIL import Image

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.segmentation_card import check_segmentation
from tests.datamodules.segmentation_files import (
    data,
    frame,
    some_image,
    write_cityscapes,
    write_folders,
    write_image,
)


@pytest.fixture
def root(tmp_path):
    """Give plain folders with PNG images."""
    write_folders(tmp_path)
    for path in list(tmp_path.glob("*/*.jpg")):
        write_image(path.with_suffix(".png"), np.array(Image.open(path)))
        path.unlink()
    return tmp_path


def replaced(root, pixels, mode=None):
    """Write other pixels into the first training image, and labels of its size."""
    write_image(root / "train" / "frame 0.png", pixels, mode)
    write_image(root / "trainannot" / "frame 0.png", np.full(pixels.shape[:2], 2, np.uint8))
    return data(root, "camvid")


@pytest.mark.parametrize(
    "pixels",
    [
        np.full((12, 20), 77, np.uint8),
        np.full((12, 20, 4), 77, np.uint8),
        np.full((12, 20), 77 << 8, np.uint16),
        np.full((1, 20, 3), 77, np.uint8),
        np.full((12, 1, 3), 77, np.uint8),
    ],
    ids=["grey", "RGBA", "16 bits", "one row", "one column"],
)
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_images_of_any_kind_train_and_evaluate_alike(root, pixels, scale):
    found = replaced(root, pixels)
    image, labels = found.read("train", 0)
    assert image.shape == (*pixels.shape[:2], 3) and (image == 77).all()
    assert (labels == 2).all()
    scaled = data(root, "camvid", scale_min=scale, scale_max=scale)
    (batch,) = scaled.train_dataloader()
    assert batch.images_B3HW.shape == (2, 3, 8, 10) and batch.images_B3HW.isfinite().all()
    assert (batch.labels_BHW == 2).any()


def test_truncated_and_empty_images_are_named(root):
    path = root / "train" / "frame 1.png"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train/frame 1.png is no whole image"):
        list(data(root, "camvid").train_dataloader())
    with pytest.raises(DataError, match=r"train/frame 1.png is no whole image"):
        list(data(root, "camvid", workers=2).train_dataloader())
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"train/frame 1.png is no whole image"):
        data(root, "camvid").card()


def test_truncated_labels_are_found_before_training(root):
    path = root / "trainannot" / "frame 1.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"trainannot/frame 1.png is no whole image"):
        data(root, "camvid").train_dataloader()


def test_labels_of_another_size_are_refused_with_both(root):
    write_image(root / "valannot" / "frame 0.png", np.zeros((20, 12), np.uint8))
    with pytest.raises(DataError, match="valannot/frame 0.png has 12x20 pixels, but its image .*"):
        data(root, "camvid").val_dataloader()


def test_coloured_label_pictures_are_refused_with_what_to_give(root):
    write_image(root / "trainannot" / "frame 0.png", some_image(0))
    with pytest.raises(DataError, match="is a colour picture .*files with one value a pixel"):
        data(root, "camvid").card()


def test_jpeg_labels_are_refused(root):
    path = root / "trainannot" / "frame 0.png"
    write_image(path.with_suffix(".jpg"), np.zeros((12, 20), np.uint8))
    path.unlink()
    with pytest.raises(DataError, match="is a JPEG, which changes label values"):
        data(root, "camvid").card()


def test_sixteen_bit_labels_are_read_by_their_values(root):
    write_image(root / "trainannot" / "frame 0.png", np.full((12, 20), 11, np.uint16))
    assert (data(root, "camvid").read("train", 0)[1] == 255).all()
    write_image(root / "trainannot" / "frame 0.png", np.full((12, 20), 60_000, np.uint16))
    with pytest.raises(DataError, match="has label 60000 in 240 pixels"):
        data(root, "camvid").card()


def test_one_wrong_pixel_is_found(tmp_path):
    write_cityscapes(tmp_path)
    path = frame(tmp_path, "val", "lindau", 1)[1]
    labels = np.array(Image.open(path))
    labels[5, 5] = 200
    write_image(path, labels)
    with pytest.raises(
        DataError, match="lindau_000001_000019_gtFine_labelIds.png has label 200 in 1"
    ):
        check_segmentation("cityscapes", tmp_path)


def test_links_and_odd_names_are_followed(tmp_path):
    write_cityscapes(tmp_path / "real")
    (tmp_path / "linked äöü {name}").mkdir()
    root = tmp_path / "linked äöü {name}"
    for name in ("leftImg8bit", "gtFine"):
        (root / name).symlink_to(tmp_path / "real" / name)
    assert check_segmentation("cityscapes", root).splits["train"].images == 3
    frame(tmp_path / "real", "train", "ulm", 0)[1].unlink()
    with pytest.raises(DataError, match=r"\{name\}/gtFine/train/ulm/ulm_000000_000019_gtFine"):
        check_segmentation("cityscapes", root)


def test_a_link_that_leads_nowhere_is_named(tmp_path):
    write_cityscapes(tmp_path)
    image = frame(tmp_path, "train", "ulm", 0)[0]
    image.unlink()
    image.symlink_to(tmp_path / "gone.png")
    with pytest.raises(DataError, match="ulm_000000_000019_leftImg8bit.png can't be read"):
        data(tmp_path).card()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_folder_that_may_not_be_read_is_named(tmp_path):
    write_cityscapes(tmp_path)
    (tmp_path / "gtFine" / "train").chmod(0)
    with pytest.raises(DataError, match="gtFine/train can't be read"):
        data(tmp_path).card()
    (tmp_path / "gtFine" / "train").chmod(0o755)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    path = tmp_path / "archive.zip"
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match="archive.zip is a file; give the folder of cityscapes"):
        data(path).card()
    with pytest.raises(DataError, match="cityscapes needs root"):
        data(None).card()
