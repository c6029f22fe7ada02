"""Bad annotations and images are handled and counted, or refused with file, place and advice."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from attnbench.datamodules.detection import DetectionData
from attnbench.datamodules.detection_card import check_detection
from attnbench.datamodules.detection_config import DetectionDataConfig
from attnbench.datamodules.detection_records import NO_SIZE, OUTSIDE, OVER_THE_EDGE, SAME_ID, STRAY
from attnbench.datamodules.errors import DataError
from tests.datamodules.detection_files import (
    coco_content,
    voc_object,
    voc_xml,
    write_coco,
    write_image,
    write_voc,
    write_yolo,
)

Change = Callable[[dict[str, Any]], Any]


def _data(root: Path, **settings: Any) -> DetectionData:
    return DetectionData(DetectionDataConfig(dataset="coco", root=root, **settings))


def _broken(root: Path, change: Change) -> Path:
    content = coco_content()
    change(content)
    return write_coco(root, content, splits=("train", "val"))


def _box(content: dict[str, Any], **values: Any) -> None:
    content["annotations"][1].update(values)


@pytest.mark.parametrize(
    ("box", "reason", "left"),
    [
        ([5, 5, 0, 7], NO_SIZE, 3),
        ([5, 5, 6, -7], NO_SIZE, 3),
        ([5, 5, 0.001, 7], NO_SIZE, 3),
        ([50, 5, 6, 7], OUTSIDE, 3),
        ([-10, 5, 10, 7], OUTSIDE, 3),
        ([39.999999, 5, 10, 7], OUTSIDE, 3),
        ([35, 5, 6, 7], OVER_THE_EDGE, 4),
        ([-1, -1, 900, 900], OVER_THE_EDGE, 4),
    ],
)
def test_boxes_that_do_not_fit_are_counted(
    tmp_path: Path, box: list[float], reason: str, left: int
) -> None:
    data = _data(_broken(tmp_path, lambda content: _box(content, bbox=box)))
    card = data.card()
    assert card.splits["val"].counts == {reason: 1}
    assert card.splits["val"].boxes + card.splits["val"].crowds == left
    assert f"val: 1 {reason}" in card.render(200)
    for batch in data.train_dataloader():
        for image, target in zip(batch.images, batch.targets, strict=True):
            x1, y1, x2, y2 = target.boxes_N4.unbind(1)
            assert (x2 > x1).all() and (y2 > y1).all()
            assert (x1 >= 0).all() and (x2 <= image.shape[2]).all() and (y2 <= image.shape[1]).all()


def test_strays_and_repeated_ids_are_counted(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["annotations"][1]["image_id"] = 999
        content["annotations"][3]["id"] = 100

    card = _data(_broken(tmp_path, change)).card()
    assert card.splits["val"].counts == {STRAY: 1, SAME_ID: 1}
    assert card.splits["val"].boxes == 2


def test_missing_areas_are_those_of_the_boxes(tmp_path: Path) -> None:
    data = _data(_broken(tmp_path, lambda c: c["annotations"][1].pop("area")))
    assert data.targets("val")[0].area_N.tolist() == [50.5, 42, 50.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: _box(c, bbox=[1, 2, float("nan"), 3]), "annotation number 1, has the bbox"),
        (lambda c: _box(c, bbox=[1, 2, float("inf"), 3]), "annotation number 1, has the bbox"),
        (lambda c: _box(c, bbox=[1, 2, 10**400, 3]), "annotation number 1, has the bbox"),
        (lambda c: _box(c, bbox=[1, 2, 1e308, 3]), "annotation number 1, has the bbox"),
        (lambda c: _box(c, bbox=[1, 2, 3]), "expected four numbers"),
        (lambda c: _box(c, bbox=[1, 2, "3", None]), "expected four numbers"),
        (lambda c: _box(c, bbox=None), "expected four numbers"),
        (lambda c: _box(c, category_id=3), r"category_id 3, which is none.*\(2, 7, 90\)"),
        (lambda c: _box(c, category_id=[]), "category_id"),
        (lambda c: _box(c, iscrowd="yes"), "iscrowd 'yes'; expected 0 or 1"),
        (lambda c: _box(c, image_id=None), "annotation number 1, has no image_id"),
        (lambda c: c["images"].append(c["images"][0]), "has image 10 more than once"),
        (lambda c: c["images"][1].update(id=1.5), "image number 1, has no id"),
        (lambda c: c["images"][1].update(width=0), "image 20, has the size 0 x 40"),
        (lambda c: c["images"][1].update(height=10**30), "image 20, has the size"),
        (lambda c: c["images"][1].update(file_name="../../a.png"), "names the file '../../a.png'"),
        (lambda c: c["images"][1].update(file_name="/etc/passwd"), "names the file '/etc/passwd'"),
        (lambda c: c["images"][1].update(file_name="x/../../a"), "expected a name below"),
        (lambda c: c["images"][1].update(file_name="..\\a.png"), "expected a name below"),
        (lambda c: c["images"][1].update(file_name="a\0.png"), "expected a name below"),
        (lambda c: c["images"][1].update(file_name=7), "has no file_name"),
        (lambda c: c["categories"].append({"id": 2, "name": "x"}), "category number 3, has the id"),
        (lambda c: c["categories"].append({"id": 3, "name": "cat"}), "category number 3, has the"),
        (lambda c: c["categories"].append("cat"), "category number 3, has no id"),
        (lambda c: c["categories"][0].update(id=2**31), "category number 0, has the id 2147483648"),
        (lambda c: c["categories"][0].update(name=" "), "number 0, has the class name ' '"),
        (lambda c: c["categories"][0].update(name="\ud800"), "number 0, has the class name"),
        (lambda c: c.pop("categories"), "no proper 'categories'; expected COCO instances JSON"),
        (lambda c: c.update(categories=[]), "has no categories"),
        (lambda c: c.update(images={}), "no proper 'images'"),
        (lambda c: c["annotations"].append(3), "annotation number 4, has no image_id"),
    ],
)
def test_bad_coco_entries_are_refused_with_their_place(
    tmp_path: Path, change: Change, message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        _data(_broken(tmp_path, change)).card()
    assert "instances_train2017.json" in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [', "is not complete JSON at line 1"),
        ("[" * 100_000, "is not complete JSON"),
        ('{"a":' * 100_000, "is not complete JSON"),
        ('{"images": ' + "9" * 10_000 + "}", "is not complete JSON"),
        ("[1, 2, 3]", "no proper 'categories'"),
        ("null", "no proper 'categories'"),
        ("", "is empty"),
        ("<!DOCTYPE html><html>", "is an HTML page"),
        ("\ud800".encode("utf-16", "surrogatepass").decode("latin-1"), "is not complete JSON"),
    ],
)
def test_what_is_no_coco_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=f"instances_train2017.json.*{message}|{message}"):
        _data(write_coco(tmp_path, text)).card()


def test_images_without_a_file_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    (root / "train2017" / "b.png").unlink()
    with pytest.raises(DataError, match=r"1 of 3 images of train2017.*b\.png.*missing=leave_out"):
        _data(root).setup("fit")
    data = _data(root, missing="leave_out")
    assert data.image_ids("train") == [10]
    assert data.card().splits["train"].missing == 1
    for name in "ac":
        (root / "train2017" / f"{name}.png").unlink()
    with pytest.raises(DataError, match="3 of 3 images of train2017") as error:
        _data(root, missing="leave_out").setup("fit")
    assert "leave_out" not in str(error.value)  # it would leave nothing


def test_an_image_of_another_size_than_annotated_is_refused(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    write_image(root / "val2017" / "a.png", (41, 30))
    with pytest.raises(DataError, match=r"a\.png has 41 x 30 pixels.*says 40 x 30.*correct one"):
        list(_data(root).val_dataloader())
    write_image(root / "val2017" / "a.png", (30, 40))
    with pytest.raises(DataError, match="how to turn it"):
        check_detection("coco", root)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_truncated_image_is_named_when_it_is_used(tmp_path: Path, workers: int) -> None:
    content = coco_content()
    for image in content["images"]:
        image["file_name"] = image["file_name"].replace("png", "jpg")
    root = write_coco(tmp_path, content)
    for split in ("train", "val"):
        for name, size in {"a": (40, 30), "b": (30, 40), "c": (50, 20)}.items():
            write_image(root / f"{split}2017" / f"{name}.jpg", size)
    path = root / "val2017" / "b.jpg"
    path.write_bytes(path.read_bytes()[:-400])
    data = _data(root, workers=workers, batch_size=1)
    batches = iter(data.val_dataloader())
    assert next(batches).image_ids == (10,)
    with pytest.raises(DataError, match=r"b\.jpg is no whole image"):
        next(batches)


def test_grey_deep_and_flat_images_make_batches(tmp_path: Path) -> None:
    content = coco_content()
    content["images"][2]["height"] = 1
    root = write_coco(tmp_path, content)
    for split in ("train2017", "val2017"):
        Image.fromarray(np.zeros((30, 40), np.uint8)).save(root / split / "a.png")
        Image.fromarray(np.full((40, 30), 40000, np.uint16)).save(root / split / "b.png")
        Image.fromarray(np.zeros((1, 50, 4), np.uint8)).save(root / split / "c.png")
    (batch,) = _data(root).val_dataloader()
    assert [tuple(i.shape) for i in batch.images] == [(3, 30, 40), (3, 40, 30), (3, 1, 50)]
    assert batch.images[1].unique().tolist() == [40000 >> 8]


def test_files_of_other_categories_do_not_belong_together(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    content = coco_content()
    content["categories"][0]["name"] = "lion"
    (root / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"val2017\.json has other categories than .*train2017"):
        _data(root).card()


def test_a_training_split_without_any_box_is_refused(tmp_path: Path) -> None:
    data = _data(_broken(tmp_path, lambda c: c.update(annotations=[])))
    with pytest.raises(DataError, match="train2017 in .* has no image with a box; .*empty_images"):
        data.setup("fit")
    assert len(data.images("val")) == 3


def test_a_split_whose_boxes_are_all_left_out_says_why(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for entry, box in zip(
            content["annotations"], ([90, 5, 6, 7], [5, 5, 0, 7]) * 2, strict=True
        ):
            entry.update(bbox=box, iscrowd=0)

    with pytest.raises(DataError, match=rf"with a box \(2 {NO_SIZE}; 2 {OUTSIDE}\)"):
        _data(_broken(tmp_path, change)).setup("fit")


def test_a_split_without_any_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train2017 in .* has no image at all; add some"):
        _data(_broken(tmp_path, lambda c: c.update(images=[], annotations=[]))).setup("fit")


def test_a_folder_given_for_annotations_is_the_one_that_is_blamed(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    with pytest.raises(DataError, match="val2017 has no annotations with boxes; expected COCO"):
        _data(root, annotations="val2017").card()


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no split for val.*train2017 is there"):
        _data(write_coco(tmp_path, splits=("train",))).setup("fit")


_BOMB = (
    '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">'
    '<!ENTITY z "&y;&y;&y;&y;&y;&y;&y;&y;">]><annotation><filename>&z;</filename></annotation>'
)
_OUTSIDE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_BOMB, "declares a document type"),
        (_OUTSIDE, "declares a document type"),
        ("<annotation><object>", "no element found"),
        ("", "no element found"),
        ("\0\0", "is no XML that can be read"),
        ("<html></html>", "holds <html>; expected a Pascal VOC annotation"),
        (voc_xml("").replace("<annotation", '<annotation xmlns="x"'), "holds <{x}annotation>"),
        (voc_xml(voc_object("a\nb", (1, 2, 3, 4))), "number 1, has the class name"),
        (voc_xml(voc_object("", (1, 2, 3, 4))), "object number 1, has no name"),
        (voc_xml("<object><name>cat</name></object>"), "object number 1, has xmin None"),
        (voc_xml(voc_object("cat", (1, "nan", 3, 4))), "has ymin 'nan'; expected a number"),
        (voc_xml(voc_object("cat", (1, 1, "1e999", 4))), "has xmax '1e999'"),
    ],
)
def test_bad_voc_files_are_refused_with_their_place(
    tmp_path: Path, text: str, message: str
) -> None:
    root = write_voc(tmp_path, "x")
    (root / "Annotations" / "a.xml").write_text(text)
    with pytest.raises(DataError, match=message) as error:
        _data(root).card()
    assert "a.xml" in str(error.value)


def test_voc_names_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    root = write_voc(tmp_path, voc_xml(voc_object("cat", (1, 1, 2, 2)), filename="../../x.png"))
    (root / "JPEGImages" / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.xml names the file '../../x\.png'"):
        _data(root).card()
    (root / "ImageSets" / "Main" / "val.txt").write_text("../b\n")
    with pytest.raises(DataError, match=r"val\.txt names the file '\.\./b'"):
        _data(root).card()


def test_voc_lists_must_fit_the_annotations(tmp_path: Path) -> None:
    root = write_voc(tmp_path)
    (root / "ImageSets" / "Main" / "val.txt").write_text("b\nd\n")
    with pytest.raises(DataError, match=r"val\.txt lists d, but there is no .*d\.xml"):
        _data(root).card()
    (root / "ImageSets" / "Main" / "val.txt").write_text("b\nb\n")
    with pytest.raises(DataError, match="more than once, such as b"):
        _data(root).card()
    for path in (root / "ImageSets" / "Main").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="no ImageSets/Main/train.txt"):
        _data(root).card()


def test_an_image_in_two_splits_is_noted(tmp_path: Path) -> None:
    root = write_voc(tmp_path)
    (root / "ImageSets" / "Main" / "test.txt").write_text("a\nc\n")
    assert "1 images are in both train and test" in _data(root).card().notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 0.5 0.5 0.1 0.1", "line 1, has class 2, but there are names for 0 to 1 only"),
        ("-1 0.5 0.5 0.1 0.1", "line 1, has class -1"),
        ("0 0.5 0.5 0.1 0.1\n0 0.5 nan 0.1 0.1", "line 2, is '0 0.5 nan 0.1 0.1'; expected lines"),
        ("0 0.5 0.5 0.1", "line 1, is"),
        ("0 0.1 0.1 0.2 0.1 0.2 0.2", "line 1, is"),
        ("cat 0.5 0.5 0.1 0.1", "line 1, is 'cat"),
        ("0 20 15 10 8", "line 1, seems to be in pixels"),
    ],
)
def test_bad_yolo_lines_are_refused_with_their_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=rf"a\.txt, {message}"):
        _data(write_yolo(tmp_path, text)).card()


@pytest.mark.parametrize("kind", ["YOLO", "VOC without a size", "COCO without a size"])
def test_turned_images_whose_boxes_may_be_turned_or_not_are_refused(
    tmp_path: Path, kind: str
) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    if kind == "YOLO":
        root = write_yolo(tmp_path)
    elif kind.startswith("VOC"):
        annotation = voc_xml(voc_object("cat", (1, 1, 9, 9)))
        root = write_voc(tmp_path, re.sub("<size>.*</size>", "", annotation, flags=re.DOTALL))
    else:
        content = coco_content()
        for image in content["images"]:
            del image["width"], image["height"]
        root = write_coco(tmp_path, content)
    files = sorted(root.rglob("*.png"))
    for file in files:
        with Image.open(file) as image:
            image.save(file, exif=exif)
    with pytest.raises(DataError, match=r"stored turned \(EXIF orientation 6\)"):
        _data(root).images("train")


def test_files_that_macos_leaves_beside_images_are_passed_over(tmp_path: Path) -> None:
    root = write_yolo(tmp_path)
    folder = next(root.rglob("*.png")).parent
    (folder / "._a.png").write_bytes(b"no image")
    assert len(_data(root).images("train")) > 0


def test_yolo_labels_without_image_and_boxes_without_size_are_counted(tmp_path: Path) -> None:
    root = write_yolo(tmp_path, "0 0.5 0.5 0 0.1\n0 0.9 0.5 0.4 0.1\n1 1.5 0.5 0.4 0.1\n")
    (root / "labels" / "train" / "z.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    assert _data(root).card().splits["train"].counts == {
        NO_SIZE: 1,
        OUTSIDE: 1,
        OVER_THE_EDGE: 1,
        "label files without an image left out": 1,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: [cat, cat]", "class names more than once, such as cat"),
        ("names: {0: cat, 2: dog}", "the keys of `names` are not 0, 1, 2"),
        ("names: [[1], 2]", "no proper class names"),
        ("names: [cat, '']", "has the class name ''"),
        ("names: !!python/object/apply:os.system ['true']", "is no YAML that can be read"),
        ("names: [a", "is no YAML that can be read"),
        ("train: images", "no class names"),
    ],
)
def test_bad_class_names_of_yolo_are_refused(tmp_path: Path, text: str, message: str) -> None:
    root = write_yolo(tmp_path)
    (root / "data.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        _data(root).card()


_ODD: tuple[Any, ...] = (None, True, [], {}, -1, 1e308, "", "x", 10**400, [[[]]], "../x", 0.5, "\0")


def _changed(value: Any, random: Random) -> Any:
    """Put something odd, or nothing, somewhere into nested values."""
    if isinstance(value, dict | list) and value and random.random() < 0.9:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value, dict) and random.random() < 0.3:
            del value[key]
        else:
            value[key] = _changed(value[key], random)
        return value
    return random.choice(_ODD)


def test_whatever_stands_in_the_json_there_is_no_other_error(tmp_path: Path) -> None:
    random, refused = Random(1), 0
    root = write_coco(tmp_path)
    for _ in range(120):
        content = _changed(_changed(coco_content(), random), random)
        for split in ("train", "val"):
            path = root / "annotations" / f"instances_{split}2017.json"
            path.write_text(json.dumps(content))
        try:
            _data(root).card()
        except DataError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 700
    assert 60 < refused < 120
