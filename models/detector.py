"""Faster R-CNN with a feature pyramid on an attended ResNet.

"Feature Pyramid Networks for Object Detection" (Lin et al., CVPR 2017) as torchvision has it, with
the residual blocks of "An Empirical Study of Spatial Attention Mechanisms in Deep Networks" (Zhu
et al., ICCV 2019). The state dict has the names of torchvision's ``fasterrcnn_resnet50_fpn``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.faster_rcnn import TwoMLPHead
from torchvision.ops import FeaturePyramidNetwork, clip_boxes_to_image
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from .backbones import AttendedResNet
from .image_config import DetectorConfig
from .layers.detection import Anchors, BoxPool, BoxPredictor, ProposalHead, Resize


class Pyramid(nn.Module):
    """The backbone with the feature pyramid on top: maps ``0`` to ``3`` and ``pool``."""

    def __init__(self, body: AttendedResNet, channels: int) -> None:
        super().__init__()
        self.body = body
        self.fpn = FeaturePyramidNetwork(
            list(body.channels.values()), channels, extra_blocks=LastLevelMaxPool()
        )
        self.out_channels = channels

    def forward(
        self, image_B3HW: Tensor, sizes: Sequence[tuple[int, int]] | None = None
    ) -> dict[str, Tensor]:
        """The levels, of strides 4, 8, 16, 32 and 64; ``sizes`` hides padding from attention."""
        maps = self.body(image_B3HW, sizes)
        return self.fpn(OrderedDict((str(i), x) for i, x in enumerate(maps.values())))


class Detector(FasterRCNN):
    """Boxes from images; built from a ``DetectorConfig``.

    Attention reads the cells that are padding, as in the public code, which sees zeros there
    (the mean colour); ``mask_padding`` hides them.

    Raises:
        SpecError, SiteError: from the attention spec.
        WeightsError: from the file of weights.
    """

    def __init__(self, config: DetectorConfig) -> None:
        body = AttendedResNet(
            config.resnet,
            config.backbone,
            heads=config.heads,
            stages=config.attended_stages,
            key_stride=config.key_stride,
            query_stride=config.query_stride,
            gate=config.gate,
            dropout=config.attention_dropout,
            norm=config.batch_norm,
            weights=config.weights,
        )
        if config.weights is not None:
            body.freeze(5 - config.trainable_stages)
        anchors = Anchors(config.anchor_sizes)
        pool = BoxPool(2, 5, side=7)
        head = TwoMLPHead(config.fpn_channels * 7**2, config.box_head_dim)
        super().__init__(
            Pyramid(body, config.fpn_channels),
            rpn_anchor_generator=anchors,
            rpn_head=ProposalHead(config.fpn_channels, anchors.num_anchors_per_location()[0]),
            rpn_pre_nms_top_n_train=config.rpn_train_proposals,
            rpn_post_nms_top_n_train=config.rpn_train_proposals,
            rpn_pre_nms_top_n_test=config.rpn_test_proposals,
            rpn_post_nms_top_n_test=config.rpn_test_proposals,
            rpn_batch_size_per_image=config.rpn_samples,
            box_roi_pool=pool,
            box_head=head,
            box_predictor=BoxPredictor(config.box_head_dim, config.classes + 1),
            box_score_thresh=config.score_threshold,
            box_nms_thresh=config.nms_threshold,
            box_detections_per_img=config.detections_per_image,
            box_batch_size_per_image=config.box_samples,
        )
        self.config = config
        self.transform = Resize(config.min_size, config.max_size)

    @property
    def body(self) -> AttendedResNet:
        """The attended ResNet."""
        return self.backbone.body  # type: ignore[return-value]

    def forward(  # type: ignore[override]
        self,
        images: Sequence[Tensor],
        targets: Sequence[Mapping[str, Tensor]] | None = None,
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """Losses in training, else detections.

        Args:
            images: (3, H, W) each, floating point, 0 to 1, of any sizes.
            targets: for each image ``boxes`` (N, 4), x1, y1, x2, y2 in pixels of the given image,
                and ``labels`` (N,) long from 1 on (0 is the background); N may be 0.

        Returns:
            In training the losses ``loss_objectness``, ``loss_rpn_box_reg``, ``loss_classifier``
            and ``loss_box_reg``. Else for each image ``boxes`` (N, 4) in pixels of the given image
            and inside it, ``labels`` (N,) and ``scores`` (N,), best first; N may be 0.

        Raises:
            ValueError: training without targets, or with a box without area.
        """
        if self.training and targets is None:
            raise ValueError("a detector in training mode needs targets: pass them, or call eval()")
        given = [(int(image.shape[-2]), int(image.shape[-1])) for image in images]
        wanted = None if targets is None else [_target(target) for target in targets]
        if wanted is not None:
            _check_boxes([target["boxes"] for target in wanted])
        batch, wanted = self.transform(list(images), wanted)
        maps = self.backbone(batch.tensors, batch.image_sizes if self.config.mask_padding else None)
        proposals, proposal_losses = self.rpn(batch, maps, wanted)
        found, box_losses = self.roi_heads(maps, proposals, batch.image_sizes, wanted)
        if self.training:
            return {**proposal_losses, **box_losses}
        found = self.transform.postprocess(found, batch.image_sizes, given)
        for one, size in zip(found, given, strict=True):
            one["boxes"] = clip_boxes_to_image(one["boxes"], size)
        return found


def _target(target: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"boxes": target["boxes"], "labels": target["labels"]}


def _check_boxes(boxes: Sequence[Tensor]) -> None:
    """One look at all boxes of the batch: a box without area has no logarithm of its sides."""
    all_N4 = torch.cat(list(boxes))
    if bool((all_N4[:, 2:] <= all_N4[:, :2]).any()):
        raise ValueError("a target box has no area: leave out boxes whose width or height is 0")
