"""Cross-entropy of pixels, with ignored ones left out, and online hard example mining."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .metrics.segmentation import IGNORED


def pixel_cross_entropy(
    logits_BKHW: Tensor, labels_BHW: Tensor, weights_K: Tensor | None = None
) -> Tensor:
    """Mean cross-entropy in nats over the labelled pixels; 0 where there is none.

    With ``weights_K`` each pixel counts as much as its class weighs, also in what is divided by.
    """
    total = F.cross_entropy(
        logits_BKHW, labels_BHW, weights_K, ignore_index=IGNORED, reduction="sum"
    )
    counted_BHW = labels_BHW != IGNORED
    if weights_K is None:
        return total / counted_BHW.sum().clamp(min=1)
    weight = weights_K[labels_BHW[counted_BHW]].sum()
    return total / torch.where(weight > 0, weight, torch.ones_like(weight))


def balancing_weights(pixels_K: Sequence[int], power: float) -> Tensor:
    """Weights ``(median frequency / frequency of the class) ** power`` (K,), float32.

    Power 1 is the median frequency balancing that "SegNet" (Badrinarayanan et al., TPAMI 2017,
    section 3) takes from Eigen and Fergus (ICCV 2015), with frequencies over all pixels. Classes
    without a pixel weigh 1.

    Args:
        pixels_K: training pixels of each class.
        power: 0 to weigh all alike.
    """
    pixels = torch.tensor(pixels_K, dtype=torch.float64)
    there = pixels > 0
    if not there.any():
        return torch.ones(len(pixels))
    median = pixels[there].quantile(0.5)
    return torch.where(there, median / pixels.clamp_min(1), 1.0).pow(power).float()


def hard_labels(
    logits_BKHW: Tensor, labels_BHW: Tensor, *, threshold: float, min_kept: int
) -> Tensor:
    """The labels with all easy pixels ignored: online hard example mining.

    "Training Region-based Object Detectors with Online Hard Example Mining" (Shrivastava et al.,
    CVPR 2016) as CCNet's public code has it for pixels: those whose true class gets at most
    ``threshold`` count, and at least the ``min_kept`` hardest of the batch. The code finds the
    latter on maps of an eighth of the size; here it is over all pixels.

    Args:
        logits_BKHW: of K classes.
        labels_BHW: class indices, 255 where ignored.
        threshold: a probability.
        min_kept: number of pixels; with fewer labelled ones all are kept.
    """
    with torch.no_grad():
        counted_BHW = labels_BHW != IGNORED
        # Minus the cross-entropy is the true class's log-probability.
        easy_BHW = (
            -F.cross_entropy(
                logits_BKHW.float(), labels_BHW, ignore_index=IGNORED, reduction="none"
            )
        ).exp()
        easy_N = easy_BHW[counted_BHW]
        if len(easy_N) <= min_kept:
            return labels_BHW
        limit = easy_N.new_tensor(threshold)
        if min_kept:
            limit = torch.maximum(limit, easy_N.kthvalue(min_kept).values)
        return torch.where(counted_BHW & (easy_BHW > limit), IGNORED, labels_BHW)
