"""What the runner asks of every task: phases of training, final weights, an evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import lightning
import torch
from torch import Tensor

from .averaging import average_checkpoints
from .errors import ConfigError, Diverged

if TYPE_CHECKING:
    from .cell_views import CellChoice, CellView
    from .image_pictures import ImagePicture


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one objective; a second one begins with the first one's weights.

    Attributes:
        name: for records and checkpoints; empty where a task has only one phase.
        max_steps: its updates.
        check_every: updates between its checkpoints.
        validate_every: updates between its validations.
        keep: how many of its checkpoints are kept, for ``TaskModule.final_weights``.
    """

    name: str
    max_steps: int
    check_every: int
    validate_every: int
    keep: int


@dataclass(frozen=True)
class Evaluation:
    """Scores of one split, all from one set of weights.

    Attributes:
        metrics: by fixed name; None where a metric can't be had here.
        signatures: how each was computed.
        items: number of evaluated items.
        predictions: what the model said, in the order of the split.
        as_json: predictions are written as one JSON list, not as lines of text.
        reasons: why a metric is None, by its name, e.g. "no Java"; or what its value is to be
            read with.
        kept: whether predictions are kept beside the record; where they are many files
            (``TaskModule.prediction_files``), only `attnbench predict` writes them.
    """

    metrics: dict[str, float | None]
    signatures: dict[str, str] = field(default_factory=dict)
    items: int = 0
    predictions: list[Any] = field(default_factory=list)
    as_json: bool = False
    reasons: dict[str, str] = field(default_factory=dict)
    kept: bool = True

    def file(self) -> tuple[str, str]:
        """Name and content of the file of predictions."""
        if self.as_json:
            return "predictions.json", json.dumps(self.predictions, ensure_ascii=False) + "\n"
        return "predictions.txt", "".join(f"{line}\n" for line in self.predictions)


@dataclass(frozen=True)
class PredictionFiles:
    """What a model says of a split as one file an item, for a folder of their own.

    Attributes:
        names: of the files, each once, known before anything is computed.
        contents: their content in the same order, computed as it is asked for.
    """

    names: tuple[str, ...]
    contents: Iterator[bytes]


class DataCardLike(Protocol):
    """A description of the data that can be printed and stored."""

    def render(self) -> str:
        """As plain text."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """As plain values."""
        ...


class TaskData(Protocol):
    """What the runner asks of a data module; each method raises DataError for data it can't use."""

    def card(self) -> DataCardLike:
        """Read what a run uses and describe it."""
        ...

    def fingerprint(self) -> dict[str, str]:
        """Hashes of everything that a result depends on, by file or part."""
        ...

    def training_fingerprint(self) -> dict[str, str]:
        """The part of the hashes that training depends on."""
        ...

    def train_dataloader(self) -> Any:
        """The training batches."""
        ...

    def val_dataloader(self) -> Any:
        """The validation batches."""
        ...

    def predict_dataloader(self, split: str = "test") -> Any:
        """A split's batches for evaluation."""
        ...


@dataclass(frozen=True)
class AttentionMap:
    """Where the queries of one item look, at one place of a model.

    Attributes:
        layers: the weights (H, Q, K) of each layer from the first on, over real queries and keys
            only; a row sums to 1 over its keys. Empty where the attention there has none.
        queries, keys: what stands at each of them, such as a word or the number of a step.
        missing: why ``layers`` is empty.
    """

    layers: tuple[Tensor, ...]
    queries: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    missing: str = ""


class TaskModule(lightning.LightningModule):
    """A LightningModule that the runner can train phase by phase, and evaluate."""

    config: Any
    """All settings; every task has ``seed`` among them."""

    clip_value: float = 0.0
    """Largest value of a gradient; 0 does not clip values."""

    def begin_phase(self, phase: Phase, data: Any) -> None:
        """Get ready for a phase, before its training begins or goes on."""

    def chance(self) -> int:
        """The seed of all that is drawn in a batch: a function of seed and batch."""
        batches_seen = self.trainer.fit_loop.epoch_loop.total_batch_idx  # over all restarts
        return self.config.seed * 1_000_003 + batches_seen

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Seed the batch's draws, so that a resumed run goes on bit by bit."""
        torch.manual_seed(self.chance())

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip values, norm, both or nothing."""
        if self.clip_value:
            self.clip_gradients(optimizer, self.clip_value, "value")
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @staticmethod
    def check_validation(loss: float, updates: int) -> None:
        """Raise ``Diverged`` for a validation loss that is not finite."""
        if not math.isfinite(loss):
            raise Diverged(f"the validation loss was {loss} after {updates} updates")

    def final_weights(self, checkpoints: Sequence[Path]) -> tuple[dict[str, Tensor], str]:
        """The weights that a phase ends with, and a sentence on how they came about.

        Args:
            checkpoints: those of the phase that are kept and can be read, oldest first.
        """
        names = ", ".join(path.name for path in checkpoints)
        return average_checkpoints(checkpoints), f"averaged {names}"

    def earlier_weights(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Weights of earlier phases that are kept beside the final ones, by the phase's name."""
        return {}

    def evaluate(self, data: Any, split: str = "test") -> Evaluation:
        """Score a split."""
        raise NotImplementedError

    def predictions(self, data: Any, split: str) -> Evaluation:
        """What the model says of a split; scores may be left out."""
        return self.evaluate(data, split)

    def prediction_files(self, data: Any, split: str) -> PredictionFiles | None:
        """The same as one file an item; None where ``predictions`` has them in a single file."""
        return None

    def attention_maps(self, data: Any, split: str, item: str) -> dict[str, AttentionMap]:
        """Attention weights of one item, by the name of the place, e.g. ``text from audio``.

        Args:
            data: the task's data module.
            split: of the data set.
            item: what an item is called in its split, or its position from 0.

        Raises:
            ConfigError: there is no such item, or this task can't tell its attention.
            DataError: there is no such split.
        """
        raise ConfigError("this task doesn't tell its attention weights, so they can't be drawn")

    def picture(self, data: Any, split: str, item: str) -> ImagePicture | None:
        """What the model says of one image, beside the truth; None where items are no images.

        Args and errors: as of ``attention_maps``.
        """
        return None

    def cell_view(self, data: Any, split: str, item: str, choice: CellChoice) -> CellView:
        """Where one cell of a feature map looks in one image.

        Args:
            data, split, item: as of ``attention_maps``.
            choice: the cell.

        Raises:
            ConfigError: there is no such item, layer or cell, or this task has no feature maps.
            DataError: there is no such split.
        """
        raise ConfigError(
            "this task has no feature maps over images: leave out --cell and --pixel, and "
            "attention is drawn as a map of queries and keys"
        )
