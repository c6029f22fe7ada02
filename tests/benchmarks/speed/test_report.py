import json
from pathlib import Path

import pytest

from attnbench.benchmarks.errors import UsageError
from attnbench.benchmarks.speed.measure import Comparison
from attnbench.benchmarks.speed.report import align, as_json, run_benchmark, save, show

FAST = Comparison("fast", "s", [0.001, 0.002, 0.001], [0.010, 0.010, 0.012], target=5)
SLOW = Comparison("slow", "sentences/s", [10.0], [20.0], target=1.5, note="as expected")


def test_the_table_tells_medians_ratios_spread_and_targets() -> None:
    head, _, fast, slow = show([FAST, SLOW], "ours", "theirs").splitlines()
    assert head.split() == ["ours", "theirs", "ratio", "min..max", "target"]
    assert fast.split() == [
        *("fast", "1.0", "ms", "10.0", "ms"),
        *("10.00x", "5.00..12.00", "5x", "met"),
    ]
    assert "0.50x" in slow and "1.5x MISSED" in slow and slow.endswith("as expected")


def test_columns_line_up() -> None:
    lines = align([["", "number"], ["a", "1"], ["long", "20"]]).splitlines()
    assert lines == ["      number", "------------", "a     1", "long  20"]


def test_the_json_file_holds_every_turn(tmp_path: Path) -> None:
    path = tmp_path / "new" / "figures.json"
    save(path, as_json("name", {"rounds": 3, "json": path}, [FAST], more=[1]))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["benchmark"] == "name"
    assert content["settings"] == {"rounds": 3}
    assert content["rows"][0]["ours"] == FAST.ours
    assert content["rows"][0]["met"] is True
    assert content["more"] == [1]
    assert content["machine"]["versions"]["torch"]
    assert [entry.name for entry in path.parent.iterdir()] == ["figures.json"]


def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def main(arguments: object) -> None:
        raise UsageError("give a folder")

    assert run_benchmark(main) == 2
    assert capsys.readouterr().err == "error: give a folder\n"
