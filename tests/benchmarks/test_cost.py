"""The counted multiply-accumulates stand where the paper has them."""

import json
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.cost import GFLOPS, MILLIONS


@pytest.mark.parametrize(
    ("grid", "rows"),
    [("spatial-attention/nmt-deformable", 18), ("spatial-attention/nmt-dynamic", 8)],
)
def test_every_row_is_within_a_tenth_of_its_published_gflops(
    grid: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", grid, "--json"]) == 0
    costs = json.loads(capsys.readouterr().out)
    assert len(costs) == rows
    for cost in costs:
        assert set(cost) == {"grid", "row", "params", "macs", "macs_executed", "published"}
        assert cost["grid"] == grid and cost["params"] > 50e6
        assert cost["macs_executed"] > 0
        assert abs(cost["macs"] / 1e9 - cost["published"][GFLOPS]) < 0.1, cost["row"]


def test_costs_as_a_table_and_of_chosen_rows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--preset", "smoke", "--rows", "w/o", "0010"]
    assert main(["cost", "spatial-attention/nmt-self", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["w/o", "0010"]
    assert "50 tokens a side" in lines[4]


def test_captioners_have_the_published_numbers_of_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cost", "ngsan/layers", "ngsan/geometry", "--json"]) == 0
    costs = json.loads(capsys.readouterr().out)
    assert [cost["grid"] for cost in costs] == ["ngsan/layers"] * 8 + ["ngsan/geometry"] * 5
    for cost in costs:
        printed = cost["published"][MILLIONS]
        if cost["grid"] == "ngsan/layers":
            assert round(cost["params"] / 1e6, 1) == printed, cost["row"]
        assert abs(cost["params"] / 1e6 - printed) < 0.005 * printed, cost["row"]


def test_published_parameters_stand_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "ngsan/layers", "--rows", "SAN L=4"]) == 0
    heading, row = capsys.readouterr().out.splitlines()[1:3]
    assert heading.split()[:4] == ["row", "params", "published", "diff"]
    assert row.split()[:6] == ["SAN", "L=4", "40.20", "M", "40.2", "M"]


def test_what_attention_adds_is_saved_beside_what_the_paper_says_it_adds(tmp_path: Path) -> None:
    file = tmp_path / "costs.md"
    rows = ["w/o", "1111", "w/o+deformable", "1111+deformable"]
    words = ["spatial-attention/nmt-deformable", "--rows", *rows, "--save", str(file)]
    assert main(["cost", *words]) == 0
    lines = [line.split("|")[1:-1] for line in file.read_text().splitlines() if "|" in line]
    found = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}
    assert list(found) == ["row", "---", *rows]
    assert found["w/o"][4:7] == ["–", "–", "–"]
    ours, theirs, ratio = map(float, found["1111"][4:7])
    assert theirs == 1.0 and ours == pytest.approx(theirs, abs=0.1)
    assert ratio == pytest.approx(ours / theirs, abs=0.01)
    assert float(found["1111+deformable"][5]) == 1.0  # 3.2 less the 2.2 of w/o+deformable
