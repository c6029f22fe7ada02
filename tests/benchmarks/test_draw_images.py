"""`attnbench draw` of runs on images: what they say beside the truth, and where a cell looks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from attnbench.benchmarks.cell import make_cell
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.image_pictures import draw_boxes, draw_labels
from attnbench.benchmarks.records import begin_record
from attnbench.datamodules.demo.detection import write_detection_demo
from attnbench.results import RunRecord, Store
from attnbench.tasks.image_pictures import BoxPicture, LabelPicture
from attnbench.tasks.registry import TASKS
from tests.benchmarks.test_cli import refused
from tests.benchmarks.tiny import leftovers
from tests.tasks.segmentation_world import SETTINGS, write_world
from tests.tasks.test_detection import TINY

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data for both tasks in `boxes` and `labels`, and runs of untrained models."""
    folder = tmp_path_factory.mktemp("images")
    write_detection_demo(folder / "boxes", train=4, val=2, test=4)
    write_world(folder / "labels", train=2, val=2)
    finish(folder, "detection", backbone="terms(0010)+deformable", gate="one",
           detections_per_image=8)  # fmt: skip
    finish(folder, "segmentation", head="dynamic(groups=2,kernel=3)", inference="sliding",
           window_width=32)  # fmt: skip
    return folder


def finish(folder: Path, task: str, row: str = "1", **settings: Any) -> Path:
    """Leave what a finished run leaves, with a model that has learnt nothing; gives its folder."""
    entry = TASKS[task]
    tiny, root = {"detection": (TINY, "boxes"), "segmentation": (SETTINGS, "labels")}[task]
    settings = {**tiny, "root": folder / root, **settings}
    cell = make_cell(entry, grid=task, row=row, seed=0, preset="tiny", settings=settings)
    store = Store(folder / "runs")
    data: Any = entry.data(cell.config)
    seen = {"card": data.card().model_dump(mode="json")}
    store.write(
        RunRecord.model_validate({**begin_record(cell, ""), "status": "done", "data": seen})
    )
    torch.manual_seed(0)
    module = entry.build(cell.config, data)
    weights = dict(module.named_parameters()) | dict(module.named_buffers())
    safetensors.torch.save_file(weights, store.path(cell).parent / "weights.safetensors")
    return store.path(cell).parent


def run_of(folder: Path, task: str, row: str = "1") -> Path:
    """Folder of a run."""
    dataset = {"detection": "demo", "segmentation": "cityscapes"}[task]
    return Store(folder / "runs").folder(task, dataset, "tiny", row, 0)


def words(folder: Path, task: str, *more: str, row: str = "1") -> list[str]:
    """The words of `attnbench draw RUN --root …`."""
    root = folder / {"detection": "boxes", "segmentation": "labels"}[task]
    return ["draw", str(run_of(folder, task, row)), "--root", str(root), *more]


def test_detections_stand_beside_the_true_boxes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads((folder / "boxes/annotations/instances_test2017.json").read_text())
    image = found["images"][0]
    names = {one["id"]: one["name"] for one in found["categories"]}
    true = [a for a in found["annotations"] if a["image_id"] == image["id"]]
    for name in ("a.svg", "b.svg"):
        item = ["--item", str(image["id"]), "--save", str(tmp_path / name)]
        assert main(words(folder, "detection", *item, "--least-score", "0.1")) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and f"boxes found and {len(true)} true" in printed.out
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert f"<!-- 1, demo test {image['id']} -->" in text and f"true: {len(true)} box" in text
    drawn = int(printed.out.split(": ")[1].split()[0])
    assert drawn > 0 and f"found: {drawn} box" in text and "of score 0.1 or more" in text
    for category in {names[a["category_id"]] for a in true}:
        number = sum(names[a["category_id"]] == category for a in true)
        assert text.count(f"<!-- {category} -->") == number, "one label a true box"
        assert f"found, {number} true -->" in text

    assert main(words(folder, "detection", "--item", "0")) == 0
    printed = capsys.readouterr()
    path = run_of(folder, "detection") / "picture.test.0.png"
    assert f"wrote {path}: 0 boxes found" in printed.out
    assert "no detection has a score of 0.5; the best has 0." in printed.err
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_run_on_images_can_be_asked_where_only_the_images_asked_for_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unneeded = {"detection": ("boxes", "train2017"), "segmentation": ("labels", "*/train")}
    for task, (root, pattern) in unneeded.items():
        other = tmp_path / root
        shutil.copytree(folder / root, other)
        for path in other.glob(pattern):
            shutil.rmtree(path)
        words = ["predict", str(run_of(folder, task)), "--split", "val", "--root", str(other)]
        assert main([*words, "--out", str(tmp_path / task)]) == 0, capsys.readouterr().err
        capsys.readouterr()


def test_classes_of_other_names_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many of them: the weights would fit, and every name would be wrong."""
    other = tmp_path / "boxes"
    shutil.copytree(folder / "boxes", other)
    for path in (other / "annotations").iterdir():
        path.write_text(path.read_text().replace('"sun"', '"star"'))
    run = str(run_of(folder, "detection"))
    for words in (["predict", run], ["draw", run, "--item", "0"]):
        assert main([*words, "--root", str(other)]) == 2
        error = capsys.readouterr().err
        assert "classes square, star, moon and the run was trained with square, sun, moon" in error


def test_labels_stand_beside_the_true_ones_in_the_colours_of_the_set(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.svg"
    item = ["--item", "lindau_000001_000019", "--split", "val", "--save", str(path)]
    assert main(words(folder, "segmentation", *item)) == 0
    assert f"wrote {path}: labels said and true" in capsys.readouterr().out
    text = path.read_text()
    for name in ("road", "sky", "car", "void", "said by the model"):
        assert f"<!-- {name} -->" in text
    assert "% of its pixels are said so -->" in text
    assert "#804080" in text and "#808080" in text  # road, as Cityscapes paints it; void is grey

    unlabelled = ["--item", "0", "--split", "server", "--save", str(path)]
    assert main(words(folder, "segmentation", *unlabelled)) == 0
    printed = capsys.readouterr()
    assert printed.err == "attnbench: server has no labels to stand beside\n"
    assert "void" not in path.read_text()


def test_a_cell_of_a_deformable_block_with_attention_has_two_panels(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cell.svg"
    cell = ["--item", "0", "--cell", "2,3", "--layer", "layer3.1", "--head", "2"]
    assert main(words(folder, "detection", *cell, "--save", str(path))) == 0
    printed = capsys.readouterr()
    what = "cell 2,3 of layer3.1, deformable 3 x 3 and terms(0010), gate 1"
    assert printed.out == f"wrote {path}: {what}\n" and printed.err == ""
    text = path.read_text()
    # The demo's first image is 128 x 96 pixels, scaled to 85 x 64 and padded to 96 x 64.
    assert "layer3.1, cell 2,3 of 4 x 6 cells of 16 pixels, centred on 0, 16, …" in text
    assert "terms(0010), gate 1: head 2; arrows to 10 of 24 keys, " in text
    assert "deformable 3 x 3: taps moved by 0.00 cells on average" in text

    pixel = ["--item", "0", "--pixel", "95,127", "--layer", "3"]
    assert main(words(folder, "detection", *pixel)) == 0
    path = run_of(folder, "detection") / "attention.test.0.layer4.0.cell1,2.png"
    assert f"wrote {path}: cell 1,2 of layer4.0" in capsys.readouterr().out and path.is_file()


def test_a_kernel_is_drawn_around_its_cell_and_reading_the_image_whole_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = ["--item", "0", "--cell", "0,1"]
    assert main(words(folder, "segmentation", *cell)) == 0
    printed = capsys.readouterr()
    path = run_of(folder, "segmentation") / "attention.test.0.head.cell0,1.png"
    what = "cell 0,1 of head, dynamic(groups=2,kernel=3), gate 0"
    assert printed.out == f"wrote {path}: {what}\n"
    assert "the image is read whole here, though this run's inference slides windows" in (
        printed.err
    )
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert (abs(pixels - np.array([0, 216, 255])).sum(2) < 20).any()  # the square of the cell


def test_an_image_of_one_row_without_a_class_is_drawn_too(tmp_path: Path) -> None:
    image, void = np.zeros((1, 40, 3), np.uint8), np.full((1, 40), 255, np.uint8)
    palette = np.array([[255, 0, 0]], np.uint8)
    picture = LabelPicture(image, ("one",), palette, np.zeros((1, 40), np.int64), void)
    draw_labels(tmp_path / "row.svg", picture, "a row")
    assert "<!-- true: all is void -->" in (tmp_path / "row.svg").read_text()
    draw_boxes(tmp_path / "row.svg", BoxPicture(image, ("one",), (), ()), 0.5, "a row")
    assert "<!-- true: 0 boxes -->" in (tmp_path / "row.svg").read_text()


@pytest.mark.parametrize(
    ("task", "line", "said"),
    [
        (
            "detection",
            "--item 0 --cell 4,0",
            "is outside of the map of layer4.1, the last layer: rows go",
        ),
        ("detection", "--item 0 --pixel 96,0", "pixel 96,0 is outside of the image: rows go from"),
        ("detection", "--item 0 --cell 0,0 --layer layer9", "no layer 'layer9' that looks beyond"),
        ("detection", "--item 0 --cell 0,0 --head 3", "layer4.1 has 2 heads, no --head 3"),
        ("detection", "--item 9 --cell 0,0", "no item '9' in test: give a position from 0 to 3"),
        ("detection", "--item 0 --layer layer4.1", "--layer is of a cell, which needs --cell"),
        ("segmentation", "--item 0 --cell 0,0 --head 3", "head has 2 groups, no --head 3"),
        ("segmentation", "--item 0 --least-score 1", "for detections, which this run doesn't make"),
    ],
)
def test_what_a_run_on_images_has_not_is_said_in_one_sentence(
    task: str, line: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    assert said in refused(words(folder, task, *line.split()), capsys)
    assert sorted(folder.rglob("*")) == before and leftovers(folder) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--item 0 --cell 1", "--cell: '1' must be two whole numbers from 0, such as 4,7"),
        ("--item 0 --cell -1,2", "argument --cell"),
        ("--item 0 --pixel 1,x", "--pixel: '1,x' must be two whole numbers"),
        ("--item 0 --cell 1,2 --pixel 1,2", "--cell and --pixel both name the cell"),
        ("--item 0 --cell 1,2 --least-score 1", "--least-score is for detections, which a cell"),
        ("--item 0 --least-score 1.5", "'1.5' must be a number from 0 to 1"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(["draw", "nowhere", *line.split()], capsys)


def test_a_run_without_attention_has_no_cell_to_draw(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(folder, "detection", row="0")
    said = refused(words(folder, "detection", "--item", "0", "--cell", "0,0", row="0"), capsys)
    assert "no block of this run looks beyond its neighbourhood (backbone is none)" in said
    finish(folder, "detection", row="2", backbone="deformable")
    line = ["--item", "0", "--cell", "0,0", "--head", "1"]
    said = refused(words(folder, "detection", *line, row="2"), capsys)
    assert "layer4.1 is deformable 3 x 3, which has no heads: leave out --head" in said
