"""Segmentation cells through the runner: exact resumes, predictions as PNGs, the papers' rows."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.folders import write_folder
from attnbench.benchmarks.grid import load_grid
from attnbench.models.backbones import AttendedResNet
from attnbench.results import Published, RunRecord, Store
from tests.benchmarks.tiny import command, leftovers
from tests.tasks.segmentation_world import HEIGHT, SETTINGS, WIDTH, write_world

pytestmark = pytest.mark.timeout(300)

GRIDS = ("segmentation", "segmentation-deformable", "segmentation-dynamic")
TINY: dict[str, Any] = SETTINGS | {
    "decoder_channels": 8,
    "head_dropout": 0.2,
    "jitter": 0.2,
    "auxiliary": True,
    "optimiser": "sgd",
    "learning_rate": 0.01,
    "clip_norm": 5.0,
    "max_steps": 8,
    "check_every": 4,
    "average_last": 2,
}
ROWS = [
    {"row": "w/o+deformable", "set": {"backbone": "deformable"}},
    {"row": "nowhere", "set": {"backbone": "dynamic(kernel=3)", "key_stride": 2}},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 images in 3 batches an epoch, so that checkpoints fall into the middle of epochs."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, Path]:
    """A grid and the output of a run of it that kept its checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    grid = folder / "tiny.yaml"
    values = {"grid": "own/tiny", "task": "segmentation", "presets": {"tiny": TINY}}
    grid.write_text(yaml.safe_dump(values | {"rows": ROWS, "metrics": ["miou", "miou_absent0"]}))
    words = command("run", grid, folder / "out", "--root", str(root), "--keep-checkpoints")
    assert main(words) == 0
    return grid, folder / "out"


def cell(out: Path, row: str = "w/o+deformable") -> Path:
    return Store(out).folder("own/tiny", "cityscapes", "tiny", row, 0)


def record_of(out: Path, row: str = "w/o+deformable") -> RunRecord:
    return RunRecord.from_json((cell(out, row) / "record.json").read_bytes())


def test_the_record_has_scores_and_reasons_and_no_predictions(run: tuple[Path, Path]) -> None:
    record = record_of(run[1])
    assert (record.status, record.items) == ("done", 4)
    for name in ("miou", "miou_absent0", "pixel_accuracy", "mean_accuracy", "iou_road"):
        value = record.metrics[name]
        assert value is not None and 0 <= value <= 100
    nowhere = {name for name, value in record.metrics.items() if value is None}
    assert nowhere == set(record.notes) and all("iou_" in name for name in nowhere)
    assert not list(cell(run[1]).glob("predictions*"))
    history = (cell(run[1]) / "history.jsonl").read_text()
    assert "train/auxiliary" in history and "val/miou" in history


def test_strides_are_refused_where_a_variant_reads_no_other_cells(run: tuple[Path, Path]) -> None:
    record = record_of(run[1], "nowhere")
    assert record.status == "refused" and "set both to 1" in record.reason


def test_a_run_goes_on_bit_by_bit(run: tuple[Path, Path], root: Path, tmp_path: Path) -> None:
    """From the middle of an epoch, with crops, dropout, momentum and norms as they were."""
    grid, done = run
    out = tmp_path / "out"
    shutil.copytree(done, out)
    folder = cell(out)
    expected = (folder / "weights.safetensors").read_bytes()
    for path in (folder / "weights.safetensors", folder / "record.json"):
        path.unlink()
    (last,) = folder.rglob("step=00000008.ckpt")
    last.unlink()
    assert main(command("run", grid, out, "--root", str(root))) == 0
    assert "going on from step=00000004" in (folder / "run.log").read_text()
    assert (folder / "weights.safetensors").read_bytes() == expected
    assert record_of(out).metrics == record_of(done).metrics


def test_predict_writes_a_png_an_image_in_one_step(
    run: tuple[Path, Path], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", str(cell(run[1])), "--root", str(root)]
    out = tmp_path / "said"
    assert main([*words, "--out", str(out)]) == 0
    assert f"wrote {out}: 4 items" in capsys.readouterr().out
    names = sorted(path.name for path in out.iterdir())
    assert names == [f"lindau_{number:06}_000019.png" for number in range(4)]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with Image.open(out / names[0]) as image:
        assert image.size == (WIDTH, HEIGHT) and np.asarray(image).max() <= 33
    # Images without labels too, and into the run's folder by default.
    assert main([*words, "--split", "server"]) == 0
    assert [path.name for path in (cell(run[1]) / "predictions.server").iterdir()] == names[:1]
    # The same files again take the place of the old ones, also if some are missing or damaged.
    (out / names[0]).write_text("damaged")
    (out / names[1]).unlink()
    assert main([*words, "--out", str(out)]) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert not leftovers(tmp_path)


def test_predict_does_not_replace_what_it_did_not_write(
    run: tuple[Path, Path], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "said"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    words = ["predict", str(cell(run[1])), "--root", str(root), "--out"]
    assert main([*words, str(out)]) == 2
    assert "such as thesis.tex" in capsys.readouterr().err
    assert main([*words, str(out / "thesis.tex")]) == 2
    assert "is there and no folder" in capsys.readouterr().err
    assert (out / "thesis.tex").read_text() == "mine" and not leftovers(tmp_path)


def test_a_folder_that_can_not_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "said"
    assert write_folder(out, [("a", b"old"), ("b", b"old")]) == 2

    def contents() -> Any:
        yield "a", b"new"
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_folder(out, contents())
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {"a": b"old", "b": b"old"}
    assert not leftovers(tmp_path)


def test_a_finished_run_does_not_need_its_first_weights_again(root: Path, tmp_path: Path) -> None:
    weights = tmp_path / "resnet18.pth"
    torch.save(AttendedResNet("resnet18").state_dict(), weights)
    values = {**TINY, "max_steps": 1, "attended_stages": [5], "root": root, "weights": weights}
    words = [f"{name}={value}" for name, value in values.items() if name != "dataset"]
    out = ["--data", "cityscapes", "--out", str(tmp_path / "out"), "row=one"]
    assert main(["train", "segmentation", *words, *out]) == 0
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    weights.unlink()
    (path,) = (tmp_path / "out").glob("**/record.json")
    folder, record = path.parent, RunRecord.from_json(path.read_bytes())
    assert record.data.fingerprint["weights"] == digest, "another file of that name is told apart"
    assert main(["predict", str(folder), "--root", str(root)]) == 0


def test_a_run_does_not_go_on_from_what_other_weights_began(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights, out = tmp_path / "resnet18.pth", tmp_path / "out"
    torch.save(AttendedResNet("resnet18").state_dict(), weights)
    values = {**TINY, "max_steps": 1, "check_every": 1, "root": root, "weights": weights}
    words = [f"{name}={value}" for name, value in values.items() if name != "dataset"]
    begin = ["train", "segmentation", *words, "--data", "cityscapes", "--out", str(out), "row=one"]
    assert main([*begin, "--keep-checkpoints"]) == 0
    (record,) = out.glob("**/record.json")
    record.unlink()
    torch.save(AttendedResNet("resnet18").state_dict(), weights)
    capsys.readouterr()
    assert main(begin) == 2
    assert "begun on other training data or weights: give the --root and weights" in (
        capsys.readouterr().err
    )
    assert not record.exists() and list(out.rglob("*.ckpt"))
    assert main([*begin, "--again"]) == 0
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert RunRecord.from_json(record.read_bytes()).data.fingerprint["weights"] == digest


@pytest.mark.parametrize("name", GRIDS)
def test_every_published_row_is_there(name: str) -> None:
    grid = load_grid(f"spatial-attention/{name}")
    assert grid.task == "segmentation" and grid.published is not None
    (table,) = [
        table
        for table in Published.load().tables()
        if (table.paper, table.table, table.dataset_split)
        == ("spatial_attention", grid.published.table, "cityscapes-val")
    ]
    published = [row.published for row in grid.rows if row.published]
    if name == "segmentation":  # the figure has more rows, and deformable convolution is elsewhere
        assert published == [label for label in table.rows if "deformable" not in label]
        assert [row.row for row in grid.rows[1:]] == [f"{n:04b}" for n in range(15, 0, -1)]
    else:
        assert len(published) == len(table.rows) and set(published) == set(table.rows)


@pytest.mark.parametrize("name", GRIDS)
def test_every_row_can_be_built_in_every_preset(name: str) -> None:
    for preset in ("paper", "smoke"):  # the latter is built as small is
        for each in make_cells(load_grid(f"spatial-attention/{name}"), Choice(preset=preset)):
            config: Any = each.config
            assert each.refusal is None, each.refusal
            assert "deformable" not in config.head  # conv4 and conv5 only
            rest = config.backbone.replace("+deformable", "").replace("deformable", "none")
            assert rest == config.head


def test_the_paper_preset_is_ccnets_recipe() -> None:
    (row,) = make_cells(load_grid("spatial-attention/segmentation"), Choice(rows=("1111",)))
    config: Any = row.config
    assert row.dataset == "cityscapes"
    assert (config.crop_height, config.crop_width, config.batch_size) == (769, 769, 8)
    assert (config.optimiser, config.learning_rate, config.momentum) == ("sgd", 1e-2, 0.9)
    assert (config.schedule, config.power, config.max_steps) == ("poly", 0.9, 60_000)
    assert (config.resnet, config.output_stride, config.batch_norm) == ("resnet50", 8, "sync")
    assert (config.scale_min, config.scale_max, config.scale_step) == (0.7, 2.1, 0.1)
    assert config.auxiliary and config.auxiliary_weight == 0.4
    assert config.window == (769, 769) and config.inference == "sliding"
