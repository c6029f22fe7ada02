"""Grids on the demo data that train in about a second, and ways to run commands."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from attnbench.results import RunRecord, Store

SETTINGS: dict[str, Any] = {
    "dataset": "demo",
    "dim": 16,
    "ffn_dim": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "learning_rate": 0.01,
    "warmup_steps": 4,
    "max_steps": 12,
    "check_every": 4,
    "average_last": 2,
    "max_tokens": 300,
    "subword": "none",
    "vocabulary_size": 300,
    "eval_lines": 8,
    "beam": 2,
    "max_length_extra": 5,
}
ROWS: list[dict[str, Any]] = [
    {"row": "w/o", "set": {"encoder_self": "none"}, "published": "w/o"},
    {"row": "1111", "set": {"encoder_self": "terms(1111)"}, "published": "1111"},
]
PUBLISHED = {
    "paper": "spatial_attention",
    "table": "table2",
    "dataset_split": "wmt14-en-de-newstest2014",
    "metrics": {"bleu": "BLEU"},
}


def write_grid(folder: Path, rows: list[dict[str, Any]] | None = None, **settings: Any) -> Path:
    """Write tiny.yaml; `settings` change its only preset, `tiny`."""
    grid = {
        "grid": "own/tiny",
        "title": "A tiny grid",
        "task": "translation",
        "published": PUBLISHED,
        "presets": {"tiny": SETTINGS | settings},
        "rows": ROWS if rows is None else rows,
    }
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
    return path


def command(name: str, grid: Path, out: Path, *more: str) -> list[str]:
    """The words of `attnbench NAME tiny.yaml`."""
    return [name, str(grid), "--preset", "tiny", "--out", str(out), *more]


def start(words: list[str], environment: Mapping[str, str] | None = None, **options: Any):
    """Start `attnbench` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "attnbench.benchmarks.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        **options,
    )


def records(out: Path) -> dict[tuple[str, int], RunRecord]:
    """The records under `out` by row and seed."""
    return {(record.row, record.seed): record for record in Store(out).records()}


def cell_folder(out: Path, row: str, seed: int = 0) -> Path:
    """Folder of one cell."""
    return Store(out).folder("own/tiny", "demo", "tiny", row, seed)


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something happened, at most four minutes, as long as the process lives."""
    for _ in range(24000):
        if happened():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("it didn't happen within four minutes")


def leftovers(out: Path) -> list[str]:
    """Names of temporary files that should be gone."""
    return [path.name for path in out.rglob("*") if path.name.endswith(".tmp")]
