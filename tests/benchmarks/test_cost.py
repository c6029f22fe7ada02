"""The counted multiply-accumulates stand where the paper has them."""

import json

import pytest

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.cost import GFLOPS


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
