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
        MetricSpec("cider_d", label="CIDEr-D", decimals=1),
        MetricSpec("cider", label="CIDEr", decimals=1),
        *(MetricSpec(f"bleu{n}", label=f"BLEU-{n}", decimals=1) for n in (1, 2, 3, 4)),
        MetricSpec("rouge_l", label="ROUGE-L", decimals=1),
        MetricSpec("meteor", label="METEOR", decimals=1),
        MetricSpec("spice", label="SPICE", decimals=1),
        MetricSpec("xe_cider_d", label="CIDEr-D before SCST", decimals=1),
        MetricSpec("xe_bleu4", label="BLEU-4 before SCST", decimals=1),
        MetricSpec("position_accuracy", label="position words right (%)", decimals=1),
        MetricSpec("xe_position_accuracy", label="position words before SCST (%)", decimals=1),
        # Of COCO's evaluation server, with 40 references; published only.
        *(MetricSpec(f"bleu{n}_c40", label=f"BLEU-{n} c40", decimals=1) for n in (1, 2, 3, 4)),
        MetricSpec("meteor_c40", label="METEOR c40", decimals=1),
        MetricSpec("rouge_l_c40", label="ROUGE-L c40", decimals=1),
        MetricSpec("cider_d_c40", label="CIDEr-D c40", decimals=1),
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
