"""Cross-entropy of pixels, with ignored ones left out, and online hard example mining."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .metrics.segmentation import IGNORED


def pixel_cross_entropy(logits_BKHW: Tensor, labels_BHW: Tensor) -> Tensor:
    """Mean cross-entropy in nats over the labelled pixels; 0 where there is none."""
    total = F.cross_entropy(logits_BKHW, labels_BHW, ignore_index=IGNORED, reduction="sum")
    return total / (labels_BHW != IGNORED).sum().clamp(min=1)


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
