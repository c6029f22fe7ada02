"""`attnbench draw`: curves of grids and attention of runs, as pictures that never differ."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from attnbench.benchmarks.cell import make_cell
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.curves import make_curves
from attnbench.benchmarks.errors import UsageError
from attnbench.benchmarks.grid import load_grid
from attnbench.benchmarks.history import History
from attnbench.benchmarks.parser import parse
from attnbench.benchmarks.running import Choice, make_cells
from attnbench.results import Store
from attnbench.tasks.registry import TaskEntry
from tests.benchmarks.test_any_task import toy  # noqa: F401
from tests.benchmarks.test_cli import refused
from tests.benchmarks.tiny import ROWS, cell_folder, command, leftovers, write_grid

pytestmark = pytest.mark.timeout(300)

DYNAMIC = {"row": "_dyn $x$", "set": {"encoder_self": "dynamic(kernel=3)"}}
"""A name that a picture could take for something else, and attention without a weight for all."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, demo_root: Path) -> tuple[Path, Path]:
    """A grid, and the output folder of a run of its rows with two seeds."""
    folder = tmp_path_factory.mktemp("done")
    grid = write_grid(folder, [*ROWS, DYNAMIC], decoder_layers=2)
    words = command("run", grid, folder / "out", "--root", str(demo_root), "--seeds", "0", "1")
    assert main([*words, "--keep-checkpoints"]) == 0
    return grid, folder / "out"


@pytest.fixture
def copy(done: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The same, to be changed."""
    shutil.copytree(done[1], tmp_path / "out")
    shutil.copy(done[0], tmp_path)
    return tmp_path / done[0].name, tmp_path / "out"


def cells_of(grid: Path, **choice: Any) -> list[Any]:
    return make_cells(load_grid(str(grid)), Choice(preset="tiny", seeds=(0, 1), **choice))


def histories(out: Path, row: str) -> list[list[dict[str, Any]]]:
    files = [cell_folder(out, row, seed) / "history.jsonl" for seed in (0, 1)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_a_row_is_the_mean_of_its_seeds_with_a_band_from_the_least_to_the_most(
    done: tuple[Path, Path],
) -> None:
    grid, out = done
    curves, notes = make_curves(cells_of(grid), Store(out), "val/ppl")
    assert [(curve.row, curve.seeds) for curve in curves] == [
        ("w/o", 2),
        ("1111", 2),
        ("_dyn $x$", 2),
    ]
    assert notes == []
    first, second = histories(out, "1111")
    (segment,) = curves[1].segments
    assert segment.along == [4, 8, 12] and curves[1].begins == []
    for place in range(3):
        values = [lines[place]["values"]["val/ppl"] for lines in (first, second)]
        assert segment.mean[place] == pytest.approx(sum(values) / 2)
        assert (segment.low[place], segment.high[place]) == (min(values), max(values))
    assert any(low < high for low, high in zip(segment.low, segment.high, strict=True))
    for along, name in (("epochs", "epoch"), ("seconds", "seconds")):
        (segment,) = make_curves(cells_of(grid), Store(out), "val/ppl", along)[0][1].segments  # type: ignore[arg-type]
        assert segment.along[2] == pytest.approx((first[2][name] + second[2][name]) / 2)


def test_curves_name_rows_axes_and_grid_and_are_the_same_each_time(
    done: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = done
    words = command("draw", grid, out)
    for name in ("a.svg", "b.svg", "a.png", "b.png", "a.pdf", "b.pdf"):
        assert main([*words, "--save", str(tmp_path / name)]) == 0
    printed = capsys.readouterr()
    assert f"wrote {tmp_path / 'a.svg'}: val/loss of w/o, 1111, _dyn $x$" in printed.out
    assert printed.err == ""
    text = (tmp_path / "a.svg").read_text()
    shown = ["w/o (2 seeds)", "1111 (2 seeds)", "_dyn $x$ (2 seeds)", "updates", "val/loss"]
    assert [each for each in [*shown, "own/tiny, demo.tiny"] if each not in text] == []
    for suffix in ("svg", "png", "pdf"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")

    chosen = ["--rows", "1111", "--seeds", "1", "--metric", "train/loss", "--x", "seconds"]
    assert main([*words, *chosen]) == 0
    drawn = Store(out).folder("own/tiny", "demo", "tiny", "1111", 1).parents[1]
    assert str(drawn / "curves.train-loss.seconds.png") in capsys.readouterr().out
    assert main(command("status", grid, out)) == 0  # a picture there disturbs nothing
    assert main(command("table", grid, out)) == 0
    assert capsys.readouterr().err == ""


def test_what_is_not_drawn_is_named(
    copy: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = copy
    (cell_folder(out, "w/o", 0) / "history.jsonl").unlink()
    shutil.rmtree(cell_folder(out, "w/o", 1))
    shorter = cell_folder(out, "1111", 1) / "history.jsonl"
    shorter.write_text("".join(shorter.read_text().splitlines(keepends=True)[:2]))
    saved = tmp_path / "x.svg"
    assert main([*command("draw", grid, out), "--save", str(saved)]) == 0
    printed = capsys.readouterr()
    assert "w/o seed 0 has no history of its validations\n" in printed.err
    assert "w/o seed 1 has not been validated yet\n" in printed.err
    assert "1111 is drawn at the 2 validations that all its seeds have, of 3 of seed 0" in (
        printed.err
    )
    assert "val/loss of 1111, _dyn" in printed.out and "w/o" not in saved.read_text()
    assert main([*command("draw", grid, out), "--set", "beam=1"]) == 2
    assert "is done with other settings than these" in capsys.readouterr().err


def test_a_cell_that_is_not_finished_is_drawn_as_far_as_it_is(copy: tuple[Path, Path]) -> None:
    grid, out = copy
    folder = cell_folder(out, "1111")
    (folder / "record.json").unlink()
    (folder / "history.jsonl").unlink()
    live = History(next(folder.rglob("history.jsonl")))
    live.keep_until("", 8)
    cells = [cell for cell in cells_of(grid, rows=["1111"]) if cell.seed == 0]
    (curve,), notes = make_curves(cells, Store(out), "val/loss")
    assert curve.segments[0].along == [4, 8] and notes == []


def test_phases_follow_one_another(
    toy: TaskEntry,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "toy", "row=line", "accelerator=cpu", "--out", str(tmp_path)]
    assert main(words) == 0
    names = {"grid": "train/toy", "row": "line", "seed": 0, "preset": "custom"}
    cell = make_cell(toy, **names, settings={"dataset": "demo"})  # type: ignore[arg-type]
    (curve,), _ = make_curves([cell], Store(tmp_path), "val/loss")
    assert [segment.phase for segment in curve.segments] == ["rough", "fine"]
    assert [segment.along for segment in curve.segments] == [[2, 4, 6], [8, 10]]
    assert curve.begins == [6]
    (by_epoch,), _ = make_curves([cell], Store(tmp_path), "val/loss", "epochs")
    assert by_epoch.begins == [3] and by_epoch.segments[1].along == [4, 5]
    with pytest.raises(UsageError, match="no validation has 'val/los'; there are val/loss"):
        make_curves([cell], Store(tmp_path), "val/los")


def test_attention_of_a_translation_shows_its_words(
    done: tuple[Path, Path],
    demo_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = cell_folder(done[1], "1111")
    words = ["draw", str(folder / "record.json"), "--item", "2", "--root", str(demo_root)]
    for name in ("a.svg", "b.svg"):
        assert main([*words, "--save", str(tmp_path / name)]) == 0
    printed = capsys.readouterr()
    names = "target from source, source from source, target from target"
    assert f"wrote {tmp_path / 'a.svg'}: {names}" in printed.out and printed.err == ""
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    pair = [
        (demo_root / f"test.{language}").read_text().splitlines()[2] for language in ("en", "de")
    ]
    known = [word for line in pair for word in line.split() if f"<!-- {word} -->" in text]
    assert len(known) > 4 and "1111, demo test 2: last layer, mean of heads" in text

    assert main([*words, "--layer", "1", "--head", "2", "--threads", "1", "beam=1"]) == 0
    assert f"wrote {folder / 'attention.test.2.layer1.head2.png'}" in capsys.readouterr().out
    second = tmp_path / "second.svg"
    assert main([*words, "--layer", "2", "--save", str(second)]) == 0
    said = capsys.readouterr().err
    assert said == "attnbench: source from source is left out: it has 1 layer, no --layer 2\n"
    assert second.read_bytes() != (tmp_path / "a.svg").read_bytes()


def test_attention_without_a_weight_for_every_key_is_left_out_or_refused(
    copy: tuple[Path, Path], demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--item", "0", "--root", str(demo_root)]
    assert main(["draw", str(cell_folder(copy[1], "_dyn $x$")), *words]) == 0
    printed = capsys.readouterr()
    assert "source from source is left out: encoder_self is dynamic(kernel=3), which doesn't" in (
        printed.err
    )
    assert printed.out.rstrip().endswith("target from source, target from target")
    assert main(["draw", str(cell_folder(copy[1], "w/o")), *words]) == 0
    assert "encoder_self is none, which is no attention" in capsys.readouterr().err


RUN = "RUN"
"""Stands for the folder of a run in the command lines below."""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("draw nowhere --item 1", "there is no finished run in nowhere: give the folder"),
        ("draw spatial-attention/nmt-slef", "did you mean spatial-attention/nmt-self"),
        (f"draw {RUN}", "is a run: name an item to draw with --item ID"),
        (f"draw {RUN} --item 8", "no item '8' in test: give a position from 0 to 7"),
        (f"draw {RUN} --item -x", "no item '-x' in test: give a position"),
        (f"draw {RUN} --item 1 --split tset", "tset"),
        (f"draw {RUN} --item 1 --layer 3", "source from source: it has 1 layer, no --layer 3"),
        (f"draw {RUN} --item 1 --head 3", "target from source: it has 2 heads, no --head 3"),
        (f"draw {RUN} --item 1 --head men", "'men' must be a whole number from 1 on"),
        (f"draw {RUN} --item 1 --metric x", "--metric is an option of a grid's curves"),
        (f"draw {RUN} --item 1 --out x.png", "the picture's file is --save FILE"),
        (f"draw {RUN} --item 1 --save x.gif", "x.gif: a picture's name ends in .png, .svg, .pdf"),
        (f"draw {RUN} --item 1 --phase second", "its training has only one phase"),
        (f"draw {RUN} --item 1 --save {RUN}/record.json/x.svg", "can't write"),
        ("draw GRID --save x", "x: a picture's name ends in"),
        ("draw GRID --save GRID/x.png", "can't write"),
        ("draw GRID --out x.png", "that is the folder of the results; name the picture by --save"),
        ("draw GRID --out nowhere", "no validation of own/tiny, demo.tiny, is kept in nowhere"),
        ("draw GRID --metric bleu", "no validation has 'bleu'; there are train/loss, val/loss"),
        ("draw GRID --x update", "did you mean updates"),
        ("draw GRID --rows 111", "no row '111'; did you mean 1111"),
        ("draw GRID --split test", "--split is an option of a run's attention"),
        ("draw GRID beam=1", "beam=1 is an option of a run's attention, which needs --item ID; "
         "for a grid write --set"),
        ("draw", "required: GRID|RUN"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_one_sentence(
    line: str,
    said: str,
    done: tuple[Path, Path],
    demo_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid, out = done
    of_grid = ["--preset", "tiny", *([] if "--out" in line else ["--out", str(out)])]
    of_run = [] if "--root" in line else ["--root", str(demo_root)]
    folder = str(cell_folder(out, "1111"))
    words = [w.replace("GRID", str(grid)).replace(RUN, folder) for w in line.split()]
    more = of_grid if "GRID" in line else of_run if RUN in line and "--item" in line else []
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert said in refused([*words, *more], capsys)
    assert leftovers(out) == []
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}


def test_without_matplotlib_the_extra_is_named(
    done: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refused(command("draw", *done), capsys)
    assert "needs matplotlib, which isn't installed; install attnbench[draw]" in said


def test_an_item_may_begin_with_a_dash() -> None:
    assert parse(["draw", "x", "--item", "-3g5yACwYnA[1]"]).item == "-3g5yACwYnA[1]"
    assert parse(["draw", "x", "--item=-3g", "--split", "val"]).item == "-3g"
