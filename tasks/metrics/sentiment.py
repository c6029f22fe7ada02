"""Scores of multimodal sentiment under every convention that papers use, each under its own name.

Regression on CMU-MOSI and CMU-MOSEI (labels in [-3, 3]); "positive" is

====================  ======================================================================
``…_nonzero``         over items whose label isn't 0: more than 0 (MulT, MMSA "Non0")
``…_has0_ge``         over all items: 0 or more (MMSA "Has0", CMU SDK before 2019)
``…_has0_gt``         over all items: more than 0 (MulT with zeros)
====================  ======================================================================

F1 is weighted by how often each class is; ``…_swapped`` weighs by the predictions instead of the
labels, which is what MulT's code comes to, since it hands them over in the other order. Emotions
(IEMOCAP) are four yes-or-no questions. Shares are in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from sklearn.metrics import f1_score

Kind = Literal["regression", "binary", "emotions"]

_POSITIVE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "nonzero": lambda values: values > 0,
    "has0_ge": lambda values: values >= 0,
    "has0_gt": lambda values: values > 0,
}
"""What counts as positive under each of the binary conventions."""


@dataclass
class Scores:
    """Metrics by fixed name.

    Attributes:
        values: None where a metric is undefined on these items.
        counted: how many items each is over.
        reasons: why a metric is undefined.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, items: int) -> None:
        """A metric over ``items`` items."""
        self.values[name], self.counted[name] = float(value), items

    def lacks(self, name: str, reason: str) -> None:
        """A metric that is undefined here."""
        self.values[name], self.reasons[name] = None, f"undefined: {reason}"


def sentiment_scores(
    kind: Kind, prediction_NO: np.ndarray, labels_NL: np.ndarray, emotions: Sequence[str] = ()
) -> Scores:
    """All metrics of one split.

    Args:
        kind: what the labels are.
        prediction_NO: (N, 1) scores of a regression or logits of a binary label, or (N, 2 L)
            logits of L emotions, of each "not there" and "there".
        labels_NL: (N, 1) or (N, L).
        emotions: names of the L emotions.
    """
    if kind == "emotions":
        return _emotion_scores(prediction_NO.reshape(*labels_NL.shape, 2), labels_NL, emotions)
    prediction_N, labels_N = prediction_NO.reshape(-1), labels_NL.reshape(-1)
    if kind == "binary":
        scores = Scores()
        _binary(scores, "accuracy", "f1", labels_N > 0.5, prediction_N > 0)
        return scores
    return _regression_scores(prediction_N, labels_N)


def majority_scores(kind: Kind, labels_NL: np.ndarray, emotions: Sequence[str] = ()) -> Scores:
    """The same metrics for a constant, for each metric the one that does best on these labels.

    That is the median for MAE and the commonest class for every other one; a constant has no
    correlation, so there is none. It is chosen on the scored labels themselves, so that a model
    below it has learnt nothing, whatever the shares of the classes were in training.

    Args:
        kind: what the labels are.
        labels_NL: labels of the items that are scored.
        emotions: names of the L emotions.
    """
    if kind == "emotions":
        common_L = (labels_NL.mean(0) > 0.5).astype(int)
        constant_NL2 = np.eye(2)[np.broadcast_to(common_L, labels_NL.shape)]
        scores = _emotion_scores(constant_NL2, labels_NL, emotions)
        alone_L = labels_NL[labels_NL.sum(1) == 1].sum(0)
        _argmax_accuracy(scores, np.broadcast_to(alone_L, labels_NL.shape), labels_NL)
        return scores
    if kind == "binary":
        sign = 1.0 if (labels_NL > 0.5).mean() > 0.5 else -1.0
        return sentiment_scores(kind, np.full_like(labels_NL, sign, dtype=float), labels_NL)
    best = Scores()
    for name, constant in _constants(labels_NL.reshape(-1)).items():
        scores = sentiment_scores(kind, np.full_like(labels_NL, constant), labels_NL)
        for own in (name, *_f1_of(name)):
            best.values[own] = scores.values[own]
            if own in scores.reasons:
                best.reasons[own] = scores.reasons[own]
            else:
                best.counted[own] = scores.counted[own]
    return best


def round_class(values: np.ndarray, limit: int) -> np.ndarray:
    """The nearest whole number in [-limit, limit]; halves go to the even one, as numpy has it."""
    return np.round(np.clip(values, -limit, limit))


def sdk_class(values: np.ndarray) -> np.ndarray:
    """The seven classes of the CMU SDK, which grow away from 0.

    -3 below -2, -2 in [-2, -1), -1 in [-1, 0), 0 at 0, 1 in (0, 1], 2 in (1, 2], 3 above 2.
    """
    return np.sign(values) * np.digitize(np.abs(values), [0, 1, 2], right=True)


def _regression_scores(prediction_N: np.ndarray, labels_N: np.ndarray) -> Scores:
    scores, items = Scores(), len(labels_N)
    for name, classes in _CLASSES.items():
        scores.add(name, 100 * np.mean(classes(prediction_N) == classes(labels_N)), items)
    for name, positive in _POSITIVE.items():
        counted_N = labels_N != 0 if name == "nonzero" else np.ones(items, dtype=bool)
        truth_M, said_M = positive(labels_N[counted_N]), positive(prediction_N[counted_N])
        if counted_N.any():
            _binary(scores, f"acc2_{name}", f"f1_{name}", truth_M, said_M)
            scores.add(f"f1_{name}_swapped", _weighted_f1(said_M, truth_M), len(truth_M))
            continue
        for each in (f"acc2_{name}", *_f1_of(f"acc2_{name}")):
            scores.lacks(each, "no label of the split is other than 0")
    scores.add("mae", float(np.mean(np.abs(prediction_N - labels_N))), items)
    for what, values_N in (("labels", labels_N), ("predictions", prediction_N)):
        if np.ptp(values_N) == 0:
            scores.lacks("corr", f"all {what} are the same")
            return scores
    scores.add("corr", np.corrcoef(prediction_N, labels_N)[0, 1], items)
    return scores


def _emotion_scores(
    logits_NL2: np.ndarray, labels_NL: np.ndarray, emotions: Sequence[str]
) -> Scores:
    scores = Scores()
    said_NL = logits_NL2.argmax(-1)
    for number, name in enumerate(emotions):
        truth_N, said_N = labels_NL[:, number], said_NL[:, number]
        _binary(scores, f"{name}_acc", f"{name}_f1", truth_N, said_N)
    _argmax_accuracy(scores, logits_NL2[..., 1] - logits_NL2[..., 0], labels_NL)
    return scores


def _argmax_accuracy(scores: Scores, strength_NL: np.ndarray, labels_NL: np.ndarray) -> None:
    """One choice among all emotions, over the items that have exactly one."""
    name = f"acc{labels_NL.shape[1]}_argmax"
    alone_N = labels_NL.sum(1) == 1
    if not alone_N.any():
        scores.lacks(name, "no item of the split has exactly one emotion")
        return
    right_M = strength_NL[alone_N].argmax(1) == labels_NL[alone_N].argmax(1)
    scores.add(name, 100 * np.mean(right_M), len(right_M))


def _binary(
    scores: Scores, accuracy: str, f1: str, truth_N: np.ndarray, said_N: np.ndarray
) -> None:
    scores.add(accuracy, 100 * np.mean(truth_N == said_N), len(truth_N))
    scores.add(f1, _weighted_f1(truth_N, said_N), len(truth_N))


def _weighted_f1(truth_N: np.ndarray, said_N: np.ndarray) -> float:
    """In percent; a class that is never predicted has an F1 of 0."""
    return 100 * float(f1_score(truth_N, said_N, average="weighted", zero_division=0))  # type: ignore[arg-type]


def _constants(train_N: np.ndarray) -> dict[str, float]:
    """For MAE and each accuracy the constant that is best on these labels."""
    best = {"mae": float(np.median(train_N))}
    for name, classes in _CLASSES.items():
        found, times = np.unique(classes(train_N), return_counts=True)
        best[name] = float(found[times.argmax()])  # a whole number lies in its own class
    for name, positive in _POSITIVE.items():
        counted = train_N[train_N != 0] if name == "nonzero" else train_N
        best[f"acc2_{name}"] = 1.0 if positive(counted).sum() * 2 >= len(counted) else -1.0
    return best


def _f1_of(accuracy: str) -> tuple[str, ...]:
    """The F1 scores that go with a binary accuracy."""
    name = accuracy.removeprefix("acc2_")
    return (f"f1_{name}", f"f1_{name}_swapped") if name in _POSITIVE else ()


_CLASSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "acc7_round": lambda values: round_class(values, 3),
    "acc7_sdk": sdk_class,
    "acc5": lambda values: round_class(values, 2),
}
