"""The benchmark against mmcv: equal numbers, its table and file, and its errors."""

import json
import sys
from pathlib import Path

import pytest
import torch

from attnbench.benchmarks.speed import spatial
from attnbench.benchmarks.speed.report import run_benchmark
from attnbench.models.attention.terms import TermsAttention

TINY = ["--maps=3x5", "--dim=16", "--heads=2", "--threads=1", "--rounds=1"]


def tiny(key_stride: int) -> spatial.Size:
    return spatial.Size(2, 5, 3, key_stride, heads=2, dim=16, threads=1, device="cpu")


@pytest.mark.parametrize("key_stride", [1, 2])
@pytest.mark.parametrize("bits", spatial.ROWS)
def test_both_sides_give_the_same_numbers(bits: str, key_stride: int) -> None:
    pytest.importorskip("mmcv")
    assert spatial.check_equal(bits, tiny(key_stride)) < 1e-4


def test_other_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mmcv")
    monkeypatch.setattr(spatial, "BASE", 10.0)
    with pytest.raises(RuntimeError, match="0101: mmcv gives other values"):
        spatial.check_equal("0101", tiny(1))


def test_the_table_has_time_and_memory_of_each_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mmcv")
    path = tmp_path / "spatial.json"
    spatial.main([*TINY, "--rows", "1111", "--strides", "2", "--json", str(path)])
    printed = capsys.readouterr().out
    content = json.loads(path.read_text(encoding="utf-8"))
    titles = [
        "1111, 3x5, key stride 2: time",
        "1111, 3x5, key stride 2: memory",
        "1111, 3x5, key stride 2: time | dot",
    ]
    assert [row["what"] for row in content["rows"]] == titles
    assert all(title in printed for title in titles)
    assert [row["target"] for row in content["rows"]] == [1.82, 2.86, 0.33]
    assert content["largest_difference"] < 1e-3


def test_the_output_and_all_gradients_are_compared() -> None:
    call, module = spatial.callee("ours", "1111", tiny(1))
    found = spatial.step(call, module, tiny(1).input())
    assert found[0].shape == found[1].shape == (2, 16, 5, 3)
    assert isinstance(module, spatial.SpatialAttention)
    assert isinstance(module.attention, TermsAttention)
    assert len(found) == 2 + len(list(module.parameters()))
    assert all(bool(gradient.abs().max() > 0) for gradient in found[1:])


def test_memory_stays_below_one_matrix_of_scores() -> None:
    """Resident memory of one step: no tensor of heads x cells x cells."""
    size = spatial.Size(1, 24, 40, 1, heads=8, dim=64, threads=1, device="cpu")
    assert spatial.peak_of("ours", "1111", size) < 4 * 8 * (24 * 40) ** 2


def test_a_missing_mmcv_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mmcv", None)
    monkeypatch.setitem(sys.modules, "mmcv.cnn.bricks", None)
    assert run_benchmark(spatial.main, [*TINY, "--rows", "1000"]) == 2
    assert "pip install 'attnbench[mmcv]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heads=3"], "--heads and 4 must divide --dim"),
        (["--batch=0"], "must be 1 or more"),
        (["--strides", "0"], "must be 1 or more"),
        (["--maps", "0x4"], "must be 1 or more"),
        (["--rows", "0110"], "0110 can't be compared with mmcv: choose from 0001 0010"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_benchmark(spatial.main, arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_benchmark(spatial.main, [*TINY, "--device=cuda"]) == 2
    assert "there is no GPU for --device cuda" in capsys.readouterr().err
