"""Training crops and evaluation batches of segmentation data, and that they repeat."""

from itertools import islice

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.segmentation_config import SegmentationDataConfig
from attnbench.datamodules.segmentation_crops import Crops, normalise
from tests.datamodules.segmentation_files import (
    data,
    some_image,
    write_cityscapes,
    write_folders,
    write_image,
)


def crops(**settings):
    """Make crops of 8x10 pixels, by default of unscaled images that are not mirrored."""
    settings = {"scale_min": 1, "scale_max": 1, "mirror": 0, **settings}
    return Crops.of(SegmentationDataConfig(crop_height=8, crop_width=10, **settings))


def equal(first, second):
    """Whether two batches are the same."""
    return (
        torch.equal(first.images_B3HW, second.images_B3HW)
        and torch.equal(first.labels_BHW, second.labels_BHW)
        and first.names == second.names
    )


def test_normalisation_is_that_of_the_weights():
    image = some_image(0)
    pixel = image[3, 4].astype(float)
    imagenet = (pixel / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert normalise(image, "imagenet")[:, 3, 4] == pytest.approx(imagenet, abs=1e-5)
    caffe = pixel[::-1] - [104.00698793, 116.66876762, 122.67891434]
    assert normalise(image, "caffe")[:, 3, 4] == pytest.approx(caffe, abs=1e-4)


def test_a_crop_is_a_part_of_the_image_with_its_own_labels():
    image, labels = some_image(1, 30, 40), np.arange(30 * 40).reshape(30, 40) % 251
    whole = normalise(image, "imagenet")
    places = set()
    for seed in range(20):
        part, part_labels = crops().cut(image, labels.astype(np.uint8), np.random.default_rng(seed))
        (row,), (column,) = np.where((whole[:, :23, :31] == part[:, :1, :1]).all(0))
        places.add((int(row), int(column)))
        assert np.array_equal(part, whole[:, row : row + 8, column : column + 10])
        assert np.array_equal(part_labels, labels[row : row + 8, column : column + 10])
    assert len(places) > 15


def test_a_small_image_is_padded_with_the_mean_and_void():
    image, labels = some_image(2, 5, 7), np.full((5, 7), 3, np.uint8)
    part, part_labels = crops(normalisation="caffe").cut(image, labels, np.random.default_rng(0))
    assert np.array_equal(part[:, :5, :7], normalise(image, "caffe"))
    assert (part[:, 5:] == 0).all() and (part[:, :, 7:] == 0).all()
    assert (part_labels[:5, :7] == 3).all() and (part_labels == 3).sum() == 35
    assert (part_labels[5:] == 255).all()


@pytest.mark.parametrize("scale", [0.5, 1.3, 2.0])
def test_a_scaled_crop_is_a_part_of_the_scaled_image(scale):
    labels = np.random.default_rng(0).integers(0, 19, (31, 43), dtype=np.uint8)
    image = some_image(3, 31, 43)
    size = (round(31 * scale), round(43 * scale))
    # The whole scaled image is the crop that shows all of it.
    everything = Crops.of(
        SegmentationDataConfig(
            crop_height=size[0], crop_width=size[1], scale_min=scale, scale_max=scale, mirror=0
        )
    )
    whole, whole_labels = everything.cut(image, labels, np.random.default_rng(0))
    wanted = F.interpolate(
        torch.from_numpy(normalise(image, "imagenet"))[None],
        size,
        mode="bilinear",
        align_corners=False,
        antialias=True,
    )[0].numpy()
    assert np.abs(whole - wanted).max() < 0.03  # a step of 8 bits is 0.017
    rows = np.floor((np.arange(size[0]) + 0.5) * 31 / size[0]).astype(int)
    columns = np.floor((np.arange(size[1]) + 0.5) * 43 / size[1]).astype(int)
    assert np.array_equal(whole_labels, labels[np.ix_(rows, columns)])
    part, part_labels = crops(scale_min=scale, scale_max=scale).cut(
        image, labels, np.random.default_rng(5)
    )
    found = [
        (row, column)
        for row in range(size[0] - 7)
        for column in range(size[1] - 9)
        if np.array_equal(part_labels, whole_labels[row : row + 8, column : column + 10])
    ]
    ((row, column),) = found
    assert np.abs(part - whole[:, row : row + 8, column : column + 10]).max() < 0.04


def test_mirroring_turns_image_and_labels():
    image, labels = some_image(4, 8, 10), np.arange(80, dtype=np.uint8).reshape(8, 10)
    part, part_labels = crops(mirror=1).cut(image, labels, np.random.default_rng(0))
    assert np.array_equal(part, normalise(image, "imagenet")[:, :, ::-1])
    assert np.array_equal(part_labels, labels[:, ::-1])


def test_jitter_changes_colours_and_nothing_else():
    image, labels = some_image(5, 8, 10), np.arange(80, dtype=np.uint8).reshape(8, 10)
    plain, _ = crops().cut(image, labels, np.random.default_rng(0))
    part, part_labels = crops(jitter=0.4).cut(image, labels, np.random.default_rng(0))
    assert np.array_equal(part_labels, labels)
    assert 0.02 < np.abs(part - plain).mean() < 1.5
    white = np.full((8, 10, 3), 255, np.uint8)
    low, high = normalise(np.array([[[0] * 3, [255] * 3]], np.uint8), "imagenet").min(), 2.64
    for seed in range(10):
        values, _ = crops(jitter=0.4).cut(white, labels, np.random.default_rng(seed))
        assert low <= values.min() and values.max() <= high + 0.01


def test_scales_are_those_of_the_recipe():
    scales = Crops.of(SegmentationDataConfig()).scales
    assert scales == pytest.approx([0.7 + 0.1 * step for step in range(15)])
    assert crops(scale_min=0.5, scale_max=2, scale_step=0.25).scales == pytest.approx(
        [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2]
    )
    anything = crops(scale_min=0.5, scale_max=2, scale_step=0)
    assert anything.continuous and anything.scales == (0.5, 2)
    with pytest.raises(ValidationError, match="scale_max=0.5 is below scale_min=0.7"):
        SegmentationDataConfig(scale_max=0.5)


def test_batches_depend_on_seed_and_epoch_alone(tmp_path):
    write_cityscapes(tmp_path)
    one, two = data(tmp_path).train_dataloader(), data(tmp_path, workers=3).train_dataloader()
    epochs = [[list(loader) for _ in range(2)] for loader in (one, two)]
    assert all(map(equal, epochs[0][0] + epochs[0][1], epochs[1][0] + epochs[1][1]))
    assert not all(map(equal, epochs[0][0], epochs[0][1]))
    other = list(data(tmp_path, seed=2).train_dataloader())
    assert not all(map(equal, epochs[0][0], other))


def test_every_training_batch_is_full_and_every_image_is_in_the_epoch(tmp_path):
    loader = data(write_cityscapes(tmp_path)).train_dataloader()
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert [len(batch) for batch in batches] == [2, 2]
    assert {int(row) for batch in batches for row in batch.index_B} == {0, 1, 2}
    assert batches[0].labels_BHW.dtype == torch.int64
    many = data(tmp_path, batch_size=8).train_dataloader()
    assert [len(batch) for batch in many] == [8]  # more than there are images


@pytest.mark.parametrize("workers", [0, 2])
def test_training_goes_on_where_a_checkpoint_stopped(tmp_path, workers):
    write_cityscapes(tmp_path)
    settings = {"batch_size": 1, "workers": workers}
    whole = data(tmp_path, **settings)
    loader = whole.train_dataloader()
    everything = [batch for _ in range(2) for batch in loader]
    stopped = data(tmp_path, **settings)
    list(islice(iter(stopped.train_dataloader()), 2))
    torch.save(stopped.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    again = data(tmp_path, **settings)
    again.load_state_dict(state)
    continued = again.train_dataloader()
    rest = [batch for _ in range(2) for batch in continued]
    assert all(map(equal, rest, everything[2:]))
    assert len(rest) == 4
    changed = data(tmp_path, **settings, crop_height=9)
    changed.load_state_dict(state)
    with pytest.raises(DataError, match="crop height was 8 and is 9"):
        changed.train_dataloader()


def test_ranks_share_the_images_equally(tmp_path):
    found = data(write_cityscapes(tmp_path), batch_size=1)
    plan = found.train_dataloader().plan
    rows = [
        [int(row) for batch in vars_of(plan, rank).rows(3, 0) for row in batch] for rank in (0, 1)
    ]
    assert [len(each) for each in rows] == [2, 2]
    assert set(rows[0]) | set(rows[1]) == {0, 1, 2}


def vars_of(plan, rank):
    """Give the plan of one of two processes."""
    return type(plan)(**{**vars(plan), "num_replicas": 2, "rank": rank})


def test_evaluation_gives_whole_images_in_order_whatever_their_size(tmp_path):
    write_folders(tmp_path)
    for number, size in enumerate([(1, 30), (25, 9)]):
        write_image(tmp_path / "test" / f"odd {number}.png", some_image(number, *size))
        write_image(tmp_path / "testannot" / f"odd {number}.png", np.full(size, 4, np.uint8))
    found = data(tmp_path, "camvid", workers=2)
    batches = list(found.predict_dataloader("test"))
    assert [batch.names[0] for batch in batches] == ["frame 0", "frame 1", "odd 0", "odd 1"]
    assert [tuple(batch.images_B3HW.shape[2:]) for batch in batches[2:]] == [(1, 30), (25, 9)]
    image, labels = found.read("test", 3)
    assert np.array_equal(batches[3].images_B3HW[0].numpy(), normalise(image, "imagenet"))
    assert np.array_equal(batches[3].labels_BHW[0].numpy(), labels)
    assert [int(batch.index_B[0]) for batch in batches] == [0, 1, 2, 3]


def test_small_sets_stay_in_memory_and_large_ones_do_not(tmp_path):
    write_folders(tmp_path)
    small, large = data(tmp_path, "camvid"), data(tmp_path, "camvid", memory_mib=0)
    first = [list(found.train_dataloader()) for found in (small, large)]
    assert all(map(equal, *first))
    for path in (tmp_path / "train").iterdir():
        path.unlink()
    assert len(list(small.train_dataloader())) == 1
    with pytest.raises(DataError, match="frame .*jpg can't be read"):
        list(large.train_dataloader())


def test_fingerprints_change_with_what_a_result_depends_on(tmp_path):
    write_cityscapes(tmp_path)
    before, trained = data(tmp_path).fingerprint(), data(tmp_path).training_fingerprint()
    assert set(before) == {"classes", "train images", "train labels", "val images", "val labels"}
    assert set(trained) == {"classes", "train images", "train labels"}
    path = next((tmp_path / "leftImg8bit" / "val").rglob("*.png"))
    write_image(path, some_image(99))
    after = data(tmp_path).fingerprint()
    assert {name for name in before if before[name] != after[name]} == {"val images"}
    assert data(tmp_path).training_fingerprint() == trained
    assert data(tmp_path, train_images=1).training_fingerprint() != trained


def test_limits_on_images(tmp_path):
    found = data(write_cityscapes(tmp_path), train_images=2, eval_images=1)
    assert len(found.names("train")) == 2
    assert len(list(found.val_dataloader())) == 1
    assert found.card().splits["train"].images == 2


def test_a_batch_moves_between_devices(tmp_path):
    batch = next(iter(data(write_cityscapes(tmp_path)).train_dataloader()))
    moved = batch.to("meta")
    assert moved.images_B3HW.device.type == moved.labels_BHW.device.type == "meta"
    assert moved.names == batch.names and len(moved) == 2
    assert batch.images_B3HW.device.type == "cpu"


def test_lightning_trains_on_it(tmp_path):
    from lightning import LightningModule, Trainer

    class Tiny(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Conv2d(3, 19, 1)
            self.seen = []

        def training_step(self, batch, _):
            self.seen += batch.index_B.tolist()
            return F.cross_entropy(self.net(batch.images_B3HW), batch.labels_BHW, ignore_index=255)

        def validation_step(self, batch, _):
            return None

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Tiny()
    trainer = Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, datamodule=data(write_cityscapes(tmp_path)))
    assert len(module.seen) == 8 and set(module.seen) == {0, 1, 2}
