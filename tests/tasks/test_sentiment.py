"""The sentiment task: losses, selection, linear models, predictions, attention and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from attnbench.datamodules.demo.sentiment import write_sentiment_demo
from attnbench.datamodules.sentiment import SentimentData
from attnbench.datamodules.sentiment_batch import SentimentBatch
from attnbench.models.streams import MODALITIES
from attnbench.tasks.closed_form import ALPHAS, fit_ridge
from attnbench.tasks.errors import ConfigError, Diverged
from attnbench.tasks.module import Phase
from attnbench.tasks.registry import TASKS
from attnbench.tasks.selection import Selection
from attnbench.tasks.sentiment import DataShape, SentimentTask
from attnbench.tasks.sentiment_config import SentimentConfig
from attnbench.tasks.settings import resolve

TINY: dict[str, Any] = {
    "dataset": "demo",
    "dim": 8,
    "heads": 2,
    "crossmodal_layers": 1,
    "memory_layers": 1,
    "batch_size": 8,
    "max_steps": 6,
    "check_every": 2,
    "threads": 1,
}
DIMS: dict[str, int] = dict.fromkeys(MODALITIES, 3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small demo world."""
    folder = tmp_path_factory.mktemp("demo") / "sentiment"
    return write_sentiment_demo(folder, train=40, val=12, test=20)


def config_of(root: Path | None = None, **settings: Any) -> SentimentConfig:
    return resolve(SentimentConfig, {**TINY, "root": root, **settings})


def made(root: Path, **settings: Any) -> tuple[SentimentTask, SentimentData]:
    torch.manual_seed(0)
    data = SentimentData(config_of(root, **settings))
    task = TASKS["sentiment"].build(data.config, data)
    assert isinstance(task, SentimentTask)
    return task, data


def fit(task: SentimentTask, data: SentimentData) -> dict[str, Any]:
    """Train as the runner does; gives what was logged last."""
    (phase,) = TASKS["sentiment"].phases(task.config)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=phase.max_steps,
        max_epochs=-1,
        gradient_clip_val=task.config.clip_norm or None,
        val_check_interval=phase.validate_every,
        check_val_every_n_epoch=None,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    task.begin_phase(phase, data)
    trainer.fit(task, datamodule=data)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def kept(task: SentimentTask, folder: Path) -> dict[str, torch.Tensor]:
    """The final weights, from a checkpoint as the runner would have written it last."""
    path = folder / "step=1.ckpt"
    task.trainer.save_checkpoint(path)
    return task.final_weights([path])[0]


def some_batch(labels: torch.Tensor) -> SentimentBatch:
    items = len(labels)
    return SentimentBatch(
        features={name: torch.randn(items, 4, 3) for name in MODALITIES},
        valid={name: torch.ones(items, 4, dtype=torch.bool) for name in MODALITIES},
        read_at={name: torch.full((items,), 3) for name in MODALITIES},
        labels_BL=labels,
        index_B=torch.arange(items),
    )


def test_training_validates_and_logs_what_curves_need(root: Path) -> None:
    task, data = made(root)
    logged = fit(task, data)
    assert {"val/loss", "val/mae", "val/acc2_nonzero", "val/acc7_round"} <= set(logged)
    assert logged["val/loss"] == pytest.approx(logged["val/mae"], rel=1e-5)
    assert {"train/loss"} <= set(logged)


def test_the_weights_with_the_lowest_validation_loss_are_kept(root: Path, tmp_path: Path) -> None:
    losses: list[float] = []

    class Watched(SentimentTask):
        def on_validation_epoch_end(self) -> None:
            super().on_validation_epoch_end()
            losses.append(float(self.trainer.callback_metrics["val/loss"]))

    data = SentimentData(config_of(root, learning_rate=0.3, check_every=1, clip_norm=0))
    torch.manual_seed(0)
    made_by = TASKS["sentiment"].build(data.config, data)
    assert isinstance(made_by, SentimentTask)
    task = Watched(made_by.config, made_by.shape)
    fit(task, data)
    assert len(losses) == 6 and losses.index(min(losses)) != 5, "a rate at which it gets worse"
    task.load_state_dict(kept(task, tmp_path))
    assert task.evaluate(data, "val").metrics["mae"] == pytest.approx(min(losses), rel=1e-5)


def test_the_last_weights_are_validated_before_the_choice(root: Path, tmp_path: Path) -> None:
    task, data = made(root, validate_every=4)
    fit(task, data)
    assert task.selection.seen == 4
    weights = kept(task, tmp_path)
    assert task.selection.seen == 6
    last = task.selection.step == 6
    same = all(torch.equal(weights[name], value) for name, value in task.state_dict().items())
    assert same == last
    task.load_state_dict(weights)
    best = task.evaluate(data, "val").metrics["mae"]
    assert best == pytest.approx(task.selection.loss, rel=1e-5)


def test_the_last_ones_or_a_mean_can_be_chosen_instead(root: Path, tmp_path: Path) -> None:
    task, data = made(root, select="last", learning_rate=0.3)
    fit(task, data)
    weights = kept(task, tmp_path)
    assert all(torch.equal(weights[name], value) for name, value in task.state_dict().items())
    assert task.selection.weights is None
    assert TASKS["sentiment"].phases(config_of(select="average", average_last=3))[0].keep == 3
    assert TASKS["sentiment"].phases(config_of(select="best", average_last=3))[0].keep == 1


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_the_rate_falls_as_torchs_scheduler_lets_it(patience: int) -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=patience, eps=0
    )
    ours = Selection(patience, 0.5, keeps_weights=False)
    random = np.random.default_rng(0)
    for step in range(60):
        loss = float(2 - 0.02 * step + random.normal(0, 0.05))
        theirs.step(loss)
        if step == 30:  # gone on from a checkpoint
            state, ours = ours.state(), Selection(patience, 0.5, keeps_weights=False)
            ours.restore(state)
        ours.add(loss, step, dict)
        assert ours.rate == pytest.approx(optimizer.param_groups[0]["lr"])
    assert ours.drops > 1


def test_the_loss_follows_from_the_labels() -> None:
    prediction = torch.tensor([[0.5], [-2.0]])
    scores = SentimentTask(config_of(), DataShape(DIMS, "regression"))
    assert scores.loss(prediction, torch.tensor([[1.0], [1.0]])) == pytest.approx(1.75)
    binary = SentimentTask(config_of(), DataShape(DIMS, "binary"))
    expected = (np.log1p(np.exp(-0.5)) + np.log1p(np.exp(-2.0))) / 2
    assert binary.loss(prediction, torch.tensor([[1.0], [0.0]])) == pytest.approx(expected)
    names = ("neutral", "happy", "sad", "angry")
    emotions = SentimentTask(config_of(), DataShape(DIMS, "emotions", 4, names))
    logits = torch.zeros(1, 8)
    logits[0, 3] = 1.0  # "there" of the second emotion
    value = emotions.loss(logits, torch.tensor([[0, 1, 0, 0]]))
    assert value == pytest.approx((3 * np.log(2) + np.log1p(np.exp(-1))) / 4)
    output = emotions(some_batch(torch.zeros(2, 4, dtype=torch.long)))
    assert output.prediction_BO.shape == (2, 8)


def test_terms_of_a_model_are_weighed(root: Path) -> None:
    """The gradient of the aligner is that of its loss alone where the model reads zeros."""
    losses: dict[float, float] = {}
    for weight in (0.0, 1.0, 3.0):
        task, data = made(
            root, model="ef-lstm", alignment_by="ctc", hidden=4, ctc_weight=weight, output_dropout=0
        )
        task.log = lambda *_, **__: None  # type: ignore[method-assign]
        batch = next(iter(data.predict_dataloader("train")))
        torch.manual_seed(1)
        losses[weight] = float(task.training_step(batch, 1).detach())
    assert losses[3.0] - losses[0.0] == pytest.approx(3 * (losses[1.0] - losses[0.0]), rel=1e-4)
    assert losses[1.0] > losses[0.0]


def test_a_loss_that_runs_off_has_diverged(root: Path) -> None:
    task, data = made(root, learning_rate=1e30, clip_norm=0)
    with pytest.raises(Diverged, match="validation loss was|lower learning_rate"):
        fit(task, data)


@pytest.mark.parametrize("modalities", ["text+audio+vision", "text+vision"])
def test_ridge_is_scikit_learns(root: Path, tmp_path: Path, modalities: str) -> None:
    task, data = made(root, model="ridge", ridge_alpha=7.0, modalities=modalities)
    fit(task, data)
    task.load_state_dict(kept(task, tmp_path))
    found = [row["prediction"] for row in task.evaluate(data).predictions]
    edges = np.cumsum([0, *(data.dims[name] for name in MODALITIES)])
    columns = [
        number
        for place, name in enumerate(MODALITIES)
        if name in modalities
        for number in range(edges[place], edges[place + 1])
    ]
    model = make_pipeline(StandardScaler(), Ridge(alpha=7.0))
    model.fit(data.pooled("train")[:, columns], data.labels("train")[:, 0])
    expected = model.predict(data.pooled("test")[:, columns])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert "alpha:7" in task.evaluate(data).signatures["mae"]


def test_the_penalty_is_chosen_in_validation(root: Path) -> None:
    task, data = made(root, model="ridge")
    fit(task, data)
    chosen = task.evaluate(data, "val").metrics["mae"] or 0
    for alpha in ALPHAS:
        other, _ = made(root, model="ridge", ridge_alpha=alpha)
        fit(other, data)
        assert chosen <= (other.evaluate(data, "val").metrics["mae"] or 0) + 1e-6


def test_ridge_of_yes_or_no_is_logistic_regression() -> None:
    random = np.random.default_rng(0)
    x_NF = random.normal(3, 5, (80, 6)).astype(np.float32)
    labels_NL = (x_NF[:, :2] + random.normal(size=(80, 2)) > 3).astype(int)
    one = fit_ridge("binary", x_NF, labels_NL[:, :1], 2.0)
    both = fit_ridge("emotions", x_NF, labels_NL, 2.0)
    for number in range(2):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.5))
        model.fit(x_NF, labels_NL[:, number])
        expected = model.decision_function(x_NF)
        logits = both(x_NF)
        np.testing.assert_allclose(
            logits[:, 2 * number + 1] - logits[:, 2 * number], expected, atol=1e-2
        )
        if number == 0:
            np.testing.assert_allclose(one(x_NF)[:, 0], expected, atol=1e-2)
    never = fit_ridge("binary", x_NF, np.zeros((80, 1)), 1.0)
    assert (never(x_NF) < 0).all()


@pytest.mark.parametrize("model", ["ridge", "majority"])
def test_training_leaves_a_fitted_model_as_it_is(root: Path, tmp_path: Path, model: str) -> None:
    task, data = made(root, model=model, learning_rate=1.0, weight_decay=1.0)
    task.begin_phase(Phase("", 1, 1, 1, 1), data)
    before = {name: value.clone() for name, value in task.state_dict().items()}
    fit(task, data)
    assert task.global_step == 1
    for weights in (task.state_dict(), kept(task, tmp_path)):
        assert all(torch.equal(weights[name], value) for name, value in before.items())


def test_the_majority_row_is_the_best_constant_of_training(root: Path) -> None:
    task, data = made(root, model="majority")
    fit(task, data)
    metrics = task.evaluate(data).metrics
    median = np.median(data.labels("train"))
    assert metrics["mae"] == pytest.approx(np.abs(data.labels("test") - median).mean(), rel=1e-5)
    assert (metrics["mae"] or 0) >= (metrics["majority_mae"] or 0) - 1e-6
    assert metrics["corr"] is None


def test_predictions_stand_in_the_order_of_the_split_whatever_the_batches(root: Path) -> None:
    task, data = made(root)
    found = task.evaluate(data)
    name, text = found.file()
    rows = json.loads(text)
    assert name == "predictions.json" and found.items == 20
    assert [row["id"] for row in rows] == data.ids("test")
    assert [row["label"] for row in rows] == data.labels("test")[:, 0].tolist()
    other = SentimentData(config_of(root, batch_size=3))
    again = [row["prediction"] for row in task.evaluate(other).predictions]
    np.testing.assert_allclose(again, [row["prediction"] for row in rows], atol=1e-5)
    assert set(found.signatures) | set(found.reasons) == set(found.metrics)
    assert found.signatures["mae"] == "items:20"


def test_probabilities_are_given_of_yes_or_no() -> None:
    binary = SentimentTask(config_of(), DataShape(DIMS, "binary"))
    assert binary._said(np.array([0.0], np.float32)) == 0.5
    names = ("neutral", "happy", "sad", "angry")
    emotions = SentimentTask(config_of(), DataShape(DIMS, "emotions", 4, names))
    said = emotions._said(np.array([0, 0, 0, 9, 0, 0, 9, 0], np.float32))
    assert list(said) == list(names)
    assert said["neutral"] == 0.5 and said["happy"] > 0.99 and said["angry"] < 0.01


@pytest.mark.parametrize("settings", [{}, {"conv_padding": "none", "kernel_audio": 5}])
def test_attention_of_an_item_is_over_its_real_steps(root: Path, settings: dict[str, Any]) -> None:
    task, data = made(root, **settings)
    name = data.ids("test")[3]
    maps = task.attention_maps(data, "test", name)
    assert set(maps) == {f"{a} from {b}" for a in MODALITIES for b in MODALITIES if a != b}
    real = {each: int(data.store.parts["test"].streams[each].lengths_N[3]) for each in MODALITIES}
    real["audio"] -= settings.get("kernel_audio", 1) - 1
    real["vision"] -= 2 if settings else 0
    for place, found in maps.items():
        target, source = place.split(" from ")
        (weights_HQK,) = found.layers
        assert weights_HQK.shape == (2, real[target], real[source])
        np.testing.assert_allclose(weights_HQK.sum(-1), 1, atol=1e-5)
        assert len(found.queries) == real[target] and len(found.keys) == real[source]
    by_place = task.attention_maps(data, "test", "3")["text from audio"]
    assert torch.equal(by_place.layers[0], maps["text from audio"].layers[0])


def test_what_has_no_attention_to_draw_says_so(root: Path) -> None:
    task, data = made(root, model="lf-lstm", hidden=4)
    with pytest.raises(ConfigError, match="model=lf-lstm has no attention from one stream"):
        task.attention_maps(data, "test", "0")
    task, data = made(root)
    with pytest.raises(ConfigError, match="no item 'nobody'"):
        task.attention_maps(data, "test", "nobody")


@pytest.mark.parametrize("model", ["ef-lstm", "raven", "mctn"])
def test_models_of_aligned_streams_refuse_others(model: str) -> None:
    reason = config_of(model=model).refusal()
    assert reason is not None and model in reason and "alignment_by=ctc" in reason
    assert config_of(model=model, alignment="aligned").refusal() is None
    assert config_of(model=model, alignment_by="ctc").refusal() is None
    assert config_of(model="mult").refusal() is None


def test_variants_that_see_the_future_are_refused_with_the_reference_mask() -> None:
    assert config_of(crossmodal="nsa").refusal() is None
    reason = config_of(crossmodal="nsa", future_mask="reference").refusal()
    assert reason is not None and "future_mask=reference" in reason
    assert config_of(crossmodal="nsa", future_mask="reference", model="lf-lstm").refusal() is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modalities": "text+touch"}, ["no stream is called 'touch'", "vision"]),
        ({"modalities": "text+text"}, ["twice"]),
        ({"modalities": "text"}, ["modalities=text", "model=lf-transformer"]),
        ({"modalities": "text+audio", "targets": "vision"}, ["targets=vision", "must be read"]),
        ({"heads": 3}, ["heads=3", "dim=8"]),
        ({"heads": 3, "model": "lf-transformer", "hidden": None}, ["heads=3", "dim=8"]),
        ({"heads": 3, "model": "ef-transformer", "hidden": 7}, ["heads=3", "hidden=7"]),
        ({"model": "ridge", "alignment_by": "ctc"}, ["model=ridge", "alignment_by=none"]),
        ({"crossmodal": "terms(11)"}, ["crossmodal='terms(11)'", "four bits"]),
        ({"ridge_alpha": 0}, ["ridge_alpha=0", "greater than 0"]),
        ({"loss": "mse"}, ["no setting is called 'loss'"]),
    ],
)
def test_a_wrong_setting_is_one_sentence(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        config_of(**settings)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"alignment_by": "ctc"},
        {"source_level": "intermediate", "targets": "text"},
        {"kernel_audio": 2},
        {"model": "mctn", "alignment": "aligned", "modalities": "audio+vision"},
    ],
)
def test_what_a_model_cant_do_is_a_sentence_when_it_is_built(settings: dict[str, Any]) -> None:
    shape = DataShape(DIMS, "regression", text_steps=9)
    with pytest.raises(ConfigError) as error:
        SentimentTask(config_of(**settings), shape)
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError):
        TASKS["sentiment"].measure(config_of(**settings))


def test_a_text_longer_than_the_alignment_is_a_sentence(root: Path) -> None:
    task, data = made(root, model="ef-lstm", alignment_by="ctc", hidden=4)
    shape = replace(task.shape, text_steps=2)
    short = SentimentTask(task.config, shape)
    with pytest.raises(ConfigError, match="text_steps"):
        short.evaluate(data)
