"""The captioning task: a ``Captioner`` trained with cross-entropy, then on its own CIDEr-D."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ..datamodules.caption_batch import CaptionBatch
from ..datamodules.captions import CaptionData
from ..models.captioner import Captioner
from ..models.decoding import DecodingError, LengthPenalty, beam_search
from ..models.layers import projected_cross_entropy
from .attention_maps import batch_of, encoder_decoder_maps, find_item
from .captioning_config import CAPTIONING_SITES, CaptioningConfig
from .cost import CostReport, cost_report
from .errors import ConfigError, Diverged
from .metrics.captions import caption_scores
from .metrics.captions.text import ONE_IMAGE
from .metrics.positions import position_accuracy
from .module import AttentionMap, Evaluation, Phase, TaskModule
from .optimizers import adam, by_update
from .schedules import ngsan_factor, schedule_factor
from .scst import END, Rewards, image_of, self_critical_loss
from .side_by_side import side_by_side

CROSS_ENTROPY = "cross-entropy"
SELF_CRITICAL = "self-critical"

PUBLISHED_SYMBOLS = 9488
"""Rows of the published models' output: 9,487 words of COCO and the end."""

COST_REGIONS, COST_WORDS = 36, 17
"""Regions and positions (16 words and the end) at which costs are counted."""

FORWARD_AND_BACKWARD = 3
"""Forward passes that a training step is worth."""


class CaptioningTask(TaskModule):
    """Trains on ``CaptionBatch`` in two phases and describes the images of whole splits.

    Args:
        config: all settings.
        feature_dim: numbers of a region.
        symbols: size of the vocabulary, the end included.
    """

    def __init__(self, config: CaptioningConfig, feature_dim: int, symbols: int) -> None:
        super().__init__()
        self.config = config
        self.clip_value = config.clip_value
        self.model = Captioner(config.captioner(feature_dim, symbols))
        self.phase = CROSS_ENTROPY
        self._rewards: Rewards | None = None
        self._cross_entropy: dict[str, Tensor] | None = None

    def begin_phase(self, phase: Phase, data: CaptionData) -> None:
        """Choose the objective; the second phase keeps the weights that it begins with."""
        self.phase = phase.name
        self.train()  # a phase may follow an evaluation
        if self.phase == SELF_CRITICAL:
            self._rewards = Rewards.of(self.config, data)
            weights = self.state_dict()
            self._cross_entropy = {name: each.cpu().clone() for name, each in weights.items()}

    def earlier_weights(self) -> dict[str, dict[str, Tensor]]:
        """The weights at the end of cross-entropy training, where a second phase followed."""
        return {} if self._cross_entropy is None else {CROSS_ENTROPY: self._cross_entropy}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam anew for each phase; parameters with ``lr_scale`` learn at that multiple."""
        config = self.config
        xe = self.phase == CROSS_ENTROPY
        optimizer = adam(
            self.model, config, config.learning_rate if xe else config.scst_learning_rate
        )
        if not xe:
            return {"optimizer": optimizer}
        return by_update(optimizer, self._factor())

    def _factor(self) -> Any:
        """Factor of the first phase's peak rate by update."""
        config = self.config
        if config.schedule != "ngsan":
            return schedule_factor(config.schedule, config.warmup_steps, config.xe_steps)
        self.trainer.fit_loop.setup_data()
        batches = int(self.trainer.num_training_batches)
        return partial(ngsan_factor, epoch_steps=-(-batches // config.accumulate))

    def chance(self) -> int:
        """As in ``TaskModule``, with draws of its own for each phase."""
        phase = self.phase == SELF_CRITICAL
        return super().chance() + (self.config.seed + phase) * 1_000_003

    def loss(self, batch: CaptionBatch, smoothing: float) -> Tensor:
        """Mean cross-entropy of a word or end in nats, over all captions of all images."""
        features_BCTD = self.model.features(input_BCT=batch.input_BCT, **image_of(batch))
        return projected_cross_entropy(
            features_BCTD[batch.token_valid_BCT],
            self.model.output.weight,
            batch.output_BCT[batch.token_valid_BCT],
            bias_V=self.model.output.bias,
            smoothing=smoothing,
        )

    def training_step(self, batch: CaptionBatch, batch_idx: int) -> Tensor:
        """The phase's loss; raises ``Diverged`` if it is not finite."""
        if self.phase == SELF_CRITICAL:
            loss = self._self_critical(batch)
        else:
            loss = self.loss(batch, self.config.label_smoothing)
            self.log("train/loss", loss.detach(), batch_size=batch.tokens)
        if batch_idx % 20 == 0 and not torch.isfinite(loss):  # reading the loss waits for a GPU
            name = "scst_learning_rate" if self.phase == SELF_CRITICAL else "learning_rate"
            raise Diverged(
                f"the {self.phase} loss was {float(loss.detach())} after {self.global_step} "
                f"updates: lower {name} ({getattr(self.config, name):.2g})"
            )
        return loss

    def _self_critical(self, batch: CaptionBatch) -> Tensor:
        """The policy-gradient loss, with reward, baseline and their difference logged apart."""
        assert self._rewards is not None, "begin_phase prepares the rewards"
        try:
            step = self_critical_loss(self.model, batch, self._rewards, self.config, self.chance())
        except DecodingError as error:
            raise Diverged(
                f"after {self.global_step} self-critical updates {error}: lower scst_learning_rate "
                f"({self.config.scst_learning_rate:.2g})"
            ) from error
        for name in ("reward", "baseline", "advantage"):
            self.log(f"train/{name}", getattr(step, name), batch_size=len(batch))
        return step.loss

    def validation_step(self, batch: CaptionBatch, batch_idx: int) -> None:
        """Plain cross-entropy in nats a word."""
        self.log("val/loss", self.loss(batch, 0.0), batch_size=batch.tokens, sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        """A validation loss that is not finite stops the run as diverged."""
        loss = float(self.trainer.callback_metrics["val/loss"])
        self.check_validation(loss, self.global_step)

    @torch.inference_mode()
    def describe(self, batch: CaptionBatch) -> list[list[int]]:
        """The best caption of each image by beam search, as word ids without the end."""
        config = self.config
        found = beam_search(
            self.model,
            self.model.start(**image_of(batch)),
            items=len(batch),
            width=config.beam,
            bos=END,
            eos=END,
            pad=None,
            max_length_I=config.max_words,
            length_penalty=LengthPenalty("power", config.length_alpha),
            device=batch.features_BNF.device,
        )
        return [list(best[0].tokens)[:-1] for best in found]

    def describe_all(self, batches: Iterable[CaptionBatch]) -> dict[int, list[int]]:
        """The best caption of each image, by its position in the split."""

        def images(batch: CaptionBatch) -> Iterable[tuple[int, list[int]]]:
            return zip(batch.index_B.tolist(), self.describe(batch.to(self.device)), strict=True)

        return dict(chain.from_iterable(side_by_side(images, batches, self.device)))

    def predict(self, data: CaptionData, split: str = "test") -> list[str]:
        """A caption of each image of a split, in its order."""
        self.eval()
        said = self.describe_all(data.predict_dataloader(split))
        return [data.decode(said[place]) for place in range(len(said))]

    def evaluate(self, data: CaptionData, split: str = "test") -> Evaluation:
        """Describe a split by free-running beam search and score it.

        After self-critical training the weights that it began with are scored too, as ``xe_…``.
        Predictions are entries of COCO's result format, by the final weights.
        """
        captions = self.predict(data, split)
        metrics, texts = self._scores(captions, data.references(split))
        if self._cross_entropy is not None:
            final = {name: each.cpu().clone() for name, each in self.state_dict().items()}
            self.load_state_dict(self._cross_entropy)
            earlier = self._scores(self.predict(data, split), data.references(split))
            self.load_state_dict(final)
            metrics |= {f"xe_{name}": value for name, value in earlier[0].items()}
            texts |= {f"xe_{name}": text for name, text in earlier[1].items()}
        if self._rewards is not None:
            texts["reward"] = self._rewards.signature
        missing = {name for name, value in metrics.items() if value is None}
        return replace(
            _said(captions, data.image_ids(split)),
            metrics=metrics,
            signatures={name: text for name, text in texts.items() if name not in missing},
            reasons={name: texts[name] for name in missing} | _warned(metrics, len(captions)),
        )

    def predictions(self, data: CaptionData, split: str) -> Evaluation:
        """A caption of each image of a split, not scored."""
        return _said(self.predict(data, split), data.image_ids(split))

    def attention_maps(self, data: CaptionData, split: str, item: str) -> dict[str, AttentionMap]:
        """All weights over the model's own caption: each row is for the word to be said next."""
        self.eval()
        position = find_item(item, data.image_ids(split), split)
        batch = batch_of(data.predict_dataloader(split), position).to(self.device)
        said = [*self.describe(batch)[0], END]
        input_11T = torch.tensor([[[END, *said[:-1]]]], device=self.device)
        regions = int(batch.valid_BN.sum())
        words = ["(end)", *data.vocabulary.words]
        return encoder_decoder_maps(
            self.model,
            {site: getattr(self.config, site) for site in CAPTIONING_SITES},
            lambda: self.model.features(input_BCT=input_11T, **image_of(batch)),
            ("regions", [str(number) for number in range(regions)]),
            ("words", ["(start)", *(words[i] for i in said[:-1])], [words[i] for i in said]),
        )

    def _scores(
        self, captions: list[str], references: list[list[str]]
    ) -> tuple[dict[str, float | None], dict[str, str]]:
        """All metrics, and for each its signature, or the reason why there is none."""
        metrics, texts = caption_scores(captions, references, self.config.java_metrics)
        if self.config.dataset == "demo":
            metrics["position_accuracy"] = position_accuracy(captions, references)
            texts["position_accuracy"] = f"images:{len(captions)}"
        decoding = f"|beam:{self.config.beam}|alpha:{self.config.length_alpha:g}"
        had = {name for name, value in metrics.items() if value is not None}
        return metrics, {name: text + decoding * (name in had) for name, text in texts.items()}


def _said(captions: Sequence[str], image_ids: Sequence[int | str]) -> Evaluation:
    """Captions in COCO's result format, ``[{"image_id": …, "caption": …}, …]``."""
    results = [
        {"image_id": image, "caption": caption}
        for image, caption in zip(image_ids, captions, strict=True)
    ]
    return Evaluation({}, items=len(results), predictions=results, as_json=True)


def _warned(metrics: Iterable[str], images: int) -> dict[str, str]:
    """What the values of some metrics are to be read with."""
    cider = [name for name in metrics if name.removeprefix("xe_") in ("cider", "cider_d")]
    return dict.fromkeys(cider, ONE_IMAGE) if images == 1 else {}


def check_boxes(task: CaptioningTask, data: CaptionData) -> None:
    """Raise ConfigError where the model needs boxes and the features have none."""
    if not task.model.needs_boxes or data.has_boxes:
        return
    config = task.config
    what = (
        "absolute_geometry=true"
        if config.absolute_geometry
        else f"encoder_self={config.encoder_self}"
    )
    raise ConfigError(
        f"{what} needs a box for each region, and the features of {config.dataset} have none: "
        "give features with boxes, or a variant without geometry such as dot or nsa"
    )


def training_tokens(config: CaptioningConfig) -> float:
    """Positions that training goes over, as ``measure`` counts them.

    A self-critical update decodes its samples and a greedy caption, a forward pass each, and
    scores the samples again with gradient.
    """
    images = config.batch_size * config.accumulate
    xe = config.xe_steps * images * config.captions_per_image
    decoded = config.samples + (config.baseline == "greedy")
    scst = config.scst_steps * images * (config.samples + decoded / FORWARD_AND_BACKWARD)
    return (xe + scst) * COST_WORDS


def measure(config: CaptioningConfig) -> CostReport:
    """Cost of one caption of 16 words for one image of 36 regions, with the published vocabulary.

    All layers count, the projection onto 9,488 symbols too; embeddings are look-ups.
    """
    with torch.device("meta"):
        model = Captioner(config.captioner(2048, PUBLISHED_SYMBOLS)).eval()
        features_1NF = torch.ones(1, COST_REGIONS, 2048)
        valid_1N = torch.ones(1, COST_REGIONS, dtype=torch.bool)
        boxes_1N4 = torch.ones(1, COST_REGIONS, 4)
        input_11T = torch.ones(1, 1, COST_WORDS, dtype=torch.long)
        return cost_report(
            model,
            lambda: model(features_1NF, valid_1N, boxes_1N4, input_11T),
            COST_WORDS,
            f"one image of {COST_REGIONS} regions of 2,048 numbers with one caption of "
            f"{COST_WORDS - 1} words, {PUBLISHED_SYMBOLS:,} symbols",
        )
