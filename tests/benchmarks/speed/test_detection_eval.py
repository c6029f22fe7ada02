"""The benchmark of COCO's metrics: what it draws, its table, file and errors."""

import json
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import detection_eval
from attnbench.benchmarks.speed.report import run_benchmark


def test_some_detections_are_right() -> None:
    scores = detection_eval.evaluate(detection_eval.draw(images=10, detections=20))
    assert scores.images == 10
    assert scores.values["box_ap"] is not None and 1 < scores.values["box_ap"] < 99


def test_the_table_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "eval.json"
    arguments = ["--images=4", "--detections=9", "--rounds=2", "--threads=1", "--json", str(path)]
    detection_eval.main(arguments)
    (row,) = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert row["what"] == "4 images, 9 detections each"
    assert row["what"] in capsys.readouterr().out
    assert row["theirs"] == [0.08, 0.08] and len(row["ours"]) == 2


def test_sizes_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_benchmark(detection_eval.main, ["--images=0"]) == 2
    assert "sizes and turns must be 1 or more" in capsys.readouterr().err
