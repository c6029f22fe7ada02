"""The captioning task learns, keeps the order of the file, scores both phases and refuses well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from attnbench.datamodules.captions import CaptionData
from attnbench.datamodules.demo.captioning import write_captioning_demo
from attnbench.tasks.captioning import CROSS_ENTROPY, SELF_CRITICAL, CaptioningTask
from attnbench.tasks.captioning_config import CaptioningConfig
from attnbench.tasks.errors import ConfigError, Diverged
from attnbench.tasks.metrics.positions import position_accuracy
from attnbench.tasks.module import Phase
from attnbench.tasks.registry import TASKS
from attnbench.tasks.schedules import ngsan_factor
from attnbench.tasks.settings import resolve

TINY: dict[str, Any] = {
    "dataset": "demo",
    "dim": 32,
    "ffn_dim": 64,
    "heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
    "feature_dropout": 0.0,
    "norm_first": True,
    "min_count": 0,
    "batch_size": 20,
    "captions_per_image": 2,
    "xe_steps": 120,
    "learning_rate": 5e-3,
    "schedule": "linear",
    "warmup_steps": 20,
    "clip_value": 0.0,
    "clip_norm": 1.0,
    "scst_steps": 0,
    "beam": 2,
    "threads": 1,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small demo world."""
    folder = tmp_path_factory.mktemp("demo") / "captioning"
    return write_captioning_demo(folder, train=200, val=20, test=40)


def config_of(root: Path, **settings: Any) -> CaptioningConfig:
    return resolve(CaptioningConfig, {**TINY, "root": root, **settings})


def task_of(data: CaptionData) -> CaptioningTask:
    torch.manual_seed(0)
    task = TASKS["captioning"].build(data.config, data)
    assert isinstance(task, CaptioningTask)
    return task


def fit(task: CaptioningTask, data: CaptionData, phase: Phase, **options: Any) -> dict[str, Any]:
    """Train one phase as the runner does; gives what was logged last."""
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=phase.max_steps,
        max_epochs=-1,
        gradient_clip_val=task.config.clip_norm or None,
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
def trained(root: Path) -> tuple[CaptioningTask, CaptionData, dict[str, Any]]:
    """A task after cross-entropy training, its data, and what was logged."""
    data = CaptionData(config_of(root, scst_steps=3))
    task = task_of(data)
    options = {"val_check_interval": 120, "check_val_every_n_epoch": None, "limit_val_batches": 1.0}
    logged = fit(task, data, Phase(CROSS_ENTROPY, 120, 40, 120, 1), **options)
    return task, data, logged


def test_it_learns_the_demo_world(trained: tuple[CaptioningTask, CaptionData, dict]) -> None:
    task, data, logged = trained
    assert logged["val/loss"] < 0.7 < torch.tensor(float(len(data.vocabulary))).log() / 3
    found = task.evaluate(data)
    assert (found.metrics["bleu1"] or 0) > 60 and (found.metrics["cider_d"] or 0) > 250
    assert found.items == 40 and set(found.signatures) | set(found.reasons) == set(found.metrics)
    assert all("beam:2" in text for text in found.signatures.values())
    assert found.metrics["meteor"] is None and found.reasons["meteor"]


def test_predictions_are_a_coco_result_file_in_the_order_of_the_split(
    trained: tuple[CaptioningTask, CaptionData, dict], root: Path, tmp_path: Path
) -> None:
    task, data, _ = trained
    found = task.predictions(data, "test")
    name, text = found.file()
    entries = json.loads(text)
    assert name.endswith(".json") and [e["image_id"] for e in entries] == data.image_ids("test")
    alone = CaptionData(config_of(root, batch_size=7))
    assert task.predictions(alone, "test").predictions == found.predictions
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools isn't installed").COCO
    ids = data.image_ids("test")
    truth = {"info": {}, "images": [{"id": i} for i in ids], "annotations": [], "categories": []}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / name).write_text(text)
    loaded = coco(str(tmp_path / "truth.json")).loadRes(str(tmp_path / name))
    assert len(loaded.getAnnIds()) == 40


def test_both_phases_are_scored_and_their_weights_kept(
    trained: tuple[CaptioningTask, CaptionData, dict],
) -> None:
    task, data, _ = trained
    before = {name: value.clone() for name, value in task.state_dict().items()}
    assert task.earlier_weights() == {}
    scored = task.evaluate(data).metrics
    logged = fit(task, data, Phase(SELF_CRITICAL, 3, 3, 3, 1))
    assert {"train/reward", "train/baseline", "train/advantage"} <= set(logged)
    after = {name: value.clone() for name, value in task.state_dict().items()}
    kept = task.earlier_weights()[CROSS_ENTROPY]
    assert all(torch.equal(kept[name], before[name]) for name in before)
    assert any(not torch.equal(after[name], before[name]) for name in before)
    both = task.evaluate(data).metrics
    assert {name: both[f"xe_{name}"] for name in scored} == scored
    assert all(torch.equal(value, after[name]) for name, value in task.state_dict().items())


def test_the_papers_schedule() -> None:
    rates = [3e-4 * ngsan_factor(10 * epoch, epoch_steps=10) for epoch in range(15)]
    full = [1e-4, 2e-4, 3e-4, 3e-4, 3e-4, 3e-4]
    assert rates == pytest.approx([*full, *[1.5e-4] * 3, *[0.75e-4] * 3, *[0.375e-4] * 3])


def test_the_schedule_counts_the_epochs_of_the_data(root: Path) -> None:
    data = CaptionData(config_of(root, schedule="ngsan", accumulate=3, xe_steps=9))
    task, rates = task_of(data), []
    task.on_train_batch_end = lambda *_: rates.append(  # type: ignore[method-assign]
        task.trainer.optimizers[0].param_groups[0]["lr"]
    )
    fit(task, data, Phase(CROSS_ENTROPY, 9, 9, 9, 1), accumulate_grad_batches=3)
    # 10 batches an epoch, 3 to an update: 4 updates an epoch, the last one of one batch.
    peak = TINY["learning_rate"]
    assert rates[0] == pytest.approx(peak / 3) and rates[10] == pytest.approx(peak * 2 / 3)
    assert rates[20] == pytest.approx(peak)


def test_features_without_boxes_are_refused_where_they_are_needed(root: Path, tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in root.iterdir():
        if "box" not in path.name:
            (bare / path.name).symlink_to(path)
    plain = CaptionData(config_of(bare))
    assert not plain.has_boxes
    task_of(plain)
    for settings, words in (
        ({"encoder_self": "gsa(query)"}, r"encoder_self=gsa\(query\) needs a box"),
        ({"absolute_geometry": True}, "absolute_geometry=true needs a box"),
    ):
        with pytest.raises(ConfigError, match=words):
            task_of(CaptionData(config_of(bare, **settings)))


def test_a_bad_file_of_counts_is_refused_before_anything_is_trained(
    root: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.p"
    page.write_text("<html>moved</html>")
    task_of(CaptionData(config_of(root, document_frequencies=page)))  # not used without rewards
    with pytest.raises(ConfigError, match=r"page\.p"):
        task_of(CaptionData(config_of(root, document_frequencies=page, scst_steps=3)))


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(root: Path) -> None:
    data = CaptionData(config_of(root, learning_rate=1e30, warmup_steps=0, clip_norm=0))
    with pytest.raises(Diverged, match="lower learning_rate"):
        fit(task_of(data), data, Phase(CROSS_ENTROPY, 120, 40, 120, 1))


@pytest.mark.parametrize("clip_value", [0.0, 1e-4])
def test_gradients_are_clipped_by_value(root: Path, clip_value: float) -> None:
    data = CaptionData(config_of(root, clip_value=clip_value, clip_norm=0, xe_steps=1))
    task, largest = task_of(data), []
    task.on_before_zero_grad = lambda _: largest.append(  # type: ignore[method-assign]
        max(float(p.grad.abs().max()) for p in task.parameters() if p.grad is not None)
        if any(p.grad is not None for p in task.parameters())
        else 0.0
    )
    fit(task, data, Phase(CROSS_ENTROPY, 2, 2, 2, 1))
    assert max(largest) <= 1e-4 * (1 + 1e-6) if clip_value else max(largest) > 1e-4


def test_position_words_are_read_as_claims() -> None:
    truth = [["A small red circle left of a large blue square."]] * 4
    said = [
        "a large red circle left of a small blue square",
        "there is a blue square to the right of a red circle",
        "a red circle right of a blue square",
        "a red circle",
    ]
    assert position_accuracy(said, truth) == 50
