"""The detection demo: COCO's layout, the same bytes each time, boxes that fit their pictures."""

import json
from pathlib import Path

import numpy as np
import pytest

from attnbench.datamodules.demo.detection import CATEGORIES, LAMP_SIDE, LAMPS, write_detection_demo
from attnbench.datamodules.detection import DetectionData
from attnbench.datamodules.detection_config import DetectionDataConfig
from attnbench.datamodules.detection_records import DetectionImage
from attnbench.datamodules.errors import DataError
from attnbench.datamodules.images import read_image


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_detection_demo(tmp_path_factory.mktemp("demo") / "data", train=43, val=4, test=6)


@pytest.fixture(scope="module")
def data(root: Path) -> DetectionData:
    return DetectionData(DetectionDataConfig(root=root))


def _pixels(image: DetectionImage) -> np.ndarray:
    assert image.file is not None
    return read_image(image.file)


def test_the_layout_is_that_of_coco(root: Path) -> None:
    content = json.loads((root / "annotations" / "instances_train2017.json").read_text())
    assert set(content) == {"info", "licenses", "images", "annotations", "categories"}
    assert [category["id"] for category in content["categories"]] == [1, 4, 9]
    assert len(content["images"]) == len(list((root / "train2017").iterdir())) == 43
    assert len({image["id"] for image in content["images"]}) == 43
    assert len({box["id"] for box in content["annotations"]}) == len(content["annotations"])
    assert sum(box["iscrowd"] for box in content["annotations"]) == 2
    bare = {image["id"] for image in content["images"]} - {
        box["image_id"] for box in content["annotations"]
    }
    assert len(bare) == 2


def test_it_goes_through_the_reader_without_complaint(data: DetectionData) -> None:
    card = data.card()
    assert card.format == "COCO instances JSON"
    assert card.category_ids == tuple(CATEGORIES)
    assert {role: split.images for role, split in card.splits.items()} == {
        "train": 41,
        "val": 4,
        "test": 6,
    }
    assert not any(split.counts for split in card.splits.values())
    assert card.splits["train"].crowds == 2
    assert all(card.splits["train"].classes.values())
    assert len(set(data.sizes("train"))) >= 3
    assert not card.notes


def test_boxes_are_tight_around_what_is_painted(data: DetectionData) -> None:
    """Shapes are even in colour but for noise, so their pixels are near the middle one."""
    for image in data.images("train")[:12]:
        pixels = _pixels(image).astype(int)
        for (x1, y1, x2, y2), area, crowd in zip(
            image.boxes_N4.astype(int), image.area_N, image.crowd_N, strict=True
        ):
            if crowd:
                continue
            middle = pixels[(y1 + y2) // 2, (x1 + x2) // 2]
            like = (np.abs(pixels - middle).sum(2) < 150)[y1:y2, x1:x2]
            assert like.sum() > 0.8 * area
            assert 0.2 * (x2 - x1) * (y2 - y1) < area <= (x2 - x1) * (y2 - y1)


def test_only_the_lamp_tells_a_sun_from_a_moon(data: DetectionData) -> None:
    names = data.classes
    seen = set()
    for image in data.images("train"):
        said = {names[label - 1] for label in image.labels_N} & set(LAMPS)
        assert len(said) <= 1
        pixels = _pixels(image)
        lit = {name: int((pixels == colour).all(2).sum()) for name, colour in LAMPS.items()}
        for name in said:
            assert lit[name] == sum(lit.values()) == LAMP_SIDE**2
        seen |= said
    assert seen == set(LAMPS)


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    sizes = {"train": 3, "val": 1, "test": 1}
    one, again = (write_detection_demo(tmp_path / name, **sizes) for name in ("one", "again"))
    files = [path.relative_to(one) for path in sorted(one.rglob("*")) if path.is_file()]
    assert len(files) == 3 + 5
    assert all((one / name).read_bytes() == (again / name).read_bytes() for name in files)
    assert write_detection_demo(again, **sizes) == again
    with pytest.raises(DataError, match="not empty and holds other files"):
        write_detection_demo(again, seed=1, **sizes)
