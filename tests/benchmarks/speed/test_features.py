import json

import numpy as np

from attnbench.benchmarks.speed import features
from attnbench.benchmarks.speed.report import run_benchmark


def test_all_forms_hold_the_same_features(tmp_path):
    written = features.write_forms(tmp_path, 7, (3, 5))
    order = features.batches(7, seed=0)
    assert sorted(np.concatenate(order)) == list(range(7))
    packed = features.read_store(written.store, order)
    for folder in (written.compressed, written.plain):
        np.testing.assert_array_equal(features.read_npz(folder, order), packed)


def test_the_benchmark_prints_and_saves(tmp_path, capsys):
    path = tmp_path / "out.json"
    assert run_benchmark(features.main, ["--images=60", "--rounds=2", f"--json={path}"]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["what"] for row in rows] == [
        f"{shape} against {form} npz"
        for shape in ("36 x 2048", "49 x 1280")
        for form in ("compressed", "plain")
    ]
    # The target is 8; this many images say only that the store is faster at all.
    assert all(row["target"] == 8 and row["ratio"] > 1 for row in rows)
    assert "npz a file" in capsys.readouterr().out
