"""The detection data module: what training and evaluation see, in order, resumable and the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnbench.datamodules.detection import DetectionData
from attnbench.datamodules.detection_batch import DetectionBatch
from attnbench.datamodules.detection_card import check_detection
from attnbench.datamodules.detection_config import DetectionDataConfig
from attnbench.datamodules.detection_loader import DetectionLoader, DetectionPlan
from attnbench.datamodules.errors import DataError
from tests.datamodules.detection_files import (
    SIZES,
    coco_content,
    write_coco,
    write_image,
    write_voc,
    write_yolo,
)
from tests.shared import data_dir


def _data(root: Path, **settings: Any) -> DetectionData:
    settings = {"dataset": "coco", "horizontal_flip": 0.0, **settings}
    return DetectionData(DetectionDataConfig(root=root, **settings))


def _many(root: Path, images: int = 22) -> Path:
    """Write images of many sizes, each with one box of 4 x 3 pixels whose pixels are white."""
    entries, boxes = [], []
    for number in range(images):
        width, height = (20, 12) if number % 3 else (12, 20)
        x, y = number % 8, number % 9
        pixels = np.full((height, width, 3), 50, np.uint8)
        pixels[y : y + 3, x : x + 4] = 255
        path = root / "train2017" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        from PIL import Image

        Image.fromarray(pixels).save(path)
        ident = number + 500
        entries.append({"id": ident, "file_name": path.name, "width": width, "height": height})
        boxes.append({"id": number, "image_id": ident, "category_id": 2, "bbox": [x, y, 4, 3]})
    content = coco_content(images=entries, annotations=boxes)
    write_coco(root, content, splits=("train",))
    return root


def _ids(batches: Any) -> list[tuple[int | str, ...]]:
    return [batch.image_ids for batch in batches]


def _same(one: DetectionBatch, other: DetectionBatch) -> bool:
    return (
        one.image_ids == other.image_ids
        and all(torch.equal(a, b) for a, b in zip(one.images, other.images, strict=True))
        and all(
            torch.equal(a.boxes_N4, b.boxes_N4)
            for a, b in zip(one.targets, other.targets, strict=True)
        )
    )


def test_evaluation_sees_all_images_as_annotated_and_training_no_crowds(tmp_path: Path) -> None:
    data = _data(write_coco(tmp_path))
    (batch,) = data.predict_dataloader("val")
    assert batch.image_ids == (10, 20, 30)
    assert [tuple(image.shape) for image in batch.images] == [(3, 30, 40), (3, 40, 30), (3, 20, 50)]
    assert batch.images[0].dtype == torch.uint8
    assert batch.targets[0].crowd_N.tolist() == [False, False, True]
    assert batch.targets[2].boxes_N4.shape == (0, 4)
    assert data.image_ids("val") == [10, 20, 30]
    assert data.sizes("val") == list(SIZES.values())
    assert [len(target.labels_N) for target in data.targets("val")] == [3, 1, 0]

    (batch,) = data.train_dataloader()
    assert sorted(batch.image_ids) == [10, 20]  # the third one has no box
    first = batch.targets[batch.image_ids.index(10)]
    assert first.labels_N.tolist() == [3, 1]
    assert not first.crowd_N.any()
    assert first.boxes_N4.dtype == torch.float32

    (batch,) = _data(tmp_path, empty_images=True).train_dataloader()
    assert sorted(batch.image_ids) == [10, 20, 30]


def test_coco_validates_and_tests_on_the_same_images(tmp_path: Path) -> None:
    data = _data(write_coco(tmp_path))
    assert data.split_name("test") == "val2017"
    assert "validation and test are the same images, val2017" in data.card().notes


def test_splits_are_found_by_what_their_names_mean(tmp_path: Path) -> None:
    write_coco(tmp_path, splits=("train", "val"))
    for old, new in (("train2017", "train2014"), ("val2017", "val2014")):
        (tmp_path / "annotations" / f"instances_{old}.json").rename(
            tmp_path / "annotations" / f"instances_{new}.json"
        )
        (tmp_path / old).rename(tmp_path / new)
    data = _data(tmp_path)
    assert data.split_name("val") == "val2014"
    assert data.split_name("test") == "val2014"
    with pytest.raises(DataError, match="no split 'dev'"):
        data.images("dev")


@pytest.mark.parametrize("val", ["valid", "val"])
def test_a_test_split_that_is_there_is_used(tmp_path: Path, val: str) -> None:
    data = _data(write_coco(tmp_path, splits=("train", "test", val)))
    assert [data.split_name(name) for name in ("val", "test")] == [f"{val}2017", "test2017"]


@pytest.mark.parametrize(
    ("splits", "tested"),
    [(("train", "val"), "val2017"), (("train", "valid", "test"), "test2017")],
)
def test_boxes_of_ones_own_need_no_split_for_tests(
    tmp_path: Path, splits: tuple[str, ...], tested: str
) -> None:
    root = write_coco(tmp_path, splits=splits)
    data = DetectionData(DetectionDataConfig(dataset="boxes", root=root))
    assert data.split_name("test") == tested


def test_boxes_are_clipped_in_training_only(tmp_path: Path) -> None:
    content = coco_content()
    content["annotations"][1]["bbox"] = [30, 20, 20, 20]
    data = _data(write_coco(tmp_path, content))
    (batch,) = data.predict_dataloader("val")
    assert batch.targets[0].boxes_N4[1].tolist() == [30, 20, 50, 40]
    (batch,) = data.train_dataloader()
    assert batch.targets[batch.image_ids.index(10)].boxes_N4[1].tolist() == [30, 20, 40, 30]


@pytest.mark.parametrize("flips", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_boxes_follow_the_flips_of_their_image(tmp_path: Path, flips: tuple[float, float]) -> None:
    data = _data(_many(tmp_path), horizontal_flip=flips[0], vertical_flip=flips[1])
    for batch in data.train_dataloader():
        for image, target in zip(batch.images, batch.targets, strict=True):
            x1, y1, x2, y2 = target.boxes_N4[0].int().tolist()
            white = (image == 255).all(0)
            assert white[y1:y2, x1:x2].all()
            assert int(white.sum()) == (x2 - x1) * (y2 - y1) == 12


def test_jitter_changes_colours_by_chance_of_epoch_and_image(tmp_path: Path) -> None:
    loader = _data(_many(tmp_path), jitter=0.4).train_dataloader()
    images = [loader.item(row, epoch)[0] for row in (1, 2) for epoch in (0, 1)]
    levels = [image[:, -1, -1].tolist() for image in images]
    assert len({tuple(level) for level in levels}) == 4
    assert all(20 <= value <= 90 for level in levels for value in level)
    assert torch.equal(loader.item(1, 1)[0], images[1])
    (batch,) = _data(tmp_path, jitter=0.4, batch_size=30).predict_dataloader("train")
    assert batch.images[0][0, -1, -1] == 50  # never in evaluation


def test_the_order_is_a_new_one_each_epoch_and_the_same_for_equal_seeds(tmp_path: Path) -> None:
    root = _many(tmp_path)
    loader = _data(root, batch_size=4).train_dataloader()
    first, second = _ids(loader), _ids(loader)
    assert first != second
    assert sorted(sum(first, ())) == sorted(sum(second, ())) == list(range(500, 522))
    again = _data(root, batch_size=4).train_dataloader()
    assert [_ids(again), _ids(again)] == [first, second]
    assert _ids(_data(root, batch_size=4, seed=2).train_dataloader()) != first


def test_wide_and_tall_images_are_batched_apart(tmp_path: Path) -> None:
    root = _many(tmp_path)
    batches = list(_data(root, batch_size=4).train_dataloader())
    mixed = [len({image.shape[1:] for image in batch.images}) > 1 for batch in batches]
    assert len(batches) == 6
    assert sum(mixed) <= 2  # what is left over of both kinds
    apart = list(_data(root, batch_size=4, group_by_aspect=False).train_dataloader())
    assert sum(len({i.shape[1:] for i in b.images}) > 1 for b in apart) > 2


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("images", [1, 7, 22])
def test_processes_share_an_epoch(group: bool, images: int) -> None:
    wide_N = np.arange(images) % 3 > 0
    plans = [
        DetectionPlan(3, 0, True, group_by_aspect=group, num_replicas=2, rank=rank)
        for rank in range(2)
    ]
    rows = [plan.rows(wide_N, 0) for plan in plans]
    for plan, own in zip(plans, rows, strict=True):
        assert len(own) == plan.length(images)
    assert [len(batch) for batch in rows[0]] == [len(batch) for batch in rows[1]]
    assert set(np.concatenate([*rows[0], *rows[1]])) == set(range(images))


@pytest.mark.parametrize("workers", [0, 3])
def test_training_goes_on_in_the_middle_of_an_epoch(tmp_path: Path, workers: int) -> None:
    root = _many(tmp_path)
    settings = {"batch_size": 4, "jitter": 0.2, "horizontal_flip": 0.5}
    whole = _data(root, **settings)
    loader = whole.train_dataloader()
    everything = [*loader, *loader]
    stopped = _data(root, workers=workers, **settings)
    for number, _ in enumerate(stopped.train_dataloader()):
        if number == 3:
            break
    resumed = _data(root, workers=workers, **settings)
    resumed.load_state_dict(stopped.state_dict())
    loader = resumed.train_dataloader()
    rest = [*loader, *loader]
    assert len(rest) == len(everything) - 4
    assert all(_same(a, b) for a, b in zip(rest, everything[4:], strict=True))
    with pytest.raises(DataError, match="batch_size was 4 and is 5"):
        other = _data(root, **{**settings, "batch_size": 5})
        other.load_state_dict(stopped.state_dict())
        other.train_dataloader()


def test_threads_change_no_batch(tmp_path: Path) -> None:
    root = _many(tmp_path)
    one, other = (
        list(_data(root, workers=workers, jitter=0.3).train_dataloader()) for workers in (0, 4)
    )
    assert all(_same(a, b) for a, b in zip(one, other, strict=True))


def test_numbers_of_images_can_be_limited(tmp_path: Path) -> None:
    data = _data(write_coco(tmp_path), train_images=1, eval_images=2)
    assert data.image_ids("train") == [10]
    assert data.image_ids("val") == [10, 20]
    assert data.card().splits["train"].images == 1


def test_the_fingerprint_follows_annotations_names_and_sizes(tmp_path: Path) -> None:
    root = write_coco(tmp_path)
    before = _data(root).fingerprint()
    assert "annotations/instances_train2017.json" in before
    assert _data(root).fingerprint() == before
    train = _data(root).training_fingerprint()
    assert train.items() < before.items()
    write_image(root / "val2017" / "a.png", (44, 30))  # another size in bytes
    changed = {name for name, value in _data(root).fingerprint().items() if value != before[name]}
    assert changed == {"images of val2017"}
    assert _data(root).training_fingerprint() == train


def test_annotations_of_one_name_outside_of_the_root_each_count(tmp_path: Path) -> None:
    """As Roboflow exports them: train/_annotations.coco.json, valid/_annotations.coco.json."""
    (tmp_path / "root").mkdir()
    for split in ("train", "valid", "test"):
        for name, size in SIZES.items():
            write_image(tmp_path / "fold" / split / f"{name}.png", size)
        (tmp_path / "fold" / split / "_annotations.coco.json").write_text(
            json.dumps(coco_content())
        )
    found = [_data(tmp_path / "root", annotations=str(tmp_path / "fold")).fingerprint()]
    for split in ("train", "valid", "test"):
        with (tmp_path / "fold" / split / "_annotations.coco.json").open("a") as stream:
            stream.write(" ")
        found.append(_data(tmp_path / "root", annotations=str(tmp_path / "fold")).fingerprint())
        changed = {name for name, digest in found[-1].items() if digest != found[-2][name]}
        assert changed == {f"{split}/_annotations.coco.json"}


@pytest.mark.parametrize("write", [write_voc, write_yolo])
def test_sets_with_an_annotation_file_an_image_have_one_hash_for_many(
    tmp_path: Path, write: Any
) -> None:
    data = _data(write(tmp_path), dataset="bccd", empty_images=True)
    assert [len(data.images(split)) for split in ("train", "val", "test")] == [1, 1, 1]
    assert all(len(value) == 64 for value in data.fingerprint().values())
    card = check_detection("bccd", tmp_path)
    assert card.splits["train"].boxes == 2
    assert sum(card.splits["train"].classes.values()) == 2
    assert card.format in card.render()


def test_a_batch_moves_to_a_device(tmp_path: Path) -> None:
    (batch,) = _data(write_coco(tmp_path)).val_dataloader()
    moved = batch.to("meta")
    assert len(moved) == 3
    assert moved.images[0].device.type == "meta"
    assert moved.targets[0].boxes_N4.device.type == "meta"
    assert batch.images[0].device.type == "cpu"


def test_evaluation_can_be_shared_by_processes(tmp_path: Path) -> None:
    images = _data(write_coco(tmp_path)).images("val")
    plans = [DetectionPlan(2, 0, False, num_replicas=2, rank=rank) for rank in range(2)]
    assert [_ids(DetectionLoader(images, plan)) for plan in plans] == [[(10, 30)], [(20, 10)]]


def test_real_cells_are_batched() -> None:
    root = data_dir() / "detection" / "bccd"
    data = _data(root, dataset="bccd", batch_size=2, eval_images=4, train_images=4, workers=2)
    (first, _) = data.train_dataloader()
    assert all(image.shape == (3, 480, 640) for image in first.images)
    card = data.card()
    assert card.splits["test"].images == 4
    assert card.classes == ("Platelets", "RBC", "WBC")
    assert not any("are in both" in note for note in card.notes)
