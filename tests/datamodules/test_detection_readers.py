"""COCO JSON, Pascal VOC and YOLO text are told by content and give the same kind of records."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.datamodules.coco import read_instances
from attnbench.datamodules.detection_config import DetectionDataConfig
from attnbench.datamodules.detection_open import has_detection, open_detection
from attnbench.datamodules.detection_records import OVER_THE_EDGE, DetectionSet
from attnbench.datamodules.errors import DataError
from tests.datamodules.detection_files import (
    SIZES,
    coco_content,
    voc_object,
    voc_xml,
    write_coco,
    write_image,
    write_voc,
    write_yolo,
)
from tests.shared import data_dir


def _open(root: Path, **settings: Any) -> DetectionSet:
    return open_detection(DetectionDataConfig(dataset="coco", root=root, **settings), root)


def test_coco_keeps_ids_and_counts_labels_in_the_order_of_ids(tmp_path: Path) -> None:
    found = _open(write_coco(tmp_path))
    assert found.format == "COCO instances JSON"
    assert found.classes == ("dog", "bird", "cat")
    assert found.category_ids == (2, 7, 90)
    assert list(found.splits) == ["train2017", "val2017"]
    first, second, bare = found.splits["val2017"].images
    assert (first.id, first.size) == (10, (40, 30))
    assert first.file == tmp_path / "val2017" / "a.png"
    assert first.boxes_N4.tolist() == [[1.5, 2, 11.5, 22.25], [5, 5, 11, 12], [0, 0, 40, 30]]
    assert first.labels_N.tolist() == [3, 1, 2]
    assert first.crowd_N.tolist() == [False, False, True]
    assert first.area_N.tolist() == [50.5] * 3
    assert second.size == (30, 40)
    assert bare.boxes_N4.shape == (0, 4)


def test_coco_images_may_lie_in_a_folder_of_all_or_beside_the_json(tmp_path: Path) -> None:
    content = coco_content()
    root = write_coco(tmp_path / "one", splits=())
    (root / "annotations" / "instances_train2017.json").write_text(json.dumps(content))
    for name, size in SIZES.items():
        write_image(root / "images" / f"{name}.png", size)
    image = _open(root).splits["train2017"].images[0]
    assert image.file == root / "images" / "a.png"

    other = tmp_path / "roboflow"
    for split in ("train", "valid"):
        for name, size in SIZES.items():
            write_image(other / split / f"{name}.png", size)
        (other / split / "_annotations.coco.json").write_text(json.dumps(content))
    found = _open(other)
    assert list(found.splits) == ["train", "valid"]
    assert found.splits["valid"].images[0].file == other / "valid" / "a.png"


def test_a_single_coco_file_is_divided_by_what_its_images_say(tmp_path: Path) -> None:
    content = coco_content()
    for image, split in zip(content["images"], ("train", "valid", "test"), strict=True):
        image["split"] = split
        write_image(tmp_path / image["file_name"], (image["width"], image["height"]))
    (tmp_path / "cells.json").write_text(json.dumps(content))
    found = _open(tmp_path)
    assert {name: [i.id for i in split.images] for name, split in found.splits.items()} == {
        "train": [10],
        "val": [20],
        "test": [30],
    }


def test_a_single_coco_file_is_divided_by_lists_beside_it(tmp_path: Path) -> None:
    content = coco_content()
    content["annotations"][0]["bbox"] = [-5, 0, 10, 10]
    (tmp_path / "cells.json").write_text(json.dumps(content))
    (tmp_path / "train.txt").write_text("a.png\n20\n")
    (tmp_path / "test.txt").write_text("c\n")
    found = _open(tmp_path)
    assert [i.id for i in found.splits["train"].images] == [10, 20]
    assert [i.id for i in found.splits["test"].images] == [30]
    assert f"1 {OVER_THE_EDGE}, in cells.json" in found.notes

    (tmp_path / "test.txt").write_text("c\nd\n")
    with pytest.raises(DataError, match="name 1 images that it doesn't have, such as d"):
        _open(tmp_path)
    (tmp_path / "test.txt").write_text("a\n")
    with pytest.raises(DataError, match="test.txt lists a, which is in train already"):
        _open(tmp_path)


def test_voc_counts_pixels_from_one_and_includes_the_last(tmp_path: Path) -> None:
    found = _open(write_voc(tmp_path))
    assert found.format == "Pascal VOC XML"
    assert found.classes == ("cat", "dog")
    assert found.category_ids == (1, 2)
    (image,) = found.splits["train"].images
    assert image.id == "a"
    # The whole image, and a single pixel.
    assert image.boxes_N4.tolist() == [[0, 0, 40, 30], [4, 5, 5, 6]]
    assert image.area_N.tolist() == [1200, 1]
    assert image.labels_N.tolist() == [1, 2]
    assert found.splits["train"].counts == {"boxes marked as difficult, used like the others": 1}
    assert list(found.splits) == ["train", "val", "test"]


def test_voc_may_lie_in_a_folder_below_and_may_lack_sizes(tmp_path: Path) -> None:
    write_voc(tmp_path / "BCCD", voc_xml(voc_object("cat", (2, 2, 3.5, 4)), (0, 0)))
    (image,) = _open(tmp_path).splits["train"].images
    assert image.size == (40, 30)
    assert image.boxes_N4.tolist() == [[1, 1, 3.5, 4]]


def test_yolo_lines_are_parts_of_the_image(tmp_path: Path) -> None:
    found = _open(write_yolo(tmp_path))
    assert found.format == "YOLO text"
    assert found.classes == ("cat", "dog")
    assert found.category_ids == (0, 1)
    (image,) = found.splits["train"].images
    assert image.id == "a"
    np.testing.assert_allclose(image.boxes_N4, [[10, 12, 30, 18], [0, 0, 20, 30]])
    assert image.labels_N.tolist() == [2, 1]
    assert found.splits["test"].images[0].boxes_N4.shape == (0, 4)
    assert found.splits["test"].counts == {
        "images without a label file, taken as images without boxes": 1
    }


def test_yolo_folders_may_be_the_other_way_round_and_classes_a_text(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        write_image(tmp_path / split / "images" / "a.jpg", (40, 30))
        (tmp_path / split / "labels").mkdir()
        (tmp_path / split / "labels" / "a.txt").write_text("1 0.5 0.5 0.5 0.5")
    (tmp_path / "classes.txt").write_text("x\ny\n")
    found = _open(tmp_path)
    assert list(found.splits) == ["train", "valid"]
    assert found.classes == ("x", "y")
    assert found.splits["valid"].images[0].labels_N.tolist() == [2]


def test_of_several_kinds_one_must_be_named(tmp_path: Path) -> None:
    root = write_yolo(write_coco(tmp_path))
    with pytest.raises(DataError, match=r"several kinds \(COCO JSON, YOLO.*annotations="):
        _open(root)
    assert _open(root, annotations="annotations").format == "COCO instances JSON"
    one = _open(root, annotations="annotations/instances_val2017.json")
    assert list(one.splits) == ["val2017"]


def test_other_json_of_coco_is_not_taken_for_boxes(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    people = coco_content()
    people["annotations"][0]["keypoints"] = [1, 2, 2]
    (root / "annotations" / "person_keypoints_train2017.json").write_text(json.dumps(people))
    captions = {"images": [], "annotations": [{"image_id": 1, "caption": "a cat"}]}
    (root / "annotations" / "captions_train2017.json").write_text(json.dumps(captions))
    assert list(_open(root).splits) == ["train2017", "val2017"]


def test_stuff_beside_instances_is_passed_over(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    other = coco_content(categories=[{"id": 92, "name": "banner"}], annotations=[])
    (root / "annotations" / "stuff_train2017.json").write_text(json.dumps(other))
    assert _open(root).classes == ("dog", "bird", "cat")
    assert _open(root, annotations="annotations").classes == ("dog", "bird", "cat")


def test_a_folder_without_boxes_says_what_was_expected(tmp_path: Path) -> None:
    assert not has_detection(tmp_path / "nothing")
    assert not has_detection(tmp_path)
    (tmp_path / "notes.json").write_text("[1, 2]")
    with pytest.raises(DataError, match=r"no annotations with boxes \(its notes.json holds none"):
        _open(tmp_path)
    with pytest.raises(DataError, match="nothing is no folder"):
        _open(tmp_path / "nothing")


def test_real_coco_files_are_read_whole() -> None:
    folder = data_dir() / "detection"
    found = read_instances(folder / "coco128_cocojson" / "annotations/instances_train2017.json")
    raw = json.loads((folder / "coco128_cocojson/annotations/instances_train2017.json").read_text())
    assert len(found.categories) == 80
    assert max(found.categories) == 90
    assert len(found.images) == 128
    assert sum(len(image.labels_N) for image in found.images) == len(raw["annotations"])
    names = list(found.categories.values())
    first = raw["annotations"][0]
    image = next(image for image in found.images if image.id == first["image_id"])
    wanted = next(c["name"] for c in raw["categories"] if c["id"] == first["category_id"])
    assert names[image.labels_N[0] - 1] == wanted

    evaluation = read_instances(folder / "coco_eval" / "instances_val2014_100.json")
    assert len(evaluation.images) == 100
    assert sum(int(image.crowd_N.sum()) for image in evaluation.images) > 0


def test_real_voc_files_are_read_whole() -> None:
    found = _open(data_dir() / "detection" / "bccd")
    assert found.classes == ("Platelets", "RBC", "WBC")
    numbers = {name: len(split.images) for name, split in found.splits.items()}
    assert numbers == {"train": 205, "val": 87, "test": 72}
    images = [image for split in found.splits.values() for image in split.images]
    assert sum(len(image.labels_N) for image in images) == 4888
    assert all(image.file is not None and image.size == (640, 480) for image in images)
    # labelled from 1 to 640: nothing reaches over the edge where pixels are counted from 1
    assert all(not split.counts for split in found.splits.values())
