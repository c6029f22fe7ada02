"""Linear sentiment models that are fitted at once: ridge regression, and the best constant."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from ..models.streams import MODALITIES
from .metrics.sentiment import Kind

if TYPE_CHECKING:
    from ..datamodules.sentiment import SentimentData
    from .sentiment_config import SentimentConfig

ALPHAS = (1.0, 10.0, 100.0, 1000.0, 10000.0)
"""Strengths of the penalty that ``ridge_alpha=auto`` chooses from."""


@dataclass(frozen=True)
class Linear:
    """A linear map of pooled features: (N, F) to (N, O) by ``weight_OF`` and ``bias_O``."""

    weight_OF: np.ndarray
    bias_O: np.ndarray

    def __call__(self, x_NF: np.ndarray) -> np.ndarray:
        """Predictions (N, O)."""
        return x_NF @ self.weight_OF.T + self.bias_O

    @staticmethod
    def beside(maps: Sequence[Linear]) -> Linear:
        """One map with all outputs."""
        weights, biases = [one.weight_OF for one in maps], [one.bias_O for one in maps]
        return Linear(np.concatenate(weights), np.concatenate(biases))


def fit_closed_form(config: SentimentConfig, data: SentimentData) -> tuple[Linear, str]:
    """The map of ``model=ridge`` or ``majority``, and how it came about.

    Ridge regression for scores, logistic regression with the same penalty (C = 1 / alpha) for
    yes-or-no labels, both on features of mean 0 and deviation 1 over the training items.
    """
    labels_NL = data.labels("train")
    if config.model == "majority":
        width = sum(data.dims[name] for name in config.streams)
        return constant(data.kind, labels_NL, width), "best constant"
    x_NF = _pooled(config, data, "train")
    if config.ridge_alpha != "auto":
        alpha = config.ridge_alpha
        return fit_ridge(data.kind, x_NF, labels_NL, alpha), f"alpha:{alpha:g}"
    held_NF, truth_NL = _pooled(config, data, "val"), data.labels("val")
    fits = {alpha: fit_ridge(data.kind, x_NF, labels_NL, alpha) for alpha in ALPHAS}
    best = min(ALPHAS, key=lambda alpha: loss(data.kind, fits[alpha](held_NF), truth_NL))
    return fits[best], f"alpha:{best:g}, the best of {len(ALPHAS)} in validation"


def constant(kind: Kind, labels_NL: np.ndarray, width: int) -> Linear:
    """The constant that does best on these labels: median, or log-odds of each class."""
    if kind == "regression":
        bias_O = np.median(labels_NL, axis=0)
    else:
        there_L = (labels_NL > 0.5).sum(0)
        odds_L = np.log((there_L + 0.5) / (len(labels_NL) - there_L + 0.5))
        bias_O = odds_L if kind == "binary" else _two_sided(odds_L)
    return Linear(np.zeros((len(bias_O), width)), bias_O)


def fit_ridge(kind: Kind, x_NF: np.ndarray, labels_NL: np.ndarray, alpha: float) -> Linear:
    """Ridge or logistic regression of pooled features (N, F) with penalty ``alpha``."""
    scaler = StandardScaler().fit(x_NF.astype(np.float64))
    mean_F, scale_F = np.asarray(scaler.mean_), np.asarray(scaler.scale_)
    scaled_NF = (x_NF - mean_F) / scale_F
    if kind == "regression":
        fit = Ridge(alpha=alpha).fit(scaled_NF, labels_NL)
        scaled = Linear(np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_))
    else:
        scaled = Linear.beside([_logistic(scaled_NF, y > 0.5, alpha) for y in labels_NL.T])
    weight_OF = scaled.weight_OF / scale_F
    bias_O = scaled.bias_O - weight_OF @ mean_F
    if kind != "emotions":
        return Linear(weight_OF, bias_O)
    both_OF = np.stack([np.zeros_like(weight_OF), weight_OF], 1).reshape(-1, x_NF.shape[1])
    return Linear(both_OF, _two_sided(bias_O))


def loss(kind: Kind, prediction_NO: np.ndarray, labels_NL: np.ndarray) -> float:
    """Mean absolute error, or mean cross-entropy of a yes or no in nats."""
    if kind == "regression":
        return float(np.abs(prediction_NO - labels_NL).mean())
    logit_NL = prediction_NO if kind == "binary" else prediction_NO[:, 1::2]
    return float(np.logaddexp(0, np.where(labels_NL > 0.5, -logit_NL, logit_NL)).mean())


def _logistic(x_NF: np.ndarray, truth_N: np.ndarray, alpha: float) -> Linear:
    """One yes-or-no label; the constant where the training items are all alike."""
    if truth_N.all() or not truth_N.any():
        return constant("binary", truth_N[:, None].astype(float), x_NF.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LogisticRegression(C=1 / alpha, max_iter=1000).fit(x_NF, truth_N)
    return Linear(fit.coef_, fit.intercept_)


def _two_sided(logit_L: np.ndarray) -> np.ndarray:
    """Logits of L emotions as those of "not there" (0) and "there" in turn, (2 L,)."""
    return np.stack([np.zeros_like(logit_L), logit_L], 1).reshape(-1)


def _pooled(
    config: SentimentConfig, data: SentimentData, split: Literal["train", "val"]
) -> np.ndarray:
    """Mean features of the modalities that are read, (N, F)."""
    edges = np.cumsum([0, *(data.dims[name] for name in MODALITIES)])
    pooled_NF = data.pooled(split)
    kept = [
        pooled_NF[:, edges[place] : edges[place + 1]]
        for place, name in enumerate(MODALITIES)
        if name in config.streams
    ]
    return np.concatenate(kept, 1)
