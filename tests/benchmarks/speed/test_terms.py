import json
from pathlib import Path

import pytest
import torch

from attnbench.benchmarks.speed import terms
from attnbench.benchmarks.speed.dense import dense_terms, relative_encodings
from attnbench.benchmarks.speed.measure import in_process
from attnbench.benchmarks.speed.report import run_benchmark
from attnbench.models.attention import Sequence1D, build_attention
from attnbench.models.attention.terms import TermsAttention

TINY = ["--length=12", "--dim=16", "--heads=2", "--threads=1", "--rounds=2"]


def attention(dim: int = 12, heads: int = 3) -> TermsAttention:
    made = build_attention("terms(1111)", dim=dim, heads=heads).double()
    assert isinstance(made, TermsAttention)
    return made


@pytest.mark.parametrize("project_first", [False, True])
@pytest.mark.parametrize("length", [1, 7])
def test_the_dense_form_gives_our_values_and_gradients(length: int, project_first: bool) -> None:
    module = attention()
    x_BLD = torch.randn(3, length, 12, dtype=torch.float64, requires_grad=True)
    ours = module(x_BLD, geometry=Sequence1D(length, length)).context_BQD
    dense = dense_terms(module, x_BLD, project_first=project_first)
    torch.testing.assert_close(dense, ours)
    inputs = [x_BLD, *module.parameters()]
    upstream = torch.randn_like(ours)
    for expected, found in zip(
        torch.autograd.grad(ours, inputs, upstream),
        torch.autograd.grad(dense, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("project_first", [False, True])
def test_the_dense_form_holds_an_encoding_for_every_pair(project_first: bool) -> None:
    x_BLD = torch.randn(2, 5, 12, dtype=torch.float64)
    assert relative_encodings(attention(), x_BLD, project_first).shape == (5, 5, 12)


def test_memory_stays_below_a_fifth_of_the_dense_form() -> None:
    size = terms.Size(batch=1, length=256, heads=8, dim=256, threads=1)
    ours, dense = (in_process(terms.peak_of, side, size) for side in (terms.OURS, "dense"))
    assert ours < dense / 5


def test_the_table_has_time_and_memory_of_both_dense_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "terms.json"
    terms.main([*TINY, "--batch", "2", "--json", str(path)])
    printed = capsys.readouterr().out
    content = json.loads(path.read_text(encoding="utf-8"))
    titles = [row["what"] for row in content["rows"]]
    assert len(titles) == 4
    assert all(title in printed for title in titles)
    assert all(len(row["ours"]) == 2 for row in content["rows"] if row["unit"] == "s")
    assert content["largest_difference"] < 1e-3


def test_kernel_paths_are_timed_at_every_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnbench.benchmarks.speed.kernel_paths.AT_LEAST", 1e-4)
    path = tmp_path / "paths.json"
    terms.main([*TINY, "--paths", "--lengths", "3", "8", "--tokens", "16", "--json", str(path)])
    rows = json.loads(path.read_text(encoding="utf-8"))["paths"]
    sizes = {(row["length"], row["batch"]) for row in rows}
    assert sizes == {(3, 5), (8, 2)}
    assert all(row[path] > 0 for row in rows for path in ("explicit", "mask", "fold"))
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(rows)


def test_sizes_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_benchmark(terms.main, ["--dim=10", "--heads=4"]) == 2
    assert "--heads must divide --dim" in capsys.readouterr().err


def test_a_step_too_small_to_be_seen_counts_as_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "peak_growth", lambda *_: 0)
    assert terms.peak_of(terms.OURS, terms.Size(1, 8, 2, 16, 1)) > 0
