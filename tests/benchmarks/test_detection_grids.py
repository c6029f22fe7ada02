"""The detection grids: published rows and costs, presets, and cells through the runner."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.cost import grid_costs
from attnbench.benchmarks.grid import load_grid
from attnbench.datamodules.demo.detection import write_detection_demo
from attnbench.results import Published, RunRecord, Store
from tests.benchmarks.tiny import command

pytestmark = pytest.mark.timeout(300)

GRIDS = ("detection", "detection-deformable", "detection-dynamic")
SETTINGS: dict[str, Any] = {
    "dataset": "demo",
    "resnet": "resnet18",
    "heads": 2,
    "batch_norm": "batch",
    "fpn_channels": 8,
    "box_head_dim": 16,
    "min_size": 32,
    "max_size": 48,
    "anchor_sizes": [8, 16, 32, 64, 128],
    "rpn_train_proposals": 20,
    "rpn_test_proposals": 10,
    "rpn_samples": 16,
    "box_samples": 16,
    "batch_size": 2,
    "jitter": 0.2,
    "attention_dropout": 0.2,
    "gate": "one",
    "learning_rate": 0.01,
    "clip_norm": 10.0,
    "warmup_steps": 2,
    "max_steps": 7,
    "check_every": 2,
    "validate_every": 3,
    "average_last": 2,
    "score_threshold": 0.01,
}
ROWS = [
    {"row": "0010+deformable", "set": {"backbone": "terms(0010)+deformable"}},
    {"row": "nowhere", "set": {"backbone": "gsa(content)", "key_stride": 2}},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """7 training images with boxes in 4 batches an epoch; checkpoints fall into its middle."""
    folder = tmp_path_factory.mktemp("demo") / "detection"
    return write_detection_demo(folder, train=8, val=2, test=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, Path]:
    """A grid and the output of a run of its first row that kept its checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    grid = folder / "tiny.yaml"
    values = {"grid": "own/tiny", "task": "detection", "presets": {"tiny": SETTINGS}}
    grid.write_text(yaml.safe_dump(values | {"rows": ROWS[:1], "metrics": ["box_ap"]}))
    words = command("run", grid, folder / "out", "--root", str(root), "--keep-checkpoints")
    assert main([*words, "--threads", "1"]) == 0
    return grid, folder / "out"


def cell(out: Path) -> Path:
    return Store(out).folder("own/tiny", "demo", "tiny", ROWS[0]["row"], 0)


def record_of(out: Path) -> RunRecord:
    return RunRecord.from_json((cell(out) / "record.json").read_bytes())


def test_a_record_has_the_scores_and_how_they_came_about(run: tuple[Path, Path]) -> None:
    record = record_of(run[1])
    assert (record.status, record.items) == ("done", 4)
    assert record.metrics["box_ap"] is not None
    assert "images:4" in record.signatures["box_ap"]
    assert record.metrics["box_ap_large"] is None and record.notes["box_ap_large"]
    assert record.macs and record.parameters


def test_a_run_goes_on_bit_by_bit_over_a_validation(
    run: tuple[Path, Path], root: Path, tmp_path: Path
) -> None:
    grid, done = run
    out = tmp_path / "out"
    shutil.copytree(done, out)
    folder = cell(out)
    expected = (folder / "weights.safetensors").read_bytes()
    for path in (*folder.glob("*.safetensors"), folder / "record.json"):
        path.unlink()
    kept = sorted(folder.rglob("*.ckpt"))
    assert len(kept) == 2
    kept[-1].unlink()
    words = command("run", grid, out, "--root", str(root))
    assert main([*words, "--threads", "1"]) == 0
    assert (folder / "weights.safetensors").read_bytes() == expected
    assert "going on from" in (folder / "run.log").read_text()
    assert record_of(out).metrics == record_of(done).metrics


def test_predict_writes_coco_results_of_any_split(
    run: tuple[Path, Path], root: Path, tmp_path: Path
) -> None:
    folder = cell(run[1])
    scored = json.loads((folder / "predictions.json").read_text())
    assert scored and set(scored[0]) == {"image_id", "category_id", "bbox", "score"}
    words = ["predict", str(folder), "--root", str(root)]
    assert main([*words, "--out", str(tmp_path / "test.json")]) == 0
    assert json.loads((tmp_path / "test.json").read_text()) == scored
    few = ["--split", "val", "--out", str(tmp_path / "val.json"), "detections_per_image=1"]
    assert main([*words, *few]) == 0
    found = json.loads((tmp_path / "val.json").read_text())
    truth = json.loads((root / "annotations" / "instances_val2017.json").read_text())
    assert {each["image_id"] for each in found} <= {image["id"] for image in truth["images"]}
    assert len({each["image_id"] for each in found}) == len(found) <= 2


def test_train_says_what_is_wrong_in_one_sentence(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--root", str(root), "--out", str(tmp_path)]
    for words, told in (
        (["batch_norm=frozen"], "set weights to a file of resnet50"),
        (["backbone=gsa(cell)"], "'gsa(cell)': the form is"),
        (["batch_norm=batch", "weights=nowhere.pth"], "nowhere.pth"),
    ):
        assert main(["train", "detection", *words, *place]) in (1, 2), words
        said = capsys.readouterr()
        assert told in said.out + said.err and "Traceback" not in said.err, words


@pytest.mark.parametrize("name", GRIDS)
def test_every_preset_of_every_row_can_be_built(name: str) -> None:
    grid = load_grid(f"spatial-attention/{name}")
    assert grid.task == "detection" and grid.presets_from == "detection"
    assert grid.preset_names == ["paper", "2x", "small", "smoke"]
    for preset in grid.preset_names:
        cells = make_cells(grid, Choice(preset=preset))
        assert len({one.config_hash for one in cells}) == len(cells) == len(grid.rows)
        assert {one.dataset for one in cells} == {
            {"small": "bccd", "smoke": "demo"}.get(preset, "coco")
        }
        assert not [one.refusal for one in cells if one.refusal]


def test_the_rows_are_the_papers() -> None:
    printed = {
        table.table: set(table.rows)
        for table in Published.load().tables()
        if (table.paper, table.dataset_split) == ("spatial_attention", "coco-val2017")
    }
    figure, deformable, dynamic = (load_grid(f"spatial-attention/{name}") for name in GRIDS)
    terms = [f"{number:04b}" for number in range(15, 0, -1)]
    assert [row.row for row in figure.rows] == ["w/o", *terms]
    for row in figure.rows:
        spec = "none" if row.row == "w/o" else f"terms({row.row})"
        assert row.set == {"backbone": spec}
        assert (row.published == row.row) == (row.row in printed["table2"])
    beside = [row for row in deformable.rows if row.published is None]
    assert [row.row for row in beside] == ["0010"]  # to stand beside 0010+deformable
    assert {row.published for row in deformable.rows} - {None} == printed["table2"]
    assert {row.published for row in dynamic.rows} == printed["table3"]
    for row in (*deformable.rows, *dynamic.rows):
        assert row.row == row.published or row in beside


def test_1x_and_2x_are_12_and_24_epochs_of_16_images() -> None:
    for preset, epochs in (("paper", 12), ("2x", 24)):
        (one,) = make_cells(load_grid("spatial-attention/detection"), Choice(preset, rows=("w/o",)))
        config: Any = one.config
        assert config.batch_size * config.accumulate == 16
        epoch = -(-117_266 // 16)
        assert config.check_every == epoch and config.max_steps == epochs * epoch
        drops = [round(share * config.max_steps) / epoch for share in config.milestones]
        assert drops == pytest.approx([2 / 3 * epochs, 11 / 12 * epochs], abs=1e-3)


def test_what_attention_adds_costs_what_the_paper_prints() -> None:
    """A row of each kind, less the row without attention; `attnbench cost` shows them all."""
    deformable = ("w/o", "1111", "w/o+deformable", "0010+deformable")
    wanted = {"detection-deformable": deformable, "detection-dynamic": ("dynamic nk=13",)}
    costs = {
        cost.row: cost
        for name, rows in wanted.items()
        for cost in grid_costs(load_grid(f"spatial-attention/{name}"), Choice(rows=rows))
    }
    macs = {row: (cost.macs or 0) / 1e9 for row, cost in costs.items()}
    printed = {row: cost.published["GFLOPs"] for row, cost in costs.items()}
    for row in ("w/o", "w/o+deformable"):
        assert macs[row] == pytest.approx(printed[row], rel=0.025)
    for row in ("1111", "dynamic nk=13", "0010+deformable"):
        bare = "w/o+deformable" if row.endswith("+deformable") else "w/o"
        added = printed[row] - printed[bare]
        assert macs[row] - macs[bare] == pytest.approx(added, rel=0.015), row


def test_annotations_of_one_name_in_two_folders_are_two_settings() -> None:
    grid = load_grid("spatial-attention/detection")
    cells = [
        make_cells(grid, Choice(rows=["w/o"], settings={"annotations": f"{fold}/all.json"}))[0]
        for fold in ("one", "two")
    ]
    assert cells[0].config_hash != cells[1].config_hash
    assert [cell.stored_config()["annotations"] for cell in cells] == [
        "one/all.json",
        "two/all.json",
    ]
