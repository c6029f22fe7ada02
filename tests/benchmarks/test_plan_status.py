"""What `plan` and `status` say before, during and after a run."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.grid import load_grid
from attnbench.benchmarks.lock import CellLock
from attnbench.benchmarks.runlog import RunLog
from attnbench.benchmarks.status import CellStatus, status_table
from attnbench.results import RunRecord, Store
from tests.benchmarks.tiny import ROWS, cell_folder, command, write_grid

REFUSED = {"row": "n", "set": {"decoder_self": "nsa"}}


def asked(name: str, grid: Path, out: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    capsys.readouterr()
    assert main(command(name, grid, out, "--json", *more)) == 0
    return json.loads(capsys.readouterr().out)


def present_hash(grid: Path, row: str, **settings: Any) -> str:
    """The hash of the settings that a row of `grid` has now."""
    choice = Choice(preset="tiny", rows=[row], settings=settings)
    return make_cells(load_grid(str(grid)), choice)[0].config_hash


def write_record(out: Path, row: str, **fields: Any) -> None:
    values: dict[str, Any] = {
        "grid": "own/tiny",
        "row": row,
        "seed": 0,
        "task": "translation",
        "dataset": "demo",
        "preset": "tiny",
        "status": "done",
        "config_hash": "other settings",
    }
    Store(out).write(RunRecord(**values | fields))


def test_the_plan_counts_cells_costs_and_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, [*ROWS, REFUSED]), tmp_path / "out"
    plan = asked("plan", grid, out, capsys, "--seeds", "0", "1", "--gmacs", "2")
    assert [(c["row"], c["seed"], c["action"]) for c in plan["cells"]] == [
        (row, seed, action)
        for seed in (0, 1)
        for row, action in (("w/o", "run"), ("1111", "run"), ("n", "n/a"))
    ]
    assert "decoder_self" in plan["cells"][2]["reason"]
    cell = plan["cells"][1]
    # 12 updates of 300 tokens, counted in passes of 50; three passes' worth each
    assert cell["training_macs"] == pytest.approx(3 * cell["macs"] * 12 * 300 / 50)
    assert cell["seconds_estimated"] == pytest.approx(cell["training_macs"] / 2e9)
    assert plan["seconds_estimated"] == pytest.approx(
        sum(c["seconds_estimated"] or 0 for c in plan["cells"])
    )
    assert "a guess" in plan["basis"]
    assert not out.exists(), "a plan writes nothing"


def test_the_plan_rests_on_finished_cells_with_the_same_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    write_record(out, "1111", seconds={"total": 9e9})  # of other settings
    assert "a guess" in asked("plan", grid, out, capsys)["basis"]
    known = present_hash(grid, "w/o")
    write_record(out, "w/o", config_hash=known, seconds={"total": 50.0}, device="some CPU")
    plan = asked("plan", grid, out, capsys)
    assert plan["basis"] == "1 finished cell of this grid, on some CPU"
    assert [(c["action"], c["seconds_estimated"]) for c in plan["cells"]] == [
        ("done", 50.0),
        ("run", 50.0),
    ]
    assert plan["seconds_estimated"] == 50.0
    capsys.readouterr()
    assert main(command("plan", grid, out)) == 0
    text = capsys.readouterr().out
    assert "2 cells: 1 to run, 1 done\n" in text
    assert "estimated time 50 s" in text and "GPU hours" in text


def test_the_plan_says_what_it_assumes_in_plain_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = write_grid(tmp_path, [*ROWS[:1], REFUSED])
    assert main(command("plan", grid, tmp_path / "out", "--gmacs", "2")) == 0
    text = capsys.readouterr().out
    assert "2 cells: 1 to run, 0 done, 1 n/a\n" in text
    assert text.count("at an assumed 2 x 10^9 multiply-accumulates a second") == 2
    assert main(command("plan", grid, tmp_path / "out")) == 0
    text = capsys.readouterr().out
    cores = int(re.findall(r"multiply-accumulates a second of (\d+) cores?\)", text)[0])
    assert f"at an assumed {20 * cores} x 10^9 multiply-accumulates a second" in text
    write_record(tmp_path / "out", "w/o", status="failed", config_hash=present_hash(grid, "w/o"))
    assert main(command("plan", grid, tmp_path / "out")) == 0
    text = capsys.readouterr().out
    assert "2 cells: 0 to run, 0 done, 1 failed, 1 n/a; --only failed runs" in text


def test_the_plan_counts_parameters_with_the_vocabulary_of_the_data(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], vocabulary_size=4000), tmp_path / "out"
    root = ("--root", str(demo_root))
    (cell,) = asked("plan", grid, out, capsys, *root)["cells"]
    assert cell["vocabulary_of"] == "data" and cell["vocabulary"] < 1000
    assert not out.exists(), "a plan writes nothing"
    assert main(command("plan", grid, out, *root)) == 0
    text = capsys.readouterr().out
    assert f"params: with the {cell['vocabulary']} symbols of the data's own vocabulary" in text
    (blind,) = asked("plan", grid, out, capsys, "--root", str(tmp_path / "nowhere"))["cells"]
    assert (blind["vocabulary_of"], blind["vocabulary"]) == ("settings", 4000)
    assert blind["params"] - cell["params"] == (4000 - cell["vocabulary"]) * 16
    assert main(command("plan", grid, out, "--root", str(tmp_path / "nowhere"))) == 0
    assert "params: with vocabulary_size=4000 symbols" in capsys.readouterr().out
    assert main(command("run", grid, out, *root)) == 0
    (record,) = Store(out).records()
    assert record.parameters == cell["params"]
    (known,) = asked("plan", grid, out, capsys, "--root", str(tmp_path / "nowhere"))["cells"]
    assert known["params"] == record.parameters and known["vocabulary_of"] == "data"


def test_the_status_of_every_kind_of_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["done", "failed", "refused", "running", "interrupted", "missing"]
    own = {"refused": REFUSED["set"]}
    grid = write_grid(tmp_path, [{"row": name, "set": own.get(name, {})} for name in names])
    out = tmp_path / "out"
    now = {"config_hash": present_hash(grid, "done")}
    write_record(out, "done", metrics={"bleu": 12.3, "chrf": 40.0, "ppl": None}, **now)
    with_log = RunLog(cell_folder(out, "done"))
    with_log.write("done bleu 12.30")
    with_log.close()
    write_record(out, "failed", status="failed", reason="it broke", **now)
    refused = {"config_hash": present_hash(grid, "refused")}
    write_record(out, "refused", status="refused", reason="it can't", **refused)
    for name in ("running", "interrupted"):
        cell_folder(out, name).mkdir(parents=True)
        log = RunLog(cell_folder(out, name))
        log.write(f"training\nstep 3 of the {name} one")
        log.close()
    lock = CellLock(cell_folder(out, "running"))
    assert lock.acquire()
    found = asked("status", grid, out, capsys)
    assert [cell["row"] for cell in found] == [cell["status"] for cell in found] == names
    lines = {cell["row"]: cell["line"] for cell in found}
    assert lines["failed"] == "it broke" and lines["missing"] == ""
    assert lines["running"] == "step 3 of the running one"
    lock.release()
    assert main(command("status", grid, out)) == 0
    text = capsys.readouterr().out
    assert "1 done, 2 interrupted, 1 failed, 1 n/a, 1 not run" in text
    lines = {line.split()[0]: " ".join(line.split()[2:]) for line in text.splitlines() if line}
    assert lines["done"] == "done bleu 12.30, chrf 40.00"
    assert lines["refused"] == "n/a it can't" and lines["missing"] == "not run"
    for word in ("interrupted", "not run", "failed", "n/a"):
        assert text.count(f"\n{word}: ") == 1, "said once what it means"
    assert "\ndiverged: " not in text


def test_the_status_covers_the_seeds_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1]), tmp_path / "out"
    for seed in (0, 4):
        write_record(out, "w/o", seed=seed)
    assert [cell["seed"] for cell in asked("status", grid, out, capsys)] == [0, 4]
    assert [c["seed"] for c in asked("status", grid, out, capsys, "--seeds", "9")] == [9]


@pytest.mark.parametrize("name", ["table", "status"])
def test_records_of_other_settings_are_not_shown_as_the_rows_of_now(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    for row in ("w/o", "1111"):
        (cell,) = make_cells(load_grid(str(grid)), Choice(preset="tiny", rows=[row]))
        fields = {"config": cell.stored_config(), "config_hash": cell.config_hash}
        for seed in (0, 1):
            write_record(out, row, seed=seed, metrics={"bleu": 20.0 + seed}, **fields)

    def shown(*more: str) -> dict[str, Any]:
        """By row: its number of runs that count, and what is said of it."""
        capsys.readouterr()
        form = ["--json"] if name == "status" else ["--format", "json"]
        assert main(command(name, grid, out, *form, *more)) == 0
        found = json.loads(capsys.readouterr().out)
        if name == "table":
            return {row["row"]: (row["n"], row["reason"], row["status"]) for row in found["rows"]}
        return {
            row: (
                sum(cell["status"] == "done" for cell in found if cell["row"] == row),
                " ".join(cell["line"] for cell in found if cell["row"] == row),
                next(cell["status"] for cell in found if cell["row"] == row),
            )
            for row in ("w/o", "1111")
        }

    assert {row: n for row, (n, *_) in shown().items()} == {"w/o": 2, "1111": 2}
    changed = shown("--set", "max_steps=99", "dropout=0")
    for n, line, status in changed.values():
        assert n == 0 and status == "missing"
        assert "have changed since (dropout was 0.1, is 0.0, max_steps was 12, is 99)" in line
    write_grid(tmp_path, [ROWS[0], {**ROWS[1], "set": {"encoder_self": "terms(0111)"}}])
    now = shown()
    assert now["w/o"][0] == 2 and now["w/o"][2] == "done"
    assert now["1111"][0] == 0 and now["1111"][2] == "missing"
    assert "encoder_self was terms(1111), is terms(0111)" in now["1111"][1]
    write_grid(tmp_path, max_steps=13)
    assert {n for n, *_ in shown().values()} == {0}
    assert {n for n, *_ in shown("--set", "max_steps=12").values()} == {2}
    assert {n for n, *_ in shown("--data", "multi30k").values()} == {0}


@pytest.mark.parametrize("name", ["table", "status"])
def test_settings_given_to_look_at_results_are_checked_as_those_of_a_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    for setting, words in (("drop=0", "no setting"), ("encoder_self=dot", "rows of own/tiny")):
        capsys.readouterr()
        assert main(command(name, grid, out, "--set", setting)) == 2
        assert words in capsys.readouterr().err


def test_a_refusal_that_holds_no_more_is_to_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1]), tmp_path / "out"
    refused = {"status": "refused", "reason": "it can't", "config_hash": present_hash(grid, "w/o")}
    write_record(out, "w/o", **refused)
    (cell,) = asked("status", grid, out, capsys)
    assert cell["status"] == "missing" and "possible since" in cell["line"]
    assert asked("plan", grid, out, capsys)["cells"][0]["action"] == "run"


def test_a_table_is_saved_under_the_name_of_grid_and_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    write_record(out, "1111", metrics={"bleu": 20.0}, config_hash=present_hash(grid, "1111"))
    assert main(command("table", grid, out, "--save", str(tmp_path / "tables"))) == 0
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == ["own-tiny.demo.json", "own-tiny.demo.md"]
    for format, ending in (("csv", "csv"), ("latex", "tex"), ("html", "html"), ("json", "json")):
        folder = tmp_path / format
        words = command("table", grid, out, "--format", format)
        assert main([*words, "--save", str(folder)]) == 0
        capsys.readouterr()
        assert main(words) == 0
        assert (folder / f"own-tiny.demo.{ending}").read_text() == capsys.readouterr().out
        assert (folder / "own-tiny.demo.md").exists() and (folder / "own-tiny.demo.json").exists()
    text = (tmp_path / "tables" / "own-tiny.demo.md").read_text()
    assert "| 1111 | 20.00 | 27.70 | -7.70 |" in text and "not run" in text
    for format in ("csv", "latex", "html"):
        capsys.readouterr()
        assert main(command("table", grid, out, "--format", format, "--rows", "1111")) == 0
        shown = capsys.readouterr().out
        assert "27.7" in shown and "w/o" not in shown


def test_the_command_under_a_table_makes_that_table_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    grid, out = write_grid(folder), tmp_path / "out"
    for seed in (0, 1, 2):
        known = {"config_hash": present_hash(grid, "1111", max_steps=9), "seed": seed}
        write_record(out, "1111", metrics={"bleu": 20.0 + seed}, **known)
    given = ("--rows", "1111", "w/o", "--seeds", "0", "2", "--set", "max_steps=9")

    def shown(words: list[str]) -> dict[str, Any]:
        capsys.readouterr()
        assert main([*words, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    first = shown(command("table", grid, out, *given))
    assert {row["row"]: row["seeds"] for row in first["rows"]} == {"1111": [0, 2], "w/o": []}
    words = shlex.split(first["how"]["commands"][0])
    assert words[:3] == ["attnbench", "table", str(grid)]
    again = [str(out) if word == "DIR" else word for word in words[1:]]
    assert shown(again) == first


@pytest.mark.parametrize("name", ["table", "status"])
def test_seeds_are_chosen_and_the_help_says_what_is_taken_without(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[1:]), tmp_path / "out"
    for seed, bleu in ((0, 10.0), (1, 30.0), (2, 70.0)):
        known = {"config_hash": present_hash(grid, "1111"), "seed": seed}
        write_record(out, "1111", metrics={"bleu": bleu}, **known)
    with pytest.raises(SystemExit):
        main([name, "--help"])
    help = " ".join(capsys.readouterr().out.split())
    assert "only these seeds (default: all that there are" in help
    if name == "status":
        assert len(asked(name, grid, out, capsys)) == 3
        assert len(asked(name, grid, out, capsys, "--seeds", "0", "1")) == 2
        return
    for seeds, mean in (([], 110 / 3), (["--seeds", "0", "1"], 20.0), (["--seeds", "2"], 70.0)):
        assert main(command(name, grid, out, "--format", "json", *seeds)) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        assert row["metrics"]["bleu"]["mean"] == pytest.approx(mean)


def test_reference_rows_stand_in_the_table_and_are_never_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["ngsan/wmt14", "--out", str(tmp_path)]
    assert main(["table", *words, "--format", "json"]) == 0
    rows = {row["row"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    big = rows["Transformer-Big (Vaswani)"]
    assert big["status"] == "reference"
    assert big["metrics"]["bleu_tok_split"]["published"] == 28.4
    assert rows["Transformer-Base+NSA"]["status"] == "missing"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_lines_never_push_the_row_off_the_screen(width: int) -> None:
    cells = [CellStatus("NG-SAN", seed, "done", "cider_d 44.52, " * 30) for seed in (0, 11)]
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(status_table(cells))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    for line, seed in zip(lines[1:], ("0", "11"), strict=True):
        assert line.split()[:3] == ["NG-SAN", seed, "done"]
        assert "cider_d" in line


def test_a_plan_says_at_which_sizes_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "ngsan/full", "--preset", "smoke"]) == 0
    assert "9,488 symbols, whatever the data have" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        (["batch_norm=frozen"], "set weights to a file of resnet18 trained on ImageNet"),
        (["weights=nowhere.pth"], "nowhere.pth is no file: pass weights=FILE"),
        ([], None),
    ],
)
def test_a_plan_says_what_a_run_would_stop_at(
    settings: list[str], lacking: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "spatial-attention/detection", "--preset", "smoke", "--rows", "w/o"]
    given = [word for setting in settings for word in ("--set", setting)]
    assert main([*words, *given]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "would not start" in line]
    assert len(said) == (lacking is not None) and (lacking or "") in "".join(said)
    assert main([*words, *given, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["obstacles"]) == len(said)


def test_hours_of_a_gpu_are_those_of_the_path_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """On maps the folded product has more multiply-accumulates than papers count."""
    words = ["plan", "spatial-attention/segmentation", "--preset", "smoke", "--rows", "1111"]
    assert main([*words, "--gmacs", "1", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["executed_macs"] != plan["training_macs"]
    assert plan["gpu_hours_guessed"] == pytest.approx(plan["executed_macs"] / 1e9 / 3600)
