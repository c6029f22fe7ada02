"""The sentiment task: MulT and its baselines on streams of text, audio and vision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..datamodules.sentiment_batch import SentimentBatch
from ..models.pooled import Pooled
from ..models.streams import Streams, StreamsOutput
from .closed_form import fit_closed_form
from .errors import ConfigError, Diverged
from .metrics.sentiment import Kind, Scores, majority_scores, sentiment_scores
from .module import AttentionMap, Evaluation, Phase, TaskModule
from .optimizers import adam
from .schedules import schedule_factor
from .selection import Selection
from .sentiment_attention import item_maps
from .sentiment_config import SentimentConfig
from .sentiment_cost import build_model

if TYPE_CHECKING:
    from ..datamodules.sentiment import SentimentData

CURVES = {
    "regression": ("mae", "corr", "acc2_nonzero", "acc7_round"),
    "binary": ("accuracy", "f1"),
    "emotions": ("neutral_acc", "happy_acc", "sad_acc", "angry_acc"),
}
"""Metrics that are logged at each validation, as ``val/…``."""


@dataclass(frozen=True)
class DataShape:
    """What a model must know of its data.

    Attributes:
        dims: feature width of each modality.
        kind: what the labels are.
        labels: numbers of a label L.
        emotions: their names, where they are emotions.
        text_steps: longest text stream.
    """

    dims: Mapping[str, int]
    kind: Kind
    labels: int = 1
    emotions: tuple[str, ...] = ()
    text_steps: int = 1

    @property
    def outputs(self) -> int:
        """Numbers that a model gives an item: a score or logit, or two logits an emotion."""
        return 2 * self.labels if self.kind == "emotions" else self.labels


class SentimentTask(TaskModule):
    """Trains on ``SentimentBatch`` with the loss that its labels ask for, and scores whole splits.

    Args:
        config: all settings.
        shape: of the data.

    Raises:
        ConfigError: settings that don't fit together, or not the data.
    """

    def __init__(self, config: SentimentConfig, shape: DataShape) -> None:
        super().__init__()
        self.config, self.shape = config, shape
        self.clip_value = config.clip_value
        self.model = build_model(config, dict(shape.dims), shape.outputs, shape.text_steps)
        self.selection = Selection(
            config.plateau_patience, config.plateau_factor, config.select == "best"
        )
        self.fitted = ""
        self._data: SentimentData | None = None
        self._validated: list[tuple[Tensor, Tensor]] = []

    def begin_phase(self, phase: Phase, data: SentimentData) -> None:
        """Get ready; a linear model is fitted here and now."""
        self._data = data
        self.train()
        if isinstance(self.model, Pooled):
            linear, self.fitted = fit_closed_form(self.config, data)
            with torch.no_grad():
                self.model.linear.weight.copy_(torch.from_numpy(linear.weight_OF))
                self.model.linear.bias.copy_(torch.from_numpy(linear.bias_O))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam; ``on_train_batch_start`` sets its rate, which is 0 for a model fitted already."""
        config = self.config
        optimizer = adam(self.model, config, 0.0 if config.closed_form else config.learning_rate)
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        return optimizer

    def on_train_batch_start(self, batch: SentimentBatch, batch_idx: int) -> None:
        """As in ``TaskModule``, and make the rate a function of the update too."""
        super().on_train_batch_start(batch, batch_idx)
        factor = self._factor(self.global_step)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = group["initial_lr"] * factor

    def _factor(self, step: int) -> float:
        """What the peak rate is multiplied with at update ``step``, from 0."""
        config = self.config
        if config.schedule == "linear":
            return schedule_factor("linear", config.warmup_steps, config.updates)(step)
        warm = min((step + 1) / max(config.warmup_steps, 1), 1.0)
        return warm * (self.selection.rate if config.schedule == "plateau" else 1.0)

    def forward(self, batch: SentimentBatch, need_weights: bool = False) -> StreamsOutput:
        """What the model says of a batch. Raises ConfigError for streams it can't read."""
        streams = Streams(batch.features, batch.valid, batch.read_at)
        try:
            return self.model(streams, need_weights)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def loss(self, prediction_BO: Tensor, labels_BL: Tensor) -> Tensor:
        """Mean absolute error, binary cross-entropy, or cross-entropy over emotions and classes."""
        if self.shape.kind == "regression":
            return F.l1_loss(prediction_BO, labels_BL)
        if self.shape.kind == "binary":
            return F.binary_cross_entropy_with_logits(prediction_BO, labels_BL)
        return F.cross_entropy(prediction_BO.reshape(-1, 2), labels_BL.reshape(-1))

    def training_step(self, batch: SentimentBatch, batch_idx: int) -> Tensor:
        """The loss with the model's own terms; raises ``Diverged`` if it is not finite."""
        output = self(batch)
        loss = self.loss(output.prediction_BO.float(), batch.labels_BL)
        self.log("train/loss", loss.detach(), batch_size=len(batch))
        for name, term in output.losses.items():
            loss = loss + getattr(self.config, f"{name}_weight") * term
            self.log(f"train/{name}", term.detach(), batch_size=len(batch))
        if batch_idx % 20 == 0 and not torch.isfinite(loss):  # reading the loss waits for a GPU
            raise Diverged(
                f"the loss was {float(loss.detach())} after {self.global_step} updates: lower "
                f"learning_rate ({self.config.learning_rate:.2g}) or clip_norm"
            )
        return loss

    def validation_step(self, batch: SentimentBatch, batch_idx: int) -> None:
        """Keep what is said of a batch for the end of the validation."""
        self._validated.append((self(batch).prediction_BO.float().cpu(), batch.labels_BL.cpu()))

    def on_validation_epoch_end(self) -> None:
        """Loss and chief metrics over the whole part, and whether these are the best weights.

        A loss that is not finite stops the run as diverged.
        """
        loss, scores = self._conclude(self._validated, self.global_step)
        self._validated = []
        self.log("val/loss", loss)
        for name in CURVES[self.shape.kind]:
            if (value := scores.values.get(name)) is not None:
                self.log(f"val/{name}", value)

    def _conclude(self, said: Sequence[tuple[Tensor, Tensor]], step: int) -> tuple[float, Scores]:
        """Loss and scores of a whole validation, which the choice of weights is told of."""
        prediction_NO, labels_NL = (torch.cat(parts) for parts in zip(*said, strict=True))
        loss = float(self.loss(prediction_NO, labels_NL))
        self.check_validation(loss, step)
        self.selection.add(loss, step, self.state_dict)
        return loss, self._scores(prediction_NO.numpy(), labels_NL.numpy())

    def _scores(self, prediction_NO: np.ndarray, labels_NL: np.ndarray) -> Scores:
        return sentiment_scores(self.shape.kind, prediction_NO, labels_NL, self.shape.emotions)

    @torch.no_grad()
    def _validate(self, step: int) -> None:
        """A validation that isn't due by the clock: of the last weights, after ``step`` updates."""
        assert self._data is not None, "begin_phase has the data"
        self.eval()
        batches = (batch.to(self.device) for batch in self._data.val_dataloader())
        self._conclude(
            [(self(b).prediction_BO.float().cpu(), b.labels_BL.cpu()) for b in batches], step
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What validations have shown travels with the weights."""
        checkpoint["selection"] = self.selection.state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with what validations had shown."""
        self.selection.restore(checkpoint["selection"])

    def final_weights(self, checkpoints: Sequence[Path]) -> tuple[dict[str, Tensor], str]:
        """The weights that ``select`` names; the last ones are validated before the choice."""
        if self.config.select == "average":
            return super().final_weights(checkpoints)
        last = torch.load(checkpoints[-1], map_location="cpu", weights_only=True)
        if self.config.select == "last" or self.config.closed_form:
            return last["state_dict"], f"took {checkpoints[-1].name}"
        if self.selection.seen < last["global_step"]:
            self.load_state_dict(last["state_dict"])
            self._validate(last["global_step"])
        best = self.selection
        assert best.weights is not None
        return best.weights, (
            f"took the weights after {best.step} updates, whose validation loss {best.loss:.4f} "
            "was the lowest"
        )

    @torch.inference_mode()
    def predict(self, batches: Iterable[SentimentBatch]) -> np.ndarray:
        """What the model says of each item, float32 (N, O), in the order of their split."""
        self.eval()
        said: dict[int, np.ndarray] = {}
        for batch in batches:
            prediction_BO = self(batch.to(self.device)).prediction_BO.float().cpu().numpy()
            said |= dict(zip(batch.index_B.tolist(), prediction_BO, strict=True))
        return np.stack([said[place] for place in range(len(said))])

    def evaluate(self, data: SentimentData, split: str = "test") -> Evaluation:
        """All metrics of a split, and those of the best constant."""
        prediction_NO = self.predict(data.predict_dataloader(split))
        if not np.isfinite(prediction_NO).all():
            raise Diverged("the trained model gives numbers that aren't finite")
        labels_NL, shape = data.labels(split), self.shape
        scores = self._scores(prediction_NO, labels_NL)
        majority = majority_scores(shape.kind, labels_NL, shape.emotions)
        how = f"|{self.config.model} {self.fitted}" if self.fitted else ""
        return Evaluation(
            scores.values | {f"majority_{n}": value for n, value in majority.values.items()},
            signatures={name: f"items:{n}{how}" for name, n in scores.counted.items()}
            | {f"majority_{name}": f"items:{n}" for name, n in majority.counted.items()},
            items=len(labels_NL),
            predictions=[
                {"id": name, "label": self._label(label_L), "prediction": self._said(said_O)}
                for name, label_L, said_O in zip(
                    data.ids(split), labels_NL, prediction_NO, strict=True
                )
            ],
            as_json=True,
            reasons=scores.reasons | {f"majority_{n}": why for n, why in majority.reasons.items()},
        )

    def _label(self, label_L: np.ndarray) -> Any:
        if self.shape.kind == "emotions":
            return dict(zip(self.shape.emotions, label_L.tolist(), strict=True))
        return label_L.item()

    def _said(self, prediction_O: np.ndarray) -> Any:
        """A score, the probability of a binary label, or that of each emotion."""
        prediction = torch.from_numpy(prediction_O)
        if self.shape.kind == "regression":
            return prediction.item()
        if self.shape.kind == "binary":
            return prediction.sigmoid().item()
        there_L = prediction.reshape(-1, 2).softmax(-1)[:, 1]
        return dict(zip(self.shape.emotions, there_L.tolist(), strict=True))

    @torch.inference_mode()
    def attention_maps(self, data: SentimentData, split: str, item: str) -> dict[str, AttentionMap]:
        """Crossmodal attention of one item, by target and source: ``text from audio``."""
        self.eval()
        return item_maps(self, data, split, item)


def shape_of(data: SentimentData) -> DataShape:
    """What a model must know of its data."""
    steps = max(part.streams["text"].steps for part in data.store.parts.values())
    return DataShape(data.dims, data.kind, data.label_count, data.emotions, steps)
