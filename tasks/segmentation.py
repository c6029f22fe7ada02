"""The segmentation task: a ``Segmenter`` trained on crops, and scored on whole images."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..datamodules.segmentation_batch import SegmentationBatch
from ..models.backbones import WeightsError
from ..models.segmenter import Segmenter
from .cell_views import CellChoice, CellView, segmenter_view
from .errors import ConfigError, Diverged
from .image_norms import enough_to_norm
from .image_pictures import ImagePicture, picture_of_labels
from .metrics.segmentation import Confusion, segmentation_scores
from .module import Evaluation, Phase, PredictionFiles, TaskModule
from .optimizers import by_update, sgd_or_adamw
from .schedules import falling_factor
from .segmentation_config import SegmentationConfig
from .segmentation_loss import balancing_weights, hard_labels, pixel_cross_entropy
from .sliding import Model, flipped, sliding_logits

if TYPE_CHECKING:
    from ..datamodules.segmentation import SegmentationData


class SegmentationTask(TaskModule):
    """Trains on ``SegmentationBatch`` and names the class of every pixel of whole splits.

    Args:
        config: all settings.
        classes: their number K.

    Raises:
        ConfigError: the file of first weights can't be read or doesn't fit.
    """

    def __init__(self, config: SegmentationConfig, classes: int) -> None:
        super().__init__()
        self.config = config
        self.clip_value = config.clip_value
        try:
            self.model = Segmenter(config.network(classes))
        except WeightsError as error:
            raise ConfigError(str(error)) from error
        self.validated = Confusion(classes)
        self.weights_K: Tensor | None = None

    def begin_phase(self, phase: Phase, data: SegmentationData) -> None:
        """Weigh the classes by their pixels in training, where ``class_balance`` asks for it."""
        if self.config.class_balance:
            pixels_K = data.class_pixels("train")
            self.weights_K = balancing_weights(pixels_K, self.config.class_balance)

    def configure_optimizers(self) -> dict[str, Any]:
        """SGD or AdamW; parameters with ``lr_scale`` learn at that multiple of the rate."""
        config = self.config
        factor = falling_factor(
            config.schedule, config.warmup_steps, config.max_steps, config.power
        )
        return by_update(sgd_or_adamw(self.model, config), factor)

    def losses(self, batch: SegmentationBatch) -> dict[str, Tensor]:
        """Mean cross-entropy in nats a labelled pixel: ``main``, and ``auxiliary`` in training."""
        config, logits = self.config, self.model(batch.images_B3HW)
        if self.weights_K is not None:
            self.weights_K = self.weights_K.to(logits["out"].device)
        labels_BHW = batch.labels_BHW
        if config.ohem and self.training:
            labels_BHW = hard_labels(
                logits["out"],
                labels_BHW,
                threshold=config.ohem_threshold,
                min_kept=config.ohem_min_kept,
            )
        losses = {"main": pixel_cross_entropy(logits["out"], labels_BHW, self.weights_K)}
        if "aux" in logits:
            losses["auxiliary"] = pixel_cross_entropy(
                logits["aux"], batch.labels_BHW, self.weights_K
            )
        return losses

    def training_step(self, batch: SegmentationBatch, batch_idx: int) -> Tensor:
        """The weighted sum of the losses; raises ``Diverged`` if it is not finite.

        It is looked at in every 20th batch, and after each validation.
        """
        with enough_to_norm("crop_height and crop_width"):
            losses = self.losses(batch)
        loss = losses["main"]
        if "auxiliary" in losses:
            loss = loss + self.config.auxiliary_weight * losses["auxiliary"]
        parts = losses if len(losses) > 1 else {}
        for name, value in {"loss": loss, **parts}.items():
            self.log(f"train/{name}", value.detach(), batch_size=len(batch))
        if batch_idx % 20 == 0 and not torch.isfinite(loss):  # reading the loss waits for a GPU
            raise Diverged(
                f"the loss was {float(loss.detach())} after {self.global_step} updates: lower "
                f"learning_rate ({self.config.learning_rate:.2g}), or set warmup_steps or clip_norm"
            )
        return loss

    def validation_step(self, batch: SegmentationBatch, batch_idx: int) -> None:
        """Cross-entropy and confusion of whole images, seen at once whatever ``inference`` says."""
        logits_BKHW = self.model(batch.images_B3HW)["out"].float()
        loss = pixel_cross_entropy(logits_BKHW, batch.labels_BHW)
        self.log("val/loss", loss, batch_size=len(batch), sync_dist=True)
        self.validated.update(logits_BKHW.argmax(1), batch.labels_BHW)

    def on_validation_epoch_end(self) -> None:
        """mIoU of all; a validation loss that is not finite stops the run as diverged."""
        self.check_validation(float(self.trainer.callback_metrics["val/loss"]), self.global_step)
        confusion = self.validated.compute()
        self.validated.reset()
        names = [str(number) for number in range(len(confusion))]
        miou = segmentation_scores(confusion, names).values["miou"]
        if miou is not None:
            self.log("val/miou", miou)

    @torch.inference_mode()
    def logits(self, images_B3HW: Tensor) -> Tensor:
        """Logits (B, K, H, W) of normalised images, seen as ``inference`` and ``flip`` say."""
        config = self.config

        def model(images_B3HW: Tensor) -> Tensor:
            return self.model(images_B3HW)["out"].float()

        predict: Model = model
        if config.inference == "sliding":
            predict = partial(sliding_logits, model, window=config.window, overlap=config.overlap)
        return (flipped(predict) if config.flip else predict)(images_B3HW)

    def predict(self, data: SegmentationData, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Predicted and true classes (H, W) of each image of a split at its stored size, in order.

        Raises:
            Diverged: the model's numbers aren't finite.
        """
        self.eval()
        for batch in data.predict_dataloader(split):
            batch = batch.to(self.device)
            logits_BKHW = self.logits(batch.images_B3HW)
            if not logits_BKHW.isfinite().all():
                raise Diverged("the trained model gives numbers that aren't finite")
            yield from zip(logits_BKHW.argmax(1), batch.labels_BHW, strict=True)

    def evaluate(self, data: SegmentationData, split: str = "test") -> Evaluation:
        """Score a split by one confusion matrix of all its labelled pixels.

        Raises:
            DataError: the split has no labels, or none that counts.
        """
        data.check_labels(split)
        confusion, images = Confusion(len(data.classes)).to(self.device), 0
        for predicted_HW, labels_HW in self.predict(data, split):
            confusion.update(predicted_HW, labels_HW)
            images += 1
        scores = segmentation_scores(confusion.compute(), data.classes)
        seen = f"images:{images} of {data.find(split)}|pixels:{scores.pixels}"
        how = f"{seen}|{self.config.signature}"
        return Evaluation(
            scores.values,
            signatures={name: how for name in scores.values if name not in scores.reasons},
            items=images,
            reasons=scores.reasons,
            kept=False,
        )

    def prediction_files(self, data: SegmentationData, split: str) -> PredictionFiles:
        """A PNG an image, named as it and as large, that holds the values of the set's labels.

        Cityscapes' evaluation server takes such files: they are in labelIds, and their names
        begin with city, sequence and frame.
        """
        names = tuple(f"{name}.png" for name in data.names(split))
        values_K = np.array(data.label_ids, np.uint8 if max(data.label_ids) < 256 else np.uint16)
        said = (values_K[predicted.cpu().numpy()] for predicted, _ in self.predict(data, split))
        return PredictionFiles(names, map(_png, said))

    def picture(self, data: SegmentationData, split: str, item: str) -> ImagePicture:
        """As in ``TaskModule``: labels found beside the true ones."""
        return picture_of_labels(self, data, split, item)

    def cell_view(
        self, data: SegmentationData, split: str, item: str, choice: CellChoice
    ) -> CellView:
        """As in ``TaskModule``."""
        return segmenter_view(self, data, split, item, choice)


def _png(values_HW: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values_HW).save(buffer, format="PNG")
    return buffer.getvalue()
