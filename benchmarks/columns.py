"""The metric columns of tables: how each measured number is shown."""

from __future__ import annotations

from ..results import MetricSpec
from .errors import UsageError, nearest

COLUMNS: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        MetricSpec("bleu", label="BLEU"),
        MetricSpec("bleu_tok", label="BLEU tok"),
        MetricSpec("bleu_tok_split", label="BLEU tok split"),
        MetricSpec("chrf", label="chrF"),
        MetricSpec("ppl", label="perplexity", higher_is_better=False),
        MetricSpec(
            "macs",
            label="GFLOPs",
            decimals=1,
            scale=1e-9,
            higher_is_better=None,
            meaning="10^9 multiply-accumulates of the explicit path, as the papers count them",
        ),
        MetricSpec(
            "macs_executed",
            label="GFLOPs executed",
            decimals=1,
            scale=1e-9,
            higher_is_better=None,
            meaning="10^9 multiply-accumulates that the fused path executes",
        ),
        MetricSpec(
            "parameters",
            label="parameters (M)",
            decimals=1,
            scale=1e-6,
            higher_is_better=None,
            meaning="trainable and fixed parameters of the whole model, in millions",
        ),
    )
}


def column(name: str) -> MetricSpec:
    """The column of a metric. Raises UsageError with near names."""
    if name not in COLUMNS:
        hint = nearest(name, COLUMNS, otherwise=f"; known are {', '.join(COLUMNS)}")
        raise UsageError(f"no metric is called {name!r}{hint}")
    return COLUMNS[name]
