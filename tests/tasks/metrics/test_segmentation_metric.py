"""Scores of segmentation equal the official script, CCNet's rule and a slow reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from attnbench.tasks.metrics.segmentation import Confusion, segmentation_scores
from tests.shared import golden_dir


def scores(
    predictions: list[Any], labels: list[Any], classes: int, names: list[str] | None = None
) -> Any:
    metric = Confusion(classes)
    for prediction, label in zip(predictions, labels, strict=True):
        metric.update(torch.as_tensor(prediction), torch.as_tensor(label))
    return segmentation_scores(metric.compute(), names or [f"c{k}" for k in range(classes)])


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads((golden_dir() / "metrics" / "miou_cityscapes_rule.json").read_text())


def trained_ids(golden: dict[str, Any], maps: str) -> list[np.ndarray]:
    """The maps of the file in class indices, 255 for all other ids."""
    table = np.array(golden["label_id_to_train_id"])
    return [table[np.array(ids)] for ids in golden[maps]]


def test_the_official_rule_is_that_of_the_script(golden: dict[str, Any]) -> None:
    """Predictions with an ignored id are misses; classes that are nowhere are skipped."""
    official = golden["official"]
    ids = [i for i, train in enumerate(golden["label_id_to_train_id"]) if train != 255]
    names = [list(official["class_iou"])[i] for i in ids]
    predictions = trained_ids(golden, "prediction_label_ids")
    labels = trained_ids(golden, "ground_truth_label_ids")
    found = scores(predictions, labels, len(ids), names)
    assert found.values["miou"] == pytest.approx(100 * official["mean_class_iou"], abs=1e-9)
    for name in names:
        expected, key = official["class_iou"][name], f"iou_{name.replace(' ', '_')}"
        if expected is None:
            assert found.values[key] is None and "neither" in found.reasons[key]
        else:
            assert found.values[key] == pytest.approx(100 * expected, abs=1e-9)
    alone = [
        scores([p], [t], len(ids)).values["miou"] for p, t in zip(predictions, labels, strict=True)
    ]
    expected = official["mean_class_iou_per_image_alone"]
    assert alone == pytest.approx([100 * each for each in expected], abs=1e-9)


def test_the_rule_of_ccnet_counts_absent_classes_as_0(golden: dict[str, Any]) -> None:
    block = golden["absent_counts_as_zero_rule_19_train_ids"]
    predictions = [np.where(p == 255, 0, p) for p in trained_ids(golden, "prediction_label_ids")]
    labels = trained_ids(golden, "ground_truth_label_ids")
    metric = Confusion(19)
    for prediction, label in zip(predictions, labels, strict=True):
        metric.update(torch.from_numpy(prediction), torch.from_numpy(label))
    assert metric.compute()[:, :-1].tolist() == block["confusion_gt_row_pred_column"]
    found = segmentation_scores(metric.compute(), [str(k) for k in range(19)]).values
    assert found["miou_absent0"] == pytest.approx(100 * block["mean_iou"], abs=1e-9)
    assert found["miou"] == pytest.approx(100 * block["mean_iou_present_only"], abs=1e-9)
    ious = [found[f"iou_{k}"] or 0.0 for k in range(19)]
    assert ious == pytest.approx([100 * iou for iou in block["iou"]], abs=1e-9)


def test_a_slow_reference_agrees() -> None:
    chance = np.random.default_rng(0)
    labels = [chance.integers(0, 5, (7, 9)) for _ in range(4)]
    predictions = [np.where(chance.random((7, 9)) < 0.5, t, chance.integers(0, 6, (7, 9)))
                   for t in labels]  # fmt: skip
    for label in labels:
        label[chance.random((7, 9)) < 0.2] = 255
    pairs = [
        (t, p)
        for label, prediction in zip(labels, predictions, strict=True)
        for t, p in zip(label.ravel().tolist(), prediction.ravel().tolist(), strict=True)
        if t != 255
    ]
    found = scores(predictions, labels, 7).values  # class 6 is nowhere, 5 only predicted
    ious, accuracies = [], []
    for k in range(6):
        both = sum(t == p == k for t, p in pairs)
        ious.append(100 * both / sum(k in (t, p) for t, p in pairs))
        if true := sum(t == k for t, _ in pairs):
            accuracies.append(100 * both / true)
    assert [found[f"iou_c{k}"] for k in range(6)] == pytest.approx(ious)
    assert found["iou_c6"] is None and ious[5] == 0
    assert found["miou"] == pytest.approx(sum(ious) / 6)
    assert found["miou_absent0"] == pytest.approx(sum(ious) / 7)
    right = sum(t == p for t, p in pairs)
    assert found["pixel_accuracy"] == pytest.approx(100 * right / len(pairs))
    assert found["mean_accuracy"] == pytest.approx(sum(accuracies) / 5)


def test_nothing_labelled_is_undefined_and_says_so() -> None:
    found = scores([torch.zeros(2, 3)], [torch.full((2, 3), 255)], 3)
    assert set(found.values.values()) == {None} and set(found.reasons) == set(found.values)
    assert "no labelled pixel" in found.reasons["miou"] and found.pixels == 0


@pytest.mark.parametrize(
    ("prediction", "label", "told"),
    [
        ([[0, 1]], [[0, 3]], "labels hold 0 to 3, and there are 3 classes"),
        ([[0, 4]], [[0, 1]], "prediction hold"),
        ([[0, 1, 1]], [[0, 1]], "at one size"),
    ],
)
def test_other_values_or_sizes_are_refused(prediction: Any, label: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        scores([prediction], [label], 3)


def test_parts_of_a_set_sum_to_the_whole() -> None:
    """As the metric is reduced over processes."""
    chance = torch.Generator().manual_seed(0)
    maps = torch.randint(0, 4, (2, 6, 5, 5), generator=chance)
    whole, parts = Confusion(4), [Confusion(4), Confusion(4)]
    whole.update(*maps)
    for number, part in enumerate(parts):
        part.update(*maps[:, 3 * number : 3 * number + 3])
    parts[0].merge_state(parts[1])
    assert torch.equal(whole.compute(), parts[0].compute())
    assert whole.compute().dtype == torch.int64
