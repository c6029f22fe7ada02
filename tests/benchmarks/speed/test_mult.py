"""The benchmark of MulT: lengths, equal sides, memory, the table and what is refused."""

import json
import sys
from pathlib import Path

import pytest
import torch

from attnbench.benchmarks.speed import mult
from attnbench.benchmarks.speed.measure import in_process
from attnbench.benchmarks.speed.mult_batches import Size, batches, draw_lengths, padded
from attnbench.benchmarks.speed.report import run_benchmark
from attnbench.models.streams import MODALITIES

TINY = [
    *("--batch=2", "--items=6", "--text-steps=5", "--other-steps=12", "--dim=8", "--heads=2"),
    *("--layers=1", "--threads=1", "--rounds=1"),
]


def size(**changes: int) -> Size:
    sizes = {"batch": 2, "items": 7, "padded": 2, "text_steps": 5, "other_steps": 12}
    return Size(**{**sizes, "dim": 8, "heads": 2, "layers": 1, "threads": 1, **changes})


def test_lengths_are_as_they_are_described() -> None:
    lengths = draw_lengths(size(items=5000, text_steps=50, other_steps=500))
    assert 18 < lengths["text"].mean() < 21
    for name in ("audio", "vision"):
        assert 0.42 < lengths[name].mean() / 500 < 0.48
        assert 0.05 < (lengths[name] == 500).mean() < 0.1
    assert all(steps.min() >= 1 for steps in lengths.values())


def test_batches_are_trimmed_and_padded_ones_hold_the_same_items() -> None:
    sizes = size()
    made = batches(sizes)
    assert sum(len(labels) for _, labels in made) == 7
    for batch in made:
        streams, labels = batch
        full, same = padded(batch, sizes)
        assert same is labels
        for name in MODALITIES:
            real = streams.valid[name]
            assert real.any(0).all()  # no step is padding for every item
            assert full.features[name].shape[1] == sizes.steps(name)
            torch.testing.assert_close(
                full.features[name][:, : real.shape[1]], streams.features[name]
            )
            assert full.valid[name].sum() == real.sum()
    longest = [streams.features["audio"].shape[1] for streams, _ in made]
    assert longest[-1] == max(longest)


def test_all_our_batches_are_timed_and_some_of_a_peer() -> None:
    assert len(mult.batches_of(mult.OURS, size())) == 4
    assert len(mult.batches_of(mult.DENSE, size())) == 2
    assert len(mult.batches_of(mult.DENSE, size(padded=9))) == 4


def test_ours_and_dense_compute_the_same_and_a_difference_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert max(mult.check_equal(size(other_steps=60))) < 1e-4
    right = mult.padded
    monkeypatch.setattr(mult, "padded", lambda batch, sizes: (right(batch, sizes)[0], batch[1] + 1))
    with pytest.raises(RuntimeError, match="another loss"):
        mult.check_equal(size())


def test_our_longest_batch_takes_less_than_half_the_memory() -> None:
    sizes = size(batch=2, items=2, text_steps=30, other_steps=300, dim=40, heads=8)
    ours, dense = (in_process(mult.peak_of, side, sizes) for side in (mult.OURS, mult.DENSE))
    assert ours < dense / 2


def test_the_table_has_time_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mult.json"
    mult.main([*TINY, "--peers", "dense", "--cpu-time", "--json", str(path)])
    printed = capsys.readouterr().out
    content = json.loads(path.read_text(encoding="utf-8"))
    assert [row["what"] for row in content["rows"]] == [
        "dense: time of an update",
        "dense: peak memory",
    ]
    assert all(row["what"] in printed and row["ratio"] > 0 for row in content["rows"])
    assert "CPU time" in printed
    assert content["largest_difference"]["loss"] < 1e-3


@pytest.mark.slow
def test_mmsa_trains_a_model_of_the_same_size(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("MMSA", reason="needs the extra `mmsa`")
    mult.main([*TINY, "--layers=3", "--peers", "mmsa"])
    assert "mmsa: time of an update" in capsys.readouterr().out


def test_mistakes_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_benchmark(mult.main, ["--heads=3"]) == 2
    assert "--heads must divide --dim" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "MMSA.models.singleTask.MULT", None)
    assert run_benchmark(mult.main, TINY) == 2
    assert "attnbench[mmsa]" in capsys.readouterr().err
