"""The benchmark of layers that are aware of boxes: its memory bound, table, file and errors."""

import json
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import geometry
from attnbench.benchmarks.speed.report import run_benchmark

TINY = ["--batch=3", "--regions=5", "--dim=16", "--heads=2", "--threads=1", "--rounds=2"]


@pytest.mark.parametrize("spec", ["gsa(query+key)", "relation"])
def test_memory_stays_within_one_embedding_of_all_pairs(spec: str) -> None:
    size = geometry.Size(batch=50, regions=36, heads=8, dim=256, threads=1)
    aware, plain = (geometry.peak_of(one, size) for one in (spec, geometry.plain_of(spec)))
    assert aware - plain < geometry.embedding_bytes(spec, size)


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [("gsa(query)", 80), ("ngsa(key,geometry_dim=12)", 12), ("relation", 64)],
)
def test_the_bound_is_one_embedding(spec: str, numbers: int) -> None:
    size = geometry.Size(batch=3, regions=5, heads=2, dim=16, threads=1)
    assert geometry.embedding_bytes(spec, size) == 4 * 3 * 5 * 5 * numbers


@pytest.mark.parametrize("clock", [[], ["--cpu-time"]])
def test_the_table_has_time_and_memory_of_each_spec(
    clock: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "geometry.json"
    geometry.main([*TINY, *clock, "--specs", "gsa(key)", "--json", str(path)])
    printed = capsys.readouterr().out
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["what"] for row in rows] == ["gsa(key): time", "gsa(key): memory"]
    assert all(row["what"] in printed for row in rows)
    assert ("CPU time" in printed) == bool(clock)
    for row in rows:
        assert row["ratio"] > 0 and row["met"] is (row["ratio"] >= row["target"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heads=3"], "--heads must divide --dim"),
        (["--batch=0"], "sizes must be 1 or more"),
        (["--specs", "nsa"], "nsa reads no boxes: name specs such as gsa(query)"),
        (["--specs", "gsaa"], "no variant is called 'gsaa'"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_benchmark(geometry.main, arguments) == 2
    assert message in capsys.readouterr().err
