"""Records and tables for these tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from attnbench.results import (
    MetricSpec,
    PublishedSource,
    RowSpec,
    RunRecord,
    TableSpec,
    config_hash,
)

GRID = "spatial-attention/nmt-self"
START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def make_record(row: str = "1111", seed: int = 0, **changes: Any) -> RunRecord:
    """A finished run of the smoke preset; `changes` replace fields."""
    settings = {"encoder_self": f"terms({row})", "max_steps": 100}
    settings |= changes.pop("settings", {})
    values: dict[str, Any] = {
        "grid": GRID,
        "row": row,
        "seed": seed,
        "task": "translation",
        "dataset": "demo",
        "preset": "smoke",
        "status": "done",
        "config": {**settings, "seed": seed, "root": "somewhere"},
        "config_hash": config_hash(settings),
        "data": {"fingerprint": {"train": "aa"}, "card": {"source": "https://example.org/demo"}},
        "items": 64,
        "metrics": {"bleu": 20.0 + seed},
        "signatures": {"bleu": "nrefs:1|tok:13a"},
        "parameters": 1_234_567,
        "macs": 2_700_000_000,
        "seconds": {"train": 50.0, "evaluate": 10.0, "total": 60.0},
        "versions": {"python": "3.11.9"},
        "git_commit": "0" * 40,
        "git_dirty": False,
        "device": "CPU, 2 cores",
        "command": f"attnbench run {GRID} --preset smoke --root ~/data --out here",
        "started": START,
        "finished": START + timedelta(seconds=60 + seed),
    }
    return RunRecord(**(values | changes))


def make_spec(*rows: str | RowSpec, **changes: Any) -> TableSpec:
    """The table of `rows`, whose published values are those of the same label in Table 2."""
    values: dict[str, Any] = {
        "grid": GRID,
        "dataset": "demo",
        "preset": "smoke",
        "metrics": (MetricSpec("bleu", "BLEU", "BLEU"),),
        "rows": tuple(row if isinstance(row, RowSpec) else RowSpec(row, row) for row in rows),
        "title": "Figure 3 (c)",
        "published": PublishedSource(
            "spatial_attention", "table2", "wmt14-en-de-newstest2014", "wmt14"
        ),
    }
    return TableSpec(**(values | changes))
