"""Parameters and multiply-accumulates of the detector and the segmenter, for one image.

Counted over the real modules on the meta device, at the sizes behind the GFLOPs that "An Empirical
Study of Spatial Attention Mechanisms in Deep Networks" (Zhu et al., ICCV 2019) prints in Tables 2
and 3, or at a configuration's own sizes where they are others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..models.detector import Detector
from ..models.segmenter import Segmenter
from .cost import CostReport, cost_report

if TYPE_CHECKING:
    from .detection_config import DetectionConfig
    from .segmentation_config import SegmentationConfig

CLASSES = {"coco": 80, "bccd": 3, "cityscapes": 19, "camvid": 11}
"""Classes of the data sets; others are counted with as many as COCO or Cityscapes has."""

STRIDE = 32
"""Images are padded to a multiple of this many pixels for detection."""

CELL = 8
"""Side of a cell of the dilated backbone's map, in pixels."""


def detection_cost(config: DetectionConfig) -> CostReport:
    """Cost of detection in one image of ``min_size`` x ``max_size``, in inference.

    The backbone, the feature pyramid and the head that proposes run on the padded image, and the
    box head on as many proposals as inference keeps. What depends on the content is left out:
    choosing among boxes has no multiply-accumulates that are counted.
    """
    height, width = (-(-size // STRIDE) * STRIDE for size in (config.min_size, config.max_size))
    proposals = config.rpn_test_proposals
    settings = config.network(CLASSES.get(config.dataset, CLASSES["coco"]))
    with torch.device("meta"), torch.no_grad():
        model = Detector(settings.model_copy(update={"weights": None})).eval()
        if config.weights is not None:
            model.body.freeze(5 - config.trainable_stages)
        image_B3HW = torch.empty(1, 3, height, width)
        rpn: Any = model.rpn
        heads: Any = model.roi_heads
        side = heads.box_roi_pool.output_size
        pooled_PCHW = torch.empty(proposals, config.fpn_channels, *side)

        def run() -> tuple[Tensor, Tensor]:
            rpn.head(list(model.backbone(image_B3HW).values()))
            return heads.box_predictor(heads.box_head(pooled_PCHW))

        note = (
            f"one image of {config.min_size}x{config.max_size} padded to {height}x{width}, "
            f"{proposals} proposals"
        )
        return cost_report(model, run, 1, note)


def segmentation_cost(config: SegmentationConfig) -> CostReport:
    """Cost of segmenting one crop, in inference, so without the auxiliary classifier.

    Crops of 8 n + 1 pixels, such as CCNet's 769, count as 8 n: the printed costs are those of
    96 x 96 positions.
    """
    height, width = (_whole_cells(size) for size in (config.crop_height, config.crop_width))
    settings = config.network(CLASSES.get(config.dataset, CLASSES["cityscapes"]))
    with torch.device("meta"), torch.no_grad():
        model = Segmenter(settings.model_copy(update={"weights": None})).eval()
        image_B3HW = torch.empty(1, 3, height, width)

        def run() -> dict[str, Tensor]:
            return model(image_B3HW)

        note = f"one crop of {height}x{width}"
        if (height, width) != (config.crop_height, config.crop_width):
            note += f", for {config.crop_height}x{config.crop_width}"
        return cost_report(model, run, 1, note)


def _whole_cells(size: int) -> int:
    return size - 1 if size > CELL and size % CELL == 1 else size
