"""The segmentation demo: Cityscapes' layout, and what its truth depends on."""

from random import Random

import numpy as np
import pytest

from attnbench.datamodules.cityscapes import CLASSES, open_cityscapes
from attnbench.datamodules.demo.segmentation import SIZE, draw_street, write_segmentation_demo
from attnbench.datamodules.errors import DataError
from attnbench.datamodules.segmentation import SegmentationData
from attnbench.datamodules.segmentation_config import SegmentationDataConfig
from attnbench.datamodules.segmentation_open import has_segmentation

CAR, TRUCK, ROAD = (13, 14, 0)
FEW = {"train": 6, "val": 2, "test": 3}


def test_it_is_read_as_cityscapes_but_its_test_labels_are_real(tmp_path):
    root = write_segmentation_demo(tmp_path / "demo", **FEW)
    assert has_segmentation(root) and not has_segmentation(tmp_path)
    found = SegmentationData(SegmentationDataConfig(root=root))
    card = found.card()
    assert {name: split.images for name, split in card.splits.items()} == FEW
    assert card.tested == "test" and found.has_labels("test")
    assert card.format == "Cityscapes folders, labelIds"
    assert set(open_cityscapes(root).unlabelled) == {"server"}  # as any other set of that layout
    seen = {
        name for name, share in zip(card.classes, card.splits["train"].shares, strict=True) if share
    }
    assert {"road", "sidewalk", "wall", "sky", "terrain", "person"} <= seen
    assert card.splits["val"].void > 0


def test_writing_again_changes_nothing_and_another_seed_is_another_set(tmp_path):
    one = write_segmentation_demo(tmp_path / "one", **FEW)
    before = {path: path.stat().st_mtime_ns for path in one.rglob("*.png")}
    write_segmentation_demo(one, **FEW)
    assert {path: path.stat().st_mtime_ns for path in one.rglob("*.png")} == before
    assert len(before) == 2 * sum(FEW.values())
    with pytest.raises(DataError, match="holds other files than this demo"):
        write_segmentation_demo(one, **FEW, seed=1)


def test_cars_and_trucks_look_alike_and_the_road_far_away_tells_them_apart():
    ids = np.array([known.label_id for known in CLASSES])
    random = Random(0)
    colours = {CAR: [], TRUCK: []}
    roads = {CAR: [], TRUCK: []}
    for _ in range(120):
        image, label_ids = draw_street(random)
        assert image.shape == (SIZE[1], SIZE[0], 3)
        kinds = [kind for kind in (CAR, TRUCK) if (label_ids == ids[kind]).any()]
        assert len(kinds) <= 1  # all squares of an image are one or the other
        road = label_ids == ids[ROAD]
        assert road.any()
        for kind in kinds:
            mask = label_ids == ids[kind]
            assert np.flatnonzero(road.any(0)).min() - np.flatnonzero(mask.any(0)).max() > 50
            colours[kind].append(image[mask].mean(0))
            # Relative to the wall: the light differs from image to image.
            roads[kind].append(image[road].mean() / image[label_ids == ids[3]].mean())
    assert min(map(len, colours.values())) > 30
    car, truck = (np.array(colours[kind]) for kind in (CAR, TRUCK))
    apart = np.abs(car.mean(0) - truck.mean(0))
    assert (apart < 3 * (car.std(0) ** 2 / len(car) + truck.std(0) ** 2 / len(truck)) ** 0.5).all()
    assert max(roads[CAR]) < min(roads[TRUCK])


def test_without_a_folder_the_demo_is_written_to_a_temporary_one():
    config = SegmentationDataConfig(
        crop_height=96, crop_width=128, scale_min=1, scale_max=1, train_images=8, eval_images=1
    )
    found = SegmentationData(config)
    (batch,) = found.train_dataloader()
    assert batch.images_B3HW.shape == (8, 3, 96, 128)
    assert (batch.labels_BHW[:, 40, 60] != 255).all()
    root = found.root
    del found
    assert not root.exists()
