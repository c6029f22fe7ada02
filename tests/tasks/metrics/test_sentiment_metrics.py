"""Sentiment scores equal those of MulT's and MMSA's code, and say where they are undefined."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from attnbench.benchmarks.columns import COLUMNS
from attnbench.results.glossary import METRICS
from attnbench.tasks.metrics.sentiment import (
    Scores,
    majority_scores,
    round_class,
    sdk_class,
    sentiment_scores,
)
from tests.shared import golden_dir

EMOTIONS = ("neutral", "happy", "sad", "angry")
MULT = {
    "MAE": "mae",
    "Correlation Coefficient": "corr",
    "mult_acc_7": "acc7_round",
    "mult_acc_5": "acc5",
}
MULT_BINARY = {
    "MulT_exclude_zero_true": {"Accuracy": "acc2_nonzero", "F1 score": "f1_nonzero_swapped"},
    "MulT_exclude_zero_false": {"Accuracy": "acc2_has0_gt", "F1 score": "f1_has0_gt_swapped"},
}
MMSA = {
    "Has0_acc_2": "acc2_has0_ge",
    "Has0_F1_score": "f1_has0_ge",
    "Non0_acc_2": "acc2_nonzero",
    "Non0_F1_score": "f1_nonzero",
    "Mult_acc_5": "acc5",
    "Mult_acc_7": "acc7_round",
    "MAE": "mae",
    "Corr": "corr",
}
OWN = {
    "own_sdk_acc7": "acc7_sdk",
    "own_acc2_nonzero_f1_truth_first": "f1_nonzero",
    "own_acc2_has0_gt": "acc2_has0_gt",
}


@cache
def golden() -> dict[str, Any]:
    return json.loads((golden_dir() / "metrics" / "sentiment.json").read_text())


def column(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def regression(case: dict[str, Any]) -> Scores:
    return sentiment_scores("regression", column(case["prediction"]), column(case["truth"]))


def share(scores: Scores, name: str) -> float | None:
    """As the reference has it: a share of 1, not of 100."""
    value = scores.values[name]
    return value if value is None or name in ("mae", "corr") else value / 100


def undefined(scores: Scores, names: set[str]) -> None:
    for name in names:
        assert scores.values[name] is None and name not in scores.counted
        assert scores.reasons[name].startswith("undefined: ")


@pytest.mark.parametrize("exclude_zero", MULT_BINARY)
def test_the_public_codes_numbers_come_out_exactly(exclude_zero: str) -> None:
    names = MULT | MULT_BINARY[exclude_zero]
    for case in golden()["cases"].values():
        scores, expected = regression(case), case[exclude_zero]
        if "error" in expected:  # it stops where no truth is other than 0
            undefined(scores, {"acc2_nonzero", "f1_nonzero", "f1_nonzero_swapped", "corr"})
            continue
        assert set(expected) == set(names)
        for theirs, ours in names.items():
            if expected[theirs] is None:
                undefined(scores, {ours})
            else:
                assert share(scores, ours) == pytest.approx(expected[theirs], rel=0, abs=1e-15)


def test_mmsas_rounded_numbers_come_out_exactly() -> None:
    for case in golden()["cases"].values():
        scores, expected = regression(case), case["MMSA_regression_MOSI_rounded_4"]
        if "error" in expected:
            undefined(scores, {"acc2_nonzero", "f1_nonzero"})
            continue
        for theirs, ours in MMSA.items():
            value = share(scores, ours)
            assert (None if value is None else round(value, 4)) == expected[theirs], ours


@pytest.mark.parametrize("theirs", OWN)
def test_the_other_conventions_come_out_exactly(theirs: str) -> None:
    for case in golden()["cases"].values():
        value, expected = share(regression(case), OWN[theirs]), case[theirs]
        if expected is None:
            assert value is None
        else:
            assert value == pytest.approx(expected, rel=0, abs=1e-15)


@pytest.mark.parametrize("truth", ["truth_4", "truth_4_without_sad"])
def test_emotions_are_scored_as_the_public_code_does(truth: str) -> None:
    found = golden()["IEMOCAP"]
    scores = sentiment_scores(
        "emotions", np.array(found["outputs_8"], np.float32), np.array(found[truth]), EMOTIONS
    )
    values = found["values" + truth.removeprefix("truth_4")]
    for name, expected in values.items():
        for theirs, ours in (("Accuracy", "acc"), ("F1 Score", "f1")):
            value = share(scores, f"{name.lower()}_{ours}")
            assert value == pytest.approx(expected[theirs], rel=0, abs=1e-15)


def test_halves_go_to_the_even_number() -> None:
    values = np.array([-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
    assert round_class(values, 3).tolist() == [-3, -2, -2, 0, 0, 2, 2, 3]
    assert round_class(values, 2).tolist() == [-2, -2, -2, 0, 0, 2, 2, 2]


def test_the_sdks_classes_grow_away_from_zero() -> None:
    values = np.array([-2.01, -2, -1.01, -1, -0.01, -0.0, 0, 0.01, 1, 1.01, 2, 2.01])
    assert sdk_class(values).tolist() == [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3]


def test_what_is_constant_has_no_correlation_and_it_is_said() -> None:
    other = column([-1.0, 0.0, 2.0])
    same = column([0.4, 0.4, 0.4])
    for prediction, truth, words in ((same, other, "predictions"), (other, same, "labels")):
        scores = sentiment_scores("regression", prediction, truth)
        assert scores.values["corr"] is None
        assert scores.reasons["corr"] == f"undefined: all {words} are the same"


def test_items_are_counted_under_each_convention() -> None:
    scores = sentiment_scores("regression", column([1, 1, 1]), column([0, 0, -2]))
    assert scores.counted["acc2_nonzero"] == 1 and scores.counted["acc2_has0_ge"] == 3
    assert scores.values["acc2_has0_ge"] == pytest.approx(200 / 3)
    assert scores.values["acc2_has0_gt"] == 0


def test_one_emotion_of_four_is_chosen_where_there_is_exactly_one() -> None:
    labels = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    strength = np.array([[3.0, 1, 0, 0], [0, 5, 4, 0], [0, 0, 0, 9], [0, 0, 0, 9]])
    logits = np.stack([np.zeros_like(strength), strength], -1).reshape(4, 8)
    scores = sentiment_scores("emotions", logits, labels, EMOTIONS)
    assert scores.values["acc4_argmax"] == 50 and scores.counted["acc4_argmax"] == 2
    alone = sentiment_scores("emotions", logits[2:], labels[2:], EMOTIONS)
    undefined(alone, {"acc4_argmax"})


def test_the_majority_is_the_best_constant_for_each_metric() -> None:
    labels = column([-2.0, -2.0, -0.4, 0.0, 1.0, 2.4, 2.4, 2.4, 3.0])
    best = majority_scores("regression", labels).values
    assert best["mae"] == pytest.approx(np.abs(labels - 1.0).mean())  # the median is 1
    assert best["acc7_round"] == pytest.approx(300 / 9)  # 2 is the commonest whole number
    assert best["acc7_sdk"] == pytest.approx(400 / 9)  # 3 is the commonest of the SDK's classes
    assert best["acc2_nonzero"] == pytest.approx(500 / 8)
    assert best["acc2_has0_ge"] == pytest.approx(600 / 9)
    assert best["acc2_has0_gt"] == pytest.approx(500 / 9)
    assert "corr" not in best
    every = set(sentiment_scores("regression", labels, labels).values)
    assert set(best) == every - {"corr"}


def test_no_constant_does_better() -> None:
    labels = column(np.random.default_rng(0).normal(0.5, 1.5, 200).round(1).tolist())
    best = majority_scores("regression", labels).values
    for constant in np.linspace(-3.2, 3.2, 33):
        same = sentiment_scores("regression", np.full_like(labels, constant), labels).values
        for name, value in best.items():
            if name == "mae":
                assert (value or 0) <= (same[name] or 0) + 1e-5
            elif not name.startswith("f1"):
                assert (value or 0) >= (same[name] or 0) - 1e-9


def test_binary_labels_and_emotions_have_a_majority_too() -> None:
    assert majority_scores("binary", column([1, 0, 0, 0])).values["accuracy"] == 75
    assert majority_scores("binary", column([1, 1, 0, 1])).values["accuracy"] == 75
    emotions = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0]])
    best = majority_scores("emotions", emotions, EMOTIONS).values
    assert best["neutral_acc"] == 75 and best["angry_acc"] == 100
    assert best["acc4_argmax"] == pytest.approx(200 / 3)


def test_every_score_has_a_column_and_a_meaning() -> None:
    labels = column([-1.0, 0.0, 2.0])
    emotions = np.eye(4, dtype=int)
    kinds = {
        "regression": (labels, labels),
        "binary": (labels, (labels > 0).astype(np.float32)),
        "emotions": (np.zeros((4, 8)), emotions),
    }
    for kind, (prediction, truth) in kinds.items():
        names = sentiment_scores(kind, prediction, truth, EMOTIONS).values  # type: ignore[arg-type]
        majority = majority_scores(kind, truth, EMOTIONS).values  # type: ignore[arg-type]
        for name in [*names, *(f"majority_{each}" for each in majority)]:
            assert name in COLUMNS and METRICS[name], name
