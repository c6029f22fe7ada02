"""Both fairseq benchmarks on the demo: seconds of training and search, on both sides."""

import json
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import fairseq_generate, fairseq_train

pytestmark = [pytest.mark.fairseq, pytest.mark.timeout(400)]

SIZES = ["--vocabulary-size=400", "--layers=1", "--dim=32", "--heads=2", "--threads=1"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def settings(demo_root: Path, scratch: Path) -> list[str]:
    return [f"--root={demo_root}", f"--scratch={scratch}", "--rounds=1", *SIZES]


def test_both_sides_train_on_the_same_folder(
    settings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.json"
    fairseq_train.main(
        [*settings, "--warmup=5", "--updates=10", "--max-tokens=300", f"--json={path}"]
    )
    wall, processor, own = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert wall["ours"][0] > 0 and wall["theirs"][0] > 0 and processor["theirs"][0] > 0
    assert wall["theirs"][0] == pytest.approx(own["theirs"][0], rel=0.3)
    assert "10 updates after 5 of warm-up" in capsys.readouterr().out


def test_equal_weights_give_equal_hypotheses(
    settings: list[str], scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "generate.json"
    fairseq_generate.main([*settings, "--updates=60", "--sentences=5", f"--json={path}"])
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["sentences"] == 12
    assert [one for one in content["different"] if abs(one["gap"]) > fairseq_generate.TIE] == []
    assert "of 12 hypotheses are equal" in capsys.readouterr().out
    assert list(scratch.glob("checkpoint.*/checkpoint_last.pt"))
