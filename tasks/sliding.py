"""Logits of a whole image: at once, or window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

Model = Callable[[Tensor], Tensor]
"""Images (B, 3, H, W) to logits (B, K, H, W)."""


def sliding_logits(
    model: Model, image_13HW: Tensor, window: tuple[int, int], overlap: float
) -> Tensor:
    """Logits (1, K, H, W) from windows, averaged where windows overlap, as CCNet's code does.

    Windows stand ``ceil(size * (1 - overlap))`` pixels apart; the last one of a row or column ends
    with the image. An image smaller than the window is padded with zeros at its right and lower
    edge, and what is said of the padding is cut off. The code takes the distance from the height
    for both directions; here each side has its own, which is the same for square windows.

    Args:
        model: sees one window at a time.
        image_13HW: one normalised image.
        window: height and width.
        overlap: share of a window that the next one covers again, from 0 to below 1.
    """
    height, width = image_13HW.shape[2:]
    total_1KHW, seen_HW = None, image_13HW.new_zeros(height, width, dtype=torch.float32)
    for top, bottom in _spans(height, window[0], overlap):
        for left, right in _spans(width, window[1], overlap):
            part_13HW = image_13HW[:, :, top:bottom, left:right]
            padding = (0, window[1] - (right - left), 0, window[0] - (bottom - top))
            logits_1KHW = model(F.pad(part_13HW, padding)).float()
            logits_1KHW = logits_1KHW[:, :, : bottom - top, : right - left]
            if total_1KHW is None:
                total_1KHW = logits_1KHW.new_zeros(1, logits_1KHW.shape[1], height, width)
            total_1KHW[:, :, top:bottom, left:right] += logits_1KHW
            seen_HW[top:bottom, left:right] += 1
    assert total_1KHW is not None
    return total_1KHW / seen_HW


def flipped(predict: Model) -> Model:
    """The mean of the logits of an image and of its mirror image, mirrored back."""

    def both(image_13HW: Tensor) -> Tensor:
        mirrored_1KHW = predict(image_13HW.flip(-1))
        return (predict(image_13HW) + mirrored_1KHW.flip(-1)) / 2

    return both


def _spans(size: int, window: int, overlap: float) -> Iterator[tuple[int, int]]:
    """First pixel and the one after the last of each window along one side."""
    apart = math.ceil(window * (1 - overlap))
    for number in range(math.ceil(max(size - window, 0) / apart) + 1):
        end = min(number * apart + window, size)
        yield max(end - window, 0), end
