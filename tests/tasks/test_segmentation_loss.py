"""Classes weighed by how rare they are."""

import pytest
import torch
import torch.nn.functional as F

from attnbench.tasks.segmentation_loss import balancing_weights, pixel_cross_entropy


def test_median_frequency_balancing_makes_rare_classes_weigh_more() -> None:
    weights = balancing_weights([100, 400, 25, 0], 1.0)
    assert weights.tolist() == pytest.approx([1.0, 0.25, 4.0, 1.0])
    assert balancing_weights([100, 400, 25, 0], 0.5).tolist() == pytest.approx([1.0, 0.5, 2.0, 1.0])
    assert balancing_weights([100, 400, 25, 0], 0.0).tolist() == [1.0] * 4
    assert balancing_weights([0, 0], 1.0).tolist() == [1.0, 1.0]


def test_a_weighted_loss_is_the_weighted_mean_over_labelled_pixels() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, 7, requires_grad=True)
    labels = torch.randint(3, (2, 5, 7))
    labels[0, 0] = 255
    weights = torch.tensor([1.0, 0.5, 4.0])
    expected = F.cross_entropy(logits, labels, weights, ignore_index=255)
    torch.testing.assert_close(pixel_cross_entropy(logits, labels, weights), expected)
    nothing = pixel_cross_entropy(logits, torch.full_like(labels, 255), weights)
    nothing.backward()
    assert float(nothing) == 0
    assert torch.isfinite(logits.grad).all() if logits.grad is not None else False
