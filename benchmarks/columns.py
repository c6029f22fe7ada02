"""The metric columns of tables: how each measured number is shown."""

from __future__ import annotations

from dataclasses import replace

from ..results import MetricSpec
from .errors import UsageError, nearest

_EMOTIONS = ("neutral", "happy", "sad", "angry")


def _sentiment() -> tuple[MetricSpec, ...]:
    """The columns of multimodal sentiment, and after them the majority baseline of each."""
    own = (
        MetricSpec("acc7_round", label="Acc-7", decimals=1),
        MetricSpec("acc7_sdk", label="Acc-7 SDK", decimals=1),
        MetricSpec("acc5", label="Acc-5", decimals=1),
        MetricSpec("acc2_nonzero", label="Acc-2 non-0", decimals=1),
        MetricSpec("f1_nonzero", label="F1 non-0", decimals=1),
        MetricSpec("f1_nonzero_swapped", label="F1 non-0 swapped", decimals=1),
        MetricSpec("acc2_has0_ge", label="Acc-2 (≥0)", decimals=1),
        MetricSpec("f1_has0_ge", label="F1 (≥0)", decimals=1),
        MetricSpec("f1_has0_ge_swapped", label="F1 (≥0) swapped", decimals=1),
        MetricSpec("acc2_has0_gt", label="Acc-2 (>0)", decimals=1),
        MetricSpec("f1_has0_gt", label="F1 (>0)", decimals=1),
        MetricSpec("f1_has0_gt_swapped", label="F1 (>0) swapped", decimals=1),
        MetricSpec("mae", label="MAE", decimals=3, higher_is_better=False),
        MetricSpec("accuracy", label="accuracy", decimals=1),
        MetricSpec("f1", label="F1", decimals=1),
        *(MetricSpec(f"{name}_acc", label=f"{name} Acc", decimals=1) for name in _EMOTIONS),
        *(MetricSpec(f"{name}_f1", label=f"{name} F1", decimals=1) for name in _EMOTIONS),
        MetricSpec("acc4_argmax", label="Acc-4", decimals=1),
    )
    majority = (
        replace(
            spec,
            name=f"majority_{spec.name}",
            label=f"{spec.label} of a constant",
            higher_is_better=None,
        )
        for spec in own
    )
    return (*own, MetricSpec("corr", label="Corr", decimals=3), *majority)


def _images() -> tuple[MetricSpec, ...]:
    """The columns of detection and of segmentation."""
    return (
        MetricSpec("box_ap", label="box AP", decimals=1),
        MetricSpec("box_ap50", label="AP50", decimals=1),
        MetricSpec("box_ap75", label="AP75", decimals=1),
        MetricSpec("box_ap_small", label="AP small", decimals=1),
        MetricSpec("box_ap_medium", label="AP medium", decimals=1),
        MetricSpec("box_ap_large", label="AP large", decimals=1),
        *(MetricSpec(f"box_ar{n}", label=f"AR@{n}", decimals=1) for n in (1, 10, 100)),
        *(
            MetricSpec(f"box_ar_{size}", label=f"AR {size}", decimals=1)
            for size in ("small", "medium", "large")
        ),
        MetricSpec("miou", label="mIoU", decimals=1),
        MetricSpec("miou_absent0", label="mIoU (absent 0)", decimals=1),
        MetricSpec("pixel_accuracy", label="pixel accuracy", decimals=1),
        MetricSpec("mean_accuracy", label="mean accuracy", decimals=1),
    )


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
        *_sentiment(),
        *_images(),
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
