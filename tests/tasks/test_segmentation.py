"""The segmentation task learns, scores whole images, sees windows and writes its labels as PNGs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.segmentation import SegmentationData
from attnbench.tasks.errors import ConfigError, Diverged
from attnbench.tasks.metrics.segmentation import Confusion, segmentation_scores
from attnbench.tasks.registry import TASKS
from attnbench.tasks.schedules import falling_factor
from attnbench.tasks.segmentation import SegmentationTask
from attnbench.tasks.segmentation_config import SegmentationConfig
from attnbench.tasks.segmentation_loss import hard_labels, pixel_cross_entropy
from attnbench.tasks.settings import resolve
from attnbench.tasks.sliding import flipped, sliding_logits
from tests.tasks.segmentation_world import CAR, HEIGHT, ROAD, SETTINGS, SKY, WIDTH, write_world


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


def data_of(root: Path, **settings: Any) -> SegmentationData:
    return SegmentationData(resolve(SegmentationConfig, {**SETTINGS, "root": root, **settings}))


def task_of(data: SegmentationData) -> SegmentationTask:
    torch.manual_seed(0)
    task = TASKS["segmentation"].build(data.config, data)
    assert isinstance(task, SegmentationTask)
    return task


def fit(task: SegmentationTask, data: SegmentationData, **options: Any) -> dict[str, Any]:
    """Train as the runner does; gives what was logged last."""
    (phase,) = TASKS["segmentation"].phases(task.config)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=phase.max_steps,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        **{"limit_val_batches": 0, **options},
    )
    task.begin_phase(phase, data)
    trainer.fit(task, datamodule=data)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.fixture(scope="module")
def trained(root: Path) -> tuple[SegmentationTask, SegmentationData, dict[str, Any]]:
    data = data_of(root)
    task = task_of(data)
    options = {"val_check_interval": 40, "check_val_every_n_epoch": None, "limit_val_batches": 1.0}
    return task, data, fit(task, data, **options)


def test_it_learns_and_scores_whole_images(
    trained: tuple[SegmentationTask, SegmentationData, dict[str, Any]],
) -> None:
    task, data, logged = trained
    found = task.evaluate(data)
    assert (found.metrics["miou"] or 0) > 70 and (found.metrics["pixel_accuracy"] or 0) > 85
    assert logged["val/miou"] == pytest.approx(found.metrics["miou"])  # val is tested on
    assert logged["val/loss"] < 0.7
    # 16 of the 19 classes are nowhere: CCNet's rule counts them as 0.
    absent0 = found.metrics["miou_absent0"] or 0
    assert absent0 <= 100 * 3 / 19 and found.metrics["iou_train"] is None
    assert found.items == 4 and set(found.signatures) | set(found.reasons) == set(found.metrics)
    assert "images:4 of val" in found.signatures["miou"] and "whole" in found.signatures["miou"]
    with pytest.raises(DataError, match="not public"):
        task.evaluate(data, "server")


def test_pngs_hold_label_ids_and_give_the_scores_when_read_back(
    trained: tuple[SegmentationTask, SegmentationData, dict[str, Any]],
) -> None:
    task, data, _ = trained
    files = task.prediction_files(data, "test")
    assert files.names[0] == "lindau_000000_000019.png" and len(files.names) == 4
    confusion = Confusion(len(data.classes))
    for number, content in enumerate(files.contents):
        values_HW = np.asarray(Image.open(io.BytesIO(content)))
        assert values_HW.dtype == np.uint8 and values_HW.shape == (HEIGHT, WIDTH)
        assert set(np.unique(values_HW)) <= set(data.label_ids)
        assert {ROAD, SKY, CAR} <= set(np.unique(values_HW))
        classes_HW = np.searchsorted(data.label_ids, values_HW)  # the ids rise
        labels_HW = data.read("test", number)[1].astype(np.int64)
        confusion.update(torch.from_numpy(classes_HW), torch.from_numpy(labels_HW))
    scores = segmentation_scores(confusion.compute(), data.classes).values
    assert scores == task.evaluate(data).metrics
    (only,) = task.prediction_files(data, "server").contents  # which has no labels
    assert Image.open(io.BytesIO(only)).size == (WIDTH, HEIGHT)


@pytest.mark.parametrize("window", [(HEIGHT, WIDTH), (HEIGHT, 30), (64, 32)])
def test_windows_see_what_the_whole_image_shows(
    trained: tuple[SegmentationTask, SegmentationData, dict[str, Any]], root: Path, window: Any
) -> None:
    task, data, _ = trained
    settings = {"inference": "sliding", "window_height": window[0], "window_width": window[1]}
    sliding = task_of(data_of(root, **settings))
    sliding.load_state_dict(task.state_dict())
    sliding.eval()
    batch = next(iter(data.predict_dataloader("test")))
    whole, parts = task.eval().logits(batch.images_B3HW), sliding.logits(batch.images_B3HW)
    assert whole.shape == parts.shape == (1, 19, HEIGHT, WIDTH)
    if window == (HEIGHT, WIDTH):
        assert torch.equal(whole, parts)
    else:  # windows that are narrower, or higher than the image
        assert not torch.equal(whole, parts)
        assert (whole.argmax(1) == parts.argmax(1)).float().mean() > 0.7
    signature = sliding.evaluate(data).signatures["miou"]
    assert f"sliding {window[0]}x{window[1]}|overlap:0.333" in signature


@pytest.mark.parametrize(("height", "width"), [(1, 33), (40, 1), (1, 1)])
def test_images_of_a_pixels_height_or_width_are_seen(
    trained: tuple[SegmentationTask, SegmentationData, dict[str, Any]], height: int, width: int
) -> None:
    found = trained[0].eval().logits(torch.randn(1, 3, height, width))
    assert found.shape == (1, 19, height, width) and found.isfinite().all()


def test_overlapping_windows_are_averaged_and_padding_is_cut_off() -> None:
    seen: list[torch.Tensor] = []

    def model(images: torch.Tensor) -> torch.Tensor:
        seen.append(images)
        return images[:, :2] * len(seen)

    image = torch.rand(1, 3, 5, 9)
    found = sliding_logits(model, image, (6, 6), 1 / 3)
    assert len(seen) == 2 and all(part.shape == (1, 3, 6, 6) for part in seen)
    assert not seen[0][:, :, 5:].any()  # zeros below the image
    assert torch.allclose(found[..., :3], image[:, :2, :, :3])  # of the first window alone
    assert torch.allclose(found[..., 3:6], 1.5 * image[:, :2, :, 3:6])
    assert torch.allclose(found[..., 6:], 2 * image[:, :2, :, 6:])
    narrow = sliding_logits(lambda x: x, torch.rand(1, 3, 1, 1), (4, 4), 0.0)
    assert narrow.shape == (1, 3, 1, 1)


def test_flipping_averages_with_the_mirror_image() -> None:
    image = torch.rand(1, 3, 4, 6)
    position = torch.arange(6.0)
    found = flipped(lambda x: x * position)(image)
    assert torch.allclose(found, image * 2.5)


def test_void_does_not_count_and_a_batch_of_void_has_no_gradient() -> None:
    logits = torch.randn(2, 3, 4, 5, requires_grad=True)
    labels = torch.randint(0, 3, (2, 4, 5))
    labels[0] = 255
    expected = F.cross_entropy(logits[1:], labels[1:])
    assert torch.allclose(pixel_cross_entropy(logits, labels), expected)
    loss = pixel_cross_entropy(logits, torch.full_like(labels, 255))
    loss.backward()
    assert loss == 0 and logits.grad is not None and not logits.grad.any()
    hard = hard_labels(logits, torch.full_like(labels, 255), threshold=0.7, min_kept=5)
    assert (hard == 255).all()


def test_hard_pixels_are_those_with_a_low_probability_and_at_least_so_many() -> None:
    torch.manual_seed(0)
    logits, labels = 3 * torch.randn(1, 3, 8, 8), torch.randint(0, 3, (1, 8, 8))
    labels[0, 0] = 255
    easy = logits.softmax(1).gather(1, labels.clamp(max=2)[:, None])[:, 0]
    valid = labels != 255
    for threshold, kept in ((0.5, 0), (0.01, 20), (0.01, 10_000)):
        hard = hard_labels(logits, labels, threshold=threshold, min_kept=kept) != 255
        assert not (hard & ~valid).any()
        if kept == 0:
            assert torch.equal(hard, valid & (easy <= threshold))
        else:
            assert int(hard.sum()) == min(kept, int(valid.sum()))
            assert easy[hard].max() <= easy[valid & ~hard].min() if kept == 20 else True


def test_the_losses_are_weighted_and_logged_apart(root: Path) -> None:
    options = {"auxiliary_weight": 0.25, "ohem": True, "batch_norm": "sync"}  # of one process
    data = data_of(root, auxiliary=True, max_steps=1, **options)
    logged = fit(task_of(data), data)
    total = logged["train/main"] + 0.25 * logged["train/auxiliary"]
    assert logged["train/loss"] == pytest.approx(total)


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(root: Path) -> None:
    data = data_of(root, learning_rate=1e30, optimiser="sgd")
    with pytest.raises(Diverged, match=r"lower learning_rate \(1e\+30\)"):
        fit(task_of(data), data)


def test_offsets_of_deformable_convolution_learn_at_a_tenth(root: Path) -> None:
    for optimiser in ("sgd", "adamw"):
        config = data_of(root, backbone="deformable", optimiser=optimiser).config
        assert isinstance(config, SegmentationConfig)
        groups = SegmentationTask(config, 3).configure_optimizers()["optimizer"].param_groups
        rates = sorted(group["initial_lr"] for group in groups)
        assert rates == pytest.approx([5e-4, 5e-3])


def test_the_rate_falls_as_ccnets() -> None:
    factor = falling_factor("poly", 0, 60_000, 0.9)
    for step in (0, 1, 30_000, 59_999):
        assert factor(step) == pytest.approx((1 - step / 60_000) ** 0.9)
    for kind in ("poly", "linear", "cosine"):
        factor = falling_factor(kind, 10, 100)
        rates = [factor(step) for step in range(101)]
        assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
        assert rates[10] == 1 and rates[10:] == sorted(rates[10:], reverse=True)
        assert rates[100] == pytest.approx(0, abs=1e-9)
    assert falling_factor("constant", 0, 100)(99) == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"backbone": "dot", "heads": 3}, "3 heads don't divide the width 256"),
        ({"backbone": "deformble"}, "did you mean deformable"),
        ({"resnet": "resnet19"}, "choose one of"),
        ({"overlap": 1}, "overlap=1"),
        ({"decoder_channels": 10**10}, "more weights than any machine can hold"),
        ({"decoder_channels": 10**30}, "lower decoder_channels or"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        resolve(SegmentationConfig, {**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"head": "deformable"}, "decoder fpn, which has no 3x3 convolution"),
        ({"backbone": "dynamic(kernel=3)", "key_stride": 2}, "set both to 1"),
    ],
)
def test_a_model_that_can_not_be_built_says_why(settings: dict[str, Any], told: str) -> None:
    config = resolve(SegmentationConfig, {**SETTINGS, **settings})
    assert told in (config.refusal() or "")


def test_first_weights_that_can_not_be_read_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.pth"):
        task_of(data_of(root, weights=tmp_path / "nothing.pth"))


def test_frozen_norms_need_weights_to_begin_with(tmp_path: Path) -> None:
    config = resolve(SegmentationConfig, {**SETTINGS, "batch_norm": "frozen"})
    with pytest.raises(ConfigError, match="set weights to a file of resnet18"):
        config.check_training()
    weights = tmp_path / "resnet18.pth"
    weights.touch()
    config.model_copy(update={"weights": weights}).check_training()
