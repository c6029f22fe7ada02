"""The detection task: a ``Detector`` trained on boxes, scored by COCO's average precision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork

from ..datamodules.detection_batch import DetectionBatch
from ..datamodules.detection_records import DetectionImage
from ..models.backbones import WeightsError
from ..models.detector import Detector
from .cell_views import CellChoice, CellView, detector_view
from .detection_config import DetectionConfig
from .errors import ConfigError, Diverged
from .image_norms import enough_to_norm
from .image_pictures import ImagePicture, picture_of_boxes
from .metrics.detection import ImageBoxes, box_scores, boxes_of, in_order
from .module import Evaluation, TaskModule
from .optimizers import by_update, sgd_or_adamw
from .schedules import falling_factor, stepped_factor

if TYPE_CHECKING:
    from ..datamodules.detection import DetectionData

LOSSES = {
    "loss_objectness": "rpn_objectness",
    "loss_rpn_box_reg": "rpn_box",
    "loss_classifier": "box_class",
    "loss_box_reg": "box_box",
}
"""The four parts of the loss: torchvision's name, and the one that they are logged by."""

PIXEL_DECIMALS = 2
"""Of boxes in a file of results: a hundredth of a pixel."""

ANNOTATED_DECIMALS = 9
"""Of sides of annotated boxes: those of x + width - x that aren't rounding."""

_WITH_LOSSES = (Detector, GeneralizedRCNN, RegionProposalNetwork, RoIHeads)
"""Modules that give losses when they are told that they train."""


class DetectionTask(TaskModule):
    """Trains on ``DetectionBatch`` and finds objects in the images of whole splits.

    Args:
        config: all settings.
        classes: number of classes C; labels are 1 to C.

    Raises:
        ConfigError: the file of first weights can't be read or doesn't fit.
    """

    def __init__(self, config: DetectionConfig, classes: int) -> None:
        super().__init__()
        self.config = config
        self.clip_value = config.clip_value
        try:
            self.model = Detector(config.network(classes))
        except WeightsError as error:
            raise ConfigError(str(error)) from error

    def configure_optimizers(self) -> dict[str, Any]:
        """SGD or AdamW over what learns; parameters with ``lr_scale`` learn at that multiple."""
        config = self.config
        return by_update(sgd_or_adamw(self.model, config), rate_factor(config))

    def losses(self, batch: DetectionBatch) -> dict[str, Tensor]:
        """The four parts of the loss, by the names in ``LOSSES``; the model must be training."""
        targets = [{"boxes": t.boxes_N4, "labels": t.labels_N} for t in batch.targets]
        found = self.model(_as_floats(batch.images), targets)
        return {LOSSES[name]: loss for name, loss in found.items()}

    def training_step(self, batch: DetectionBatch, batch_idx: int) -> Tensor:
        """The sum of the four losses; raises ``Diverged`` if it is not finite."""
        with enough_to_norm("min_size and max_size"):
            losses = self.losses(batch)
        loss = torch.stack([*losses.values()]).sum()
        for name, value in {"loss": loss, **losses}.items():
            self.log(f"train/{name}", value.detach(), batch_size=len(batch))
        if (offset := mean_offset(self.model)) is not None:
            self.log("train/offset", offset, batch_size=len(batch))
        if not torch.isfinite(loss):
            parts = ", ".join(f"{name} {value.item():.3g}" for name, value in losses.items())
            raise Diverged(
                f"the loss was {float(loss.detach())} ({parts}) after {self.global_step} updates: "
                f"lower learning_rate ({self.config.learning_rate:.2g}), raise warmup_steps "
                f"({self.config.warmup_steps}) or set clip_norm"
            )
        return loss

    def validation_step(self, batch: DetectionBatch, batch_idx: int) -> None:
        """The losses of a batch, with norms as in evaluation and the same draws at every call."""
        with giving_losses(self.model), torch.random.fork_rng(_gpus(self.device)):
            torch.manual_seed(batch_idx)
            losses = self.losses(batch.without_crowds())
        losses["loss"] = torch.stack([*losses.values()]).sum()
        for name, value in losses.items():
            self.log(f"val/{name}", value, batch_size=len(batch), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        """A validation loss that is not finite stops the run as diverged."""
        loss = float(self.trainer.callback_metrics["val/loss"])
        self.check_validation(loss, self.global_step)

    @torch.inference_mode()
    def detect(self, batches: Iterable[DetectionBatch], data: DetectionData) -> list[dict]:
        """What the model finds, in COCO's result format, image by image and best first.

        Boxes are x, y, width and height in pixels of the stored image. Images go through the model
        one by one: beside larger ones they would be padded, which attention and convolutions see.

        Raises:
            Diverged: a weight isn't finite. torchvision would leave out all boxes without a word.
        """
        if not all(bool(weight.isfinite().all()) for weight in self.state_dict().values()):
            raise Diverged("the trained model has weights that aren't finite")
        self.eval()
        entries: list[dict] = []
        for batch in batches:
            images = _as_floats(batch.to(self.device).images)
            for image, pixels_3HW in zip(batch.image_ids, images, strict=True):
                (found,) = self.model([pixels_3HW], None)
                entries += _entries(image, found, data.category_ids)
        return entries

    def predictions(self, data: DetectionData, split: str) -> Evaluation:
        """COCO's result list for a split, not scored."""
        entries = self.detect(data.predict_dataloader(split), data)
        items = len(data.image_ids(split))
        return Evaluation({}, items=items, predictions=entries, as_json=True)

    def evaluate(self, data: DetectionData, split: str = "test") -> Evaluation:
        """Find objects in a split and score them, as they stand in the file of results."""
        said = self.predictions(data, split)
        found: dict[int | str, list[dict]] = {image: [] for image in data.image_ids(split)}
        for entry in said.predictions:
            found[entry["image_id"]].append(entry)
        truth = {image.id: image for image in data.images(split)}
        scores = box_scores(
            (boxes_of(found[image]), _truth(truth[image], data.category_ids))
            for image in in_order(truth)
        )
        of_class = dict(zip(data.category_ids, data.classes, strict=True))
        per_class = {f"box_ap/{of_class[i]}": ap for i, ap in scores.per_class.items()}
        signature = f"images:{scores.images} of {data.split_name(split)}"
        had = [name for name, value in scores.values.items() if value is not None]
        return Evaluation(
            scores.values | per_class,
            signatures=dict.fromkeys([*had, *per_class], signature),
            items=said.items,
            predictions=said.predictions,
            as_json=True,
            reasons=scores.reasons,
        )

    def picture(self, data: DetectionData, split: str, item: str) -> ImagePicture:
        """As in ``TaskModule``: boxes found beside the true ones."""
        return picture_of_boxes(self, data, split, item)

    def cell_view(self, data: DetectionData, split: str, item: str, choice: CellChoice) -> CellView:
        """As in ``TaskModule``."""
        return detector_view(self, data, split, item, choice)


def rate_factor(config: DetectionConfig) -> Any:
    """Factor of the peak rate by update."""
    if config.schedule != "steps":
        return falling_factor(
            config.schedule,
            config.warmup_steps,
            config.max_steps,
            warmup_start=config.warmup_start,
        )
    return stepped_factor(
        [round(share * config.max_steps) for share in config.milestones],
        config.milestone_factor,
        config.warmup_steps,
        config.warmup_start,
    )


@contextmanager
def giving_losses(model: nn.Module) -> Iterator[None]:
    """Let a detector give its losses while norms and dropout behave as in evaluation."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    for module in before:
        if isinstance(module, _WITH_LOSSES):
            module.training = True
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def mean_offset(model: nn.Module) -> Tensor | None:
    """Mean absolute offset of the deformable convolutions in their last pass, in cells."""
    offsets = [getattr(module, "offset_abs_mean", None) for module in model.modules()]
    known = [offset for offset in offsets if offset is not None]
    return torch.stack(known).mean() if known else None


def _as_floats(images: Sequence[Tensor]) -> list[Tensor]:
    """Images of bytes as numbers from 0 to 1."""
    return [image.float() / 255 for image in images]


def _entries(
    image: int | str, detections: dict[str, Tensor], category_ids: Sequence[int]
) -> list[dict]:
    """Detections of one image as entries of COCO's result format."""
    boxes_N4 = detections["boxes"].double()
    boxes_N4 = torch.cat((boxes_N4[:, :2], boxes_N4[:, 2:] - boxes_N4[:, :2]), 1)
    return [
        {
            "image_id": image,
            "category_id": category_ids[label - 1],
            "bbox": [round(number, PIXEL_DECIMALS) for number in box],
            "score": score,
        }
        for box, label, score in zip(
            boxes_N4.tolist(),
            detections["labels"].tolist(),
            detections["scores"].tolist(),
            strict=True,
        )
    ]


def _truth(image: DetectionImage, category_ids: Sequence[int]) -> ImageBoxes:
    """The boxes as annotated: in double precision, as the official code reads them."""
    boxes_N4 = torch.from_numpy(image.boxes_N4)
    sides_N2 = (boxes_N4[:, 2:] - boxes_N4[:, :2]).round(decimals=ANNOTATED_DECIMALS)
    return ImageBoxes(
        boxes_N4=torch.cat((boxes_N4[:, :2], sides_N2), 1),
        classes_N=torch.tensor([0, *category_ids])[torch.from_numpy(image.labels_N)],
        area_N=torch.from_numpy(image.area_N),
        crowd_N=torch.from_numpy(image.crowd_N),
    )


def _gpus(device: torch.device) -> list[torch.device]:
    """The GPUs whose random state must be kept."""
    return [device] if device.type == "cuda" else []
