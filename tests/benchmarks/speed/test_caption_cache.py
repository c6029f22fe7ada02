"""Both sides give the same captions, and caching pays even where everything is small."""

import json
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import caption_cache
from attnbench.benchmarks.speed.report import run_benchmark

SMALL = ["--dim=64", "--layers=2", "--symbols=200", "--images=6", "--threads=1", "--rounds=3"]


def test_captions_are_equal_and_cached_ones_are_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cache.json"
    caption_cache.main([*SMALL, "--json", str(path)])
    assert "same captions" in capsys.readouterr().out
    (row,) = json.loads(path.read_text())["rows"]
    assert len(row["ours"]) == len(row["theirs"]) == 3 and row["ratio"] > 1.5


@pytest.mark.parametrize("spec", ["dot", "nsa", "gsa(content)"])
def test_other_encoders_are_compared_too(spec: str) -> None:
    caption_cache.main([*SMALL, "--spec", spec, "--words=4", "--rounds=1", "--images=2"])


@pytest.mark.parametrize(
    ("words", "told"), [(["--images=0"], "1 or more"), (["--heads=7"], "must divide")]
)
def test_sizes_out_of_range(words: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    assert run_benchmark(caption_cache.main, [*SMALL, *words]) == 2
    assert told in capsys.readouterr().err
