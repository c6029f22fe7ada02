"""The detection task learns, writes COCO's result file, repeats its validation and refuses well."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.benchmarks.training import make_trainer
from attnbench.datamodules.demo.detection import CATEGORIES, write_detection_demo
from attnbench.datamodules.detection import DetectionData
from attnbench.tasks.detection import DetectionTask, giving_losses, mean_offset, rate_factor
from attnbench.tasks.detection_config import DetectionConfig
from attnbench.tasks.errors import ConfigError, Diverged
from attnbench.tasks.metrics.detection import coco_box_scores
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve
from tests.shared import data_dir

TINY: dict[str, Any] = {
    "dataset": "demo",
    "resnet": "resnet18",
    "heads": 2,
    "batch_norm": "batch",
    "fpn_channels": 16,
    "box_head_dim": 32,
    "min_size": 64,
    "max_size": 96,
    "anchor_sizes": (8, 16, 32, 64, 128),
    "rpn_train_proposals": 50,
    "rpn_test_proposals": 30,
    "rpn_samples": 32,
    "box_samples": 32,
    "batch_size": 4,
    "horizontal_flip": 0.0,
    "optimiser": "adamw",
    "learning_rate": 2e-3,
    "clip_norm": 10.0,
    "max_steps": 60,
    "schedule": "cosine",
    "warmup_steps": 5,
    "threads": 1,
    "accelerator": "cpu",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small demo world, with a crowd and an image without boxes in each split."""
    folder = tmp_path_factory.mktemp("demo") / "detection"
    return write_detection_demo(folder, train=12, val=4, test=6)


def config_of(root: Path, **settings: Any) -> DetectionConfig:
    return resolve(DetectionConfig, {**TINY, "root": root, **settings})


def task_of(data: DetectionData) -> DetectionTask:
    torch.manual_seed(0)
    task = TASKS["detection"].build(data.config, data)
    assert isinstance(task, DetectionTask)
    return task


def fit(task: DetectionTask, data: DetectionData, folder: Path) -> dict[str, float]:
    """Train as the runner does; gives what was logged last."""
    (phase,) = TASKS["detection"].phases(task.config)
    trainer = make_trainer(task.config, phase, worker=0, folder=folder)
    task.begin_phase(phase, data)
    trainer.fit(task, datamodule=data)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.fixture(scope="module")
def trained(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DetectionTask, DetectionData, dict[str, float]]:
    """A task that has learnt its training images, its data, and what was logged."""
    data = DetectionData(config_of(root, validate_every=60))
    task = task_of(data)
    return task, data, fit(task, data, tmp_path_factory.mktemp("fit"))


def test_it_learns_its_images_and_logs_the_parts_of_the_loss(
    trained: tuple[DetectionTask, DetectionData, dict[str, float]],
) -> None:
    task, data, logged = trained
    found = task.evaluate(data, "train")
    assert (found.metrics["box_ap50"] or 0) > 25 and (found.metrics["box_ap"] or 0) > 7
    assert found.items == len(data.image_ids("train")) == 11
    assert set(found.signatures) | set(found.reasons) == set(found.metrics)
    assert {f"box_ap/{name}" for name in CATEGORIES.values()} <= set(found.metrics)
    parts = ("rpn_objectness", "rpn_box", "box_class", "box_box")
    for split in ("train", "val"):
        total = sum(logged[f"{split}/{part}"] for part in parts)
        assert logged[f"{split}/loss"] == pytest.approx(total, rel=1e-5)


def test_predictions_are_a_coco_result_file_that_scores_as_recorded(
    trained: tuple[DetectionTask, DetectionData, dict[str, float]], root: Path
) -> None:
    task, data, _ = trained
    found = task.evaluate(data, "test")
    name, text = found.file()
    entries = json.loads(text)
    assert name == "predictions.json" and entries == task.predictions(data, "test").predictions
    truth = json.loads((root / "annotations" / "instances_test2017.json").read_text())
    sizes = {image["id"]: (image["width"], image["height"]) for image in truth["images"]}
    assert {entry["image_id"] for entry in entries} <= set(sizes)
    assert {entry["category_id"] for entry in entries} <= set(CATEGORIES)
    for entry in entries:
        x, y, width, height = entry["bbox"]
        assert min(x, y) >= 0 and min(width, height) > 0 and 0 < entry["score"] <= 1
        right, bottom = sizes[entry["image_id"]]
        assert x + width <= right + 0.02 and y + height <= bottom + 0.02
    scores = coco_box_scores(truth, entries)
    assert scores.images == found.items == 6
    for metric, value in scores.values.items():
        assert found.metrics[metric] == pytest.approx(value, abs=1e-6), metric


def test_the_official_tools_read_the_result_file_and_agree(
    trained: tuple[DetectionTask, DetectionData, dict[str, float]], root: Path, tmp_path: Path
) -> None:
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools isn't installed").COCO
    from pycocotools.cocoeval import COCOeval

    task, data, _ = trained
    found = task.evaluate(data, "test")
    (tmp_path / "results.json").write_text(found.file()[1])
    truth = coco(str(root / "annotations" / "instances_test2017.json"))
    official = COCOeval(truth, truth.loadRes(str(tmp_path / "results.json")), "bbox")
    official.evaluate()
    official.accumulate()
    official.summarize()
    for metric, share in zip(list(found.metrics)[:12], official.stats, strict=True):
        value = found.metrics[metric]
        assert (-1 if value is None else value / 100) == pytest.approx(share, abs=1e-9), metric


class Told(DetectionTask):
    """Finds what it is told."""

    found: list[dict[str, Any]] = []

    def detect(self, batches: Any, data: DetectionData) -> list[dict]:
        """As in ``DetectionTask``, image by image."""
        return [e for image in data.image_ids("test") for e in self.found if e["image_id"] == image]


def test_a_set_whose_ids_do_not_rise_scores_as_the_official_tools_say(
    root: Path, tmp_path: Path
) -> None:
    """With equal scores, halves of boxes (an IoU of exactly .50) and numbers that need rounding."""
    shutil.copytree(root, tmp_path / "set")
    file = tmp_path / "set" / "annotations" / "instances_test2017.json"
    truth = json.loads(file.read_text())
    truth["images"].reverse()
    for entry in truth["annotations"]:
        x, y, width, height = entry["bbox"]
        entry["bbox"] = [x + 0.07, y + 0.03, round(width - 0.19, 2), round(height - 0.11, 2)]
        entry["area"] = 32.0**2 + 1e-5
    file.write_text(json.dumps(truth))
    config = config_of(tmp_path / "set")
    data = DetectionData(config)
    task = Told(config, len(data.classes))
    boxes = [entry for entry in truth["annotations"] if not entry["iscrowd"]]
    ids = [image["id"] for image in truth["images"]]
    for number, entry in enumerate(boxes):
        x, y, width, height = entry["bbox"]
        wrong = {"image_id": ids[number % len(ids)], "bbox": [1.0, 1.0, 2.0, 2.0]}
        right = {"image_id": entry["image_id"], "bbox": [x, y, width, height / 2]}
        for said in (right, wrong):
            task.found = [*task.found, {**said, "category_id": entry["category_id"], "score": 0.5}]
    found, scores = task.evaluate(data, "test").metrics, coco_box_scores(truth, task.found)
    assert found["box_ap50"] and found["box_ap_small"] is None
    for metric, value in scores.values.items():
        assert found[metric] == pytest.approx(value, abs=1e-9), metric


def test_batches_do_not_change_what_is_found(
    trained: tuple[DetectionTask, DetectionData, dict[str, float]], root: Path
) -> None:
    task, data, _ = trained
    alone = DetectionData(config_of(root, batch_size=1))
    found = task.predictions(data, "test").predictions
    assert found and task.predictions(alone, "test").predictions == found


def test_nothing_found_has_a_score_and_an_empty_file(
    trained: tuple[DetectionTask, DetectionData, dict[str, float]], root: Path
) -> None:
    data = DetectionData(config_of(root, score_threshold=0.999))
    task = task_of(data)
    found = task.evaluate(data)
    assert found.metrics["box_ap"] == 0 and json.loads(found.file()[1]) == []
    assert found.metrics["box_ap_large"] is None and found.reasons["box_ap_large"]


def test_ids_of_a_pascal_voc_set_stay_text() -> None:
    bccd = data_dir() / "detection" / "bccd"
    data = DetectionData(config_of(bccd, dataset="bccd", eval_images=2, score_threshold=0.0))
    found = task_of(data).evaluate(data)
    assert {entry["image_id"] for entry in found.predictions} == set(data.image_ids("test"))
    assert all(isinstance(image, str) for image in data.image_ids("test"))
    assert found.metrics["box_ap"] is not None


def test_a_validation_repeats_itself_and_leaves_the_model_alone(root: Path) -> None:
    data = DetectionData(config_of(root, attention_dropout=0.5, backbone="terms(0010)"))
    task = task_of(data).train()
    modes = [module.training for module in task.modules()]
    before = {name: value.clone() for name, value in task.state_dict().items()}
    (batch,) = data.val_dataloader()
    losses = []
    for _ in range(2):
        with giving_losses(task.model):
            torch.manual_seed(5)
            losses.append(task.losses(batch))
    assert losses[0] == losses[1] and len(losses[0]) == 4
    assert [module.training for module in task.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in task.state_dict().items())


def test_rates_follow_the_1x_schedule() -> None:
    config = resolve(DetectionConfig, {})
    factor = rate_factor(config)
    epoch = 7_330
    assert config.max_steps == 12 * epoch
    assert factor(0) == pytest.approx(1e-3) and factor(250) == pytest.approx(0.5005)
    assert factor(500) == factor(8 * epoch - 1) == 1
    assert factor(8 * epoch) == factor(11 * epoch - 1) == pytest.approx(0.1)
    assert factor(11 * epoch) == factor(12 * epoch - 1) == pytest.approx(0.01)
    twice = rate_factor(resolve(DetectionConfig, {"max_steps": 24 * epoch}))
    assert twice(16 * epoch - 1) == 1 and twice(22 * epoch) == pytest.approx(0.01)


def test_the_mean_offset_of_deformable_convolutions_is_told(root: Path, tmp_path: Path) -> None:
    settings = {"backbone": "deformable", "max_steps": 2, "warmup_steps": 0}
    data = DetectionData(config_of(root, **settings, validate_every=9))
    logged = fit(task_of(data), data, tmp_path)
    assert 0 < logged["train/offset"] < 0.5  # at 0 in the first update
    assert mean_offset(task_of(DetectionData(config_of(root))).model) is None


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_offsets_learn_at_a_tenth_of_the_rate(root: Path, optimiser: str) -> None:
    data = DetectionData(config_of(root, backbone="deformable", optimiser=optimiser))
    task = task_of(data)
    groups = task.configure_optimizers()["optimizer"].param_groups
    rates = {id(p): group["initial_lr"] for group in groups for p in group["params"]}
    assert len(rates) == sum(p.requires_grad for p in task.parameters())
    for name, parameter in task.named_parameters():
        share = 0.1 if ".offset_conv." in name else 1
        assert rates[id(parameter)] == pytest.approx(share * TINY["learning_rate"]), name


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(root: Path, tmp_path: Path) -> None:
    settings = {"optimiser": "sgd", "learning_rate": 1e25, "clip_norm": 0, "warmup_steps": 0}
    data = DetectionData(config_of(root, **settings))
    with pytest.raises(Diverged, match="lower learning_rate"):
        fit(task_of(data), data, tmp_path)


@pytest.mark.parametrize("name", ["body.conv1.weight", "body.bn1.running_var", "fpn"])
def test_weights_that_are_not_finite_are_no_empty_result(root: Path, name: str) -> None:
    data = DetectionData(config_of(root))
    task = task_of(data)
    found = [weight for key, weight in task.state_dict().items() if f"backbone.{name}" in key]
    found[0].fill_(torch.nan)
    with pytest.raises(Diverged, match="weights that aren't finite"):
        task.evaluate(data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"milestones": [0.9, 0.5]}, "milestones=.*that rise"),
        ({"milestones": [1.5]}, "between 0 and 1"),
        ({"anchor_sizes": [8, 16]}, "anchor_sizes"),
        ({"resnet": "resnet17"}, "resnet=resnet17|resnet='resnet17'"),
        ({"backbone": "terms(01"}, "backbone="),
        ({"learning_rte": 1}, "did you mean learning_rate"),
        ({"backbone": "terms(1111)", "heads": 6}, "6 heads don't divide the width 256"),
        ({"backbone": "dynamic(groups=24)"}, "24 groups don't divide the width 256"),
        ({"backbone": "deformable(groups=3)"}, "deformable.*3"),
        ({"backbone": f"dynamic(kernel={10**30 + 1})"}, "any machine can hold.* or the kernels"),
        ({"box_head_dim": 10**20}, "lower fpn_channels, box_head_dim or"),
        ({"backbone": "deformable", "resnet": "resnext50_32x4d"}, "grouped 3x3 convolutions"),
    ],
)
def test_wrong_settings_are_named(root: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of(root, **settings)


def test_frozen_norms_need_weights(root: Path) -> None:
    config = config_of(root, batch_norm="frozen")
    with pytest.raises(ConfigError, match="set weights to a file of resnet18"):
        config.check_training()


@pytest.mark.parametrize("name", ["nothing.pth", "", "a" * 5000, "a/b\0"])
def test_weights_that_are_no_file_are_named_before_anything_is_read(root: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no file: pass weights=FILE"):
        config_of(root, weights=name).check_training()


def test_a_bad_file_of_weights_is_named(root: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.pth"
    page.write_text("<html>moved</html>")
    with pytest.raises(ConfigError, match=r"page\.pth"):
        task_of(DetectionData(config_of(root, weights=page)))
