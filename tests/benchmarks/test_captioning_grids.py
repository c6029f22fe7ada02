"""Captioning cells through the runner: both phases, resumed bit by bit, and their predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.grid import load_grid
from attnbench.datamodules.demo.captioning import write_captioning_demo
from attnbench.results import Published, RunRecord, Store
from tests.benchmarks.tiny import command

pytestmark = pytest.mark.timeout(300)

SETTINGS: dict[str, Any] = {
    "dataset": "demo",
    "dim": 16,
    "ffn_dim": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.2,
    "feature_dropout": 0.2,
    "min_count": 0,
    "batch_size": 10,
    "captions_per_image": 2,
    "xe_steps": 9,
    "learning_rate": 0.01,
    "schedule": "linear",
    "warmup_steps": 2,
    "scst_steps": 6,
    "scst_learning_rate": 1e-3,
    "scst_dropout": True,
    "samples": 2,
    "check_every": 3,
    "average_last": 2,
    "beam": 2,
    "max_words": 8,
}
ROWS = [
    {"row": "G-SAN", "set": {"encoder_self": "gsa(query)"}},
    {"row": "nowhere", "set": {"decoder_self": "gsa(query)"}},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 images in 4 batches an epoch, so that checkpoints fall into the middle of epochs."""
    folder = tmp_path_factory.mktemp("demo") / "captioning"
    return write_captioning_demo(folder, train=40, val=6, test=8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, Path]:
    """A grid and the output of a run of it that kept its checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    grid = folder / "tiny.yaml"
    values = {"grid": "own/tiny", "task": "captioning", "presets": {"tiny": SETTINGS}}
    grid.write_text(yaml.safe_dump(values | {"rows": ROWS, "metrics": ["cider_d", "xe_cider_d"]}))
    words = command("run", grid, folder / "out", "--root", str(root), "--keep-checkpoints")
    assert main(words) == 0
    return grid, folder / "out"


def cell(out: Path, row: str = "G-SAN") -> Path:
    return Store(out).folder("own/tiny", "demo", "tiny", row, 0)


def record_of(out: Path, row: str = "G-SAN") -> RunRecord:
    return RunRecord.from_json((cell(out, row) / "record.json").read_bytes())


def test_the_record_has_the_phase_both_scores_and_the_reasons(run: tuple[Path, Path]) -> None:
    record = record_of(run[1])
    assert (record.status, record.phase, record.items) == ("done", "self-critical", 8)
    for name in ("cider_d", "bleu4", "rouge_l", "position_accuracy"):
        assert record.metrics[name] is not None and record.metrics[f"xe_{name}"] is not None
    assert record.metrics["spice"] is None and record.notes["spice"]
    assert "df:" in record.signatures["reward"]
    folder = cell(run[1])
    weights = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert set(weights) == {"weights.safetensors", "cross-entropy.weights.safetensors"}
    assert len(set(weights.values())) == 2
    log = (folder / "run.log").read_text()
    assert "training (cross-entropy)" in log and "training (self-critical)" in log


def test_geometry_is_refused_where_there_are_no_boxes(run: tuple[Path, Path]) -> None:
    record = record_of(run[1], "nowhere")
    assert record.status == "refused" and "decoder_self" in record.reason


@pytest.mark.parametrize(
    ("phase", "step"), [("cross-entropy", 6), ("cross-entropy", 9), ("self-critical", 3)]
)
def test_a_run_goes_on_bit_by_bit_in_both_phases(
    run: tuple[Path, Path], root: Path, tmp_path: Path, phase: str, step: int
) -> None:
    grid, done = run
    out = tmp_path / "out"
    shutil.copytree(done, out)
    folder = cell(out)
    expected = (folder / "weights.safetensors").read_bytes()
    for path in (*folder.glob("*.safetensors"), folder / "record.json"):
        path.unlink()
    for path in folder.rglob("*.ckpt"):
        late = int(path.stem.removeprefix("step=")) > step
        if path.parent.name != phase:
            late = phase == "cross-entropy"
        if late:
            path.unlink()
    assert main(command("run", grid, out, "--root", str(root))) == 0
    assert (folder / "weights.safetensors").read_bytes() == expected
    went_on = (folder / "run.log").read_text().count("going on from")
    assert went_on == (2 if phase == "self-critical" else 1)
    assert record_of(out).metrics == record_of(done).metrics


def test_predict_writes_the_captions_that_were_scored(
    run: tuple[Path, Path], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cell(run[1])
    scored = json.loads((folder / "predictions.json").read_text())
    words = ["predict", str(folder), "--root", str(root)]
    assert main([*words, "--out", str(tmp_path / "all.json")]) == 0
    assert json.loads((tmp_path / "all.json").read_text()) == scored
    assert main([*words, "--split", "val", "--out", str(tmp_path / "val.json"), "beam=1"]) == 0
    assert len(json.loads((tmp_path / "val.json").read_text())) == 6
    assert main(words) == 0
    assert main([*words, "--phase", "cross-entropy"]) == 0
    earlier = folder / "predictions.test.cross-entropy.json"
    assert len(json.loads(earlier.read_text())) == 8
    assert json.loads((folder / "predictions.test.json").read_text()) == scored
    assert "wrote" in capsys.readouterr().out


def test_predict_names_what_is_wrong(
    run: tuple[Path, Path], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cell(run[1])
    place = ["--root", str(root)]
    other = write_captioning_demo(tmp_path / "other", seed=3, train=2, val=1, test=1)
    for words, told in (
        ([str(tmp_path)], "there is no finished run in"),
        ([str(cell(run[1], "nowhere")), *place], "of a run that is refused"),
        ([str(folder), *place, "--phase", "fine"], "its phases are self-critical, cross-entropy"),
        ([str(folder), *place, "--split", "tset"], "There is no split 'tset'"),
        ([str(folder), *place, "dim=32"], "another model's"),
        ([str(folder), "--root", str(other)], "another vocabulary"),
    ):
        assert main(["predict", *words]) == 2, words
        assert told in capsys.readouterr().err, words


def test_every_captioning_grid_has_the_published_rows_in_the_papers_order() -> None:
    for name in ("layers", "norms", "which", "geometry", "full", "server"):
        grid = load_grid(f"ngsan/{name}")
        assert grid.task == "captioning" and grid.presets_from == "captioning"
        assert grid.published is not None
        place = (grid.published.paper, grid.published.table, grid.published.dataset_split)
        (table,) = [
            table
            for table in Published.load().tables()
            if (table.paper, table.table, table.dataset_split) == place
        ]
        assert [row.published for row in grid.rows if row.published] == [*table.rows]


def test_a_second_phase_that_runs_off_has_diverged(root: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"scst_learning_rate": 1e30, "xe_steps": 3}
    values = {"grid": "own/tiny", "task": "captioning", "presets": {"tiny": settings}}
    grid = tmp_path / "tiny.yaml"
    grid.write_text(yaml.safe_dump(values | {"rows": ROWS[:1]}))
    out = tmp_path / "out"
    assert main(command("run", grid, out, "--root", str(root))) == 1
    record = record_of(out)
    assert record.status == "diverged"
    assert "lower scst_learning_rate (1e+30)" in record.reason


def test_cider_of_one_image_is_said_to_mean_nothing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**SETTINGS, "scst_steps": 0, "xe_steps": 2, "eval_images": 1}
    words = [f"{name}={value}" for name, value in settings.items() if name != "dataset"]
    out = ["--root", str(root), "--out", str(tmp_path), "row=one"]
    assert main(["train", "captioning", *words, *out]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("one seed 0: cider_d, cider: CIDEr of one image is 0 whatever") == 1
    (record,) = Store(tmp_path).records()
    assert record.metrics["cider_d"] == 0 and "CIDEr of one image" in record.notes["cider_d"]
    assert "bleu4" not in record.notes and "bleu4" in record.metrics


def test_attention_of_a_caption_is_drawn_with_the_weights_of_either_phase(
    run: tuple[Path, Path], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = json.loads((cell(run[1]) / "predictions.json").read_text())[1]
    words = ["draw", str(cell(run[1])), "--item", str(image["image_id"]), "--root", str(root)]
    pictures = []
    for phase in ("self-critical", "cross-entropy"):
        pictures.append(tmp_path / f"{phase}.svg")
        assert main([*words, "--phase", phase, "--save", str(pictures[-1])]) == 0
        assert "words from regions, regions from regions, words from words" in (
            capsys.readouterr().out
        )
    final, earlier = (picture.read_text() for picture in pictures)
    assert final != earlier
    assert all(f"<!-- {word} -->" in final for word in image["caption"].split())
    assert main(["draw", str(cell(run[1], "nowhere")), "--item", "0"]) == 2
    assert "is of a run that is refused" in capsys.readouterr().err
