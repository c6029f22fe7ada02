"""COCO's average precision of boxes: the reference tools' numbers, and corners of the data."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from attnbench.benchmarks.columns import COLUMNS
from attnbench.results.glossary import METRICS
from attnbench.tasks.metrics.detection import (
    NAMES,
    SIZES,
    BoxScores,
    coco_box_scores,
    in_order,
)
from tests.shared import data_dir, golden_dir


def cases() -> list[tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any]]]:
    """Truth, results and expected scores of every golden file, with and without crowds."""
    found = []
    for file in sorted((golden_dir() / "metrics").glob("coco_ap*.json")):
        values = json.loads(file.read_text())
        truth, results = values["ground_truth"], values["detections"]
        bare = [{**entry, "iscrowd": 0} for entry in truth["annotations"]]
        found.append((file.stem, truth, results, values["scores"]))
        expected = values["scores_if_crowd_flags_were_zero"]
        found.append((f"{file.stem} bare", {**truth, "annotations": bare}, results, expected))
    return found


def test_golden_values_are_met_exactly() -> None:
    checked = cases()
    assert checked
    for name, truth, results, expected in checked:
        scores = coco_box_scores(truth, results)
        for metric, share in zip(NAMES, expected["stats_12"], strict=True):
            value = scores.values[metric]
            if share < 0:
                assert value is None and scores.reasons[metric], (name, metric)
            else:
                assert value == pytest.approx(100 * share, abs=1e-9), (name, metric)
        per_class = {int(c): 100 * ap for c, ap in expected["AP_per_category"].items() if ap >= 0}
        assert scores.per_class == pytest.approx(per_class, abs=1e-9), name


def test_the_official_example_has_its_published_value_in_good_time() -> None:
    folder = data_dir() / "detection" / "coco_eval"
    truth = json.loads((folder / "instances_val2014_100.json").read_text())
    results = json.loads((folder / "instances_val2014_fakebbox100_results.json").read_text())
    coco_box_scores(truth, [])  # libraries are loaded
    began = time.process_time()
    scores = coco_box_scores(truth, results)
    assert time.process_time() - began < 2
    assert scores.images == 100
    assert round(scores.values["box_ap"] or 0, 1) == 50.5
    assert round(scores.values["box_ap50"] or 0, 1) == 69.7


def one(x: float, width: float, **rest: Any) -> dict[str, Any]:
    """An entry with a box of 100 pixels height."""
    area = 100 * width
    entry = {"image_id": "a", "category_id": 7, "bbox": [x, 0.0, width, 100.0], "area": area}
    return entry | rest


def scored(
    truth: list[dict[str, Any]], results: list[dict[str, Any]], images: str = "a"
) -> BoxScores:
    """Scores over images that are called by letters."""
    return coco_box_scores({"images": [{"id": i} for i in images], "annotations": truth}, results)


def test_a_perfect_result_has_100_percent_and_ranges_without_boxes_have_no_value() -> None:
    scores = scored([one(0, 100)], [one(0, 100, score=0.3)])
    for name in ("box_ap", "box_ap50", "box_ap75", "box_ap_large", "box_ar1", "box_ar100"):
        assert scores.values[name] == 100
    assert scores.values["box_ap_small"] is None
    assert "up to 32^2 pixels" in scores.reasons["box_ap_small"]
    assert scores.per_class == {7: 100} and set(scores.values) == set(NAMES)


def test_an_overlap_of_060_counts_at_three_of_ten_thresholds() -> None:
    scores = scored([one(0, 100)], [one(25, 100, score=1.0)])  # 75 / 125
    assert scores.values["box_ap50"] == 100 and scores.values["box_ap75"] == 0
    assert scores.values["box_ap"] == pytest.approx(30)


def test_nothing_found_is_zero_and_nothing_to_find_is_undefined() -> None:
    assert scored([one(0, 100)], []).values["box_ap"] == 0
    for truth, results, images in (
        ([], [one(0, 100, score=1.0)], "a"),
        ([], [], "ab"),
        ([], [], ""),
        ([one(0, 100, iscrowd=1)], [one(0, 100, score=1.0)], "a"),
    ):
        scores = scored(truth, results, images)
        assert set(scores.values) == set(NAMES) == set(scores.reasons)
        assert not any(scores.values.values()) and not scores.per_class
        assert scores.images == len(images)


def test_images_without_boxes_and_without_detections_count() -> None:
    truth = [one(0, 100), one(0, 100, image_id="b")]
    wrong = one(0, 100, image_id="c", score=0.9)
    right = one(0, 100, score=0.5)
    scores = scored(truth, [wrong, right], "abc")
    # Found 1 of 2, behind one that is wrong: precision 1/2 up to recall 1/2.
    assert scores.values["box_ap50"] == pytest.approx(100 * 51 / 101 / 2)
    assert scores.values["box_ar100"] == 50


def test_detections_in_a_crowd_are_neither_right_nor_wrong() -> None:
    truth = [one(0, 100), one(500, 400, iscrowd=1)]
    inside = [one(500 + 50 * number, 60, score=0.9) for number in range(5)]
    assert scored(truth, [*inside, one(0, 100, score=0.5)]).values["box_ap"] == 100
    plain = [truth[0], {**truth[1], "iscrowd": 0}]
    assert (scored(plain, [*inside, one(0, 100, score=0.5)]).values["box_ap"] or 0) < 20


def test_the_annotated_area_decides_which_size_an_object_has() -> None:
    scores = scored([one(0, 100, area=500.0)], [one(0, 100, score=1.0)])
    assert scores.values["box_ap_small"] == 100 and scores.values["box_ap_large"] is None


@pytest.mark.parametrize(
    ("area", "sizes"),
    [
        (0.0, {"small"}),
        (32.0**2, {"small", "medium"}),
        (96.0**2, {"medium", "large"}),
        (96.0**2 + 1e-3, {"large"}),
        (None, {"large"}),  # not annotated: the box's own
    ],
)
def test_an_area_on_a_border_counts_on_both_sides(area: float | None, sizes: set[str]) -> None:
    values = scored([one(0, 100, area=area)], [one(0, 100, score=1.0)]).values
    assert {size for size in SIZES if values[f"box_ap_{size}"] is not None} == sizes


def test_of_equal_scores_the_image_of_the_smallest_id_counts_first() -> None:
    truth, found = [one(0, 100)], [one(0, 100, score=0.5), one(0, 100, image_id="b", score=0.5)]
    wrong_first = [{**entry, "image_id": "ba"["ab".index(entry["image_id"])]} for entry in found]
    for images in ("ab", "ba"):
        assert scored(truth, found, images).values["box_ap"] == 100
        swapped = [{**truth[0], "image_id": "b"}]
        assert scored(swapped, wrong_first, images).values["box_ap"] == pytest.approx(50)
    assert in_order(["b", 10, "a", 9]) == [9, 10, "a", "b"]


def test_no_more_than_a_hundred_detections_of_a_class_count() -> None:
    truth = [one(0, 100)]
    wrong = [one(1000 + 200 * number, 100, score=0.9) for number in range(100)]
    assert scored(truth, [*wrong, one(0, 100, score=0.5)]).values["box_ar100"] == 0
    assert scored(truth, [*wrong[1:], one(0, 100, score=0.5)]).values["box_ar100"] == 100


def test_a_class_that_is_only_found_is_left_out_of_the_mean() -> None:
    other = one(0, 100, category_id=9, score=1.0)
    scores = scored([one(0, 100)], [one(0, 100, score=1.0), other])
    assert scores.values["box_ap"] == 100 and scores.per_class == {7: 100}


def test_a_result_of_an_unknown_image_is_refused() -> None:
    with pytest.raises(ValueError, match="'z'"):
        scored([one(0, 100)], [one(0, 100, image_id="z", score=1.0)])


def test_every_metric_has_a_column_and_a_meaning() -> None:
    for name in NAMES:
        assert name in COLUMNS and METRICS[name], name
