"""A grid from YAML to records and table, with everything that can go wrong on the way."""

import json
import shlex
from pathlib import Path

import pytest
from safetensors.torch import load_file

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.running import how_to_go_on
from attnbench.datamodules.batch import TranslationBatch
from attnbench.tasks.translation import TranslationTask
from tests.benchmarks.tiny import ROWS, cell_folder, command, records, write_grid


def run(grid: Path, out: Path, root: Path, *more: str) -> int:
    return main(command("run", grid, out, "--root", str(root), *more))


def table(grid: Path, out: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict]:
    capsys.readouterr()
    assert main(command("table", grid, out, "--format", "json", *more)) == 0
    return {row["row"]: row for row in json.loads(capsys.readouterr().out)["rows"]}


def test_a_grid_becomes_records_and_a_table(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    assert run(grid, out, demo_root, "--seeds", "0", "1") == 0
    shown = capsys.readouterr().err
    assert "[1/4] w/o seed 0" in shown and "4 cells: 4 done" in shown
    found = records(out)
    assert set(found) == {("w/o", 0), ("1111", 0), ("w/o", 1), ("1111", 1)}
    record = found["1111", 1]
    assert record.status == "done" and record.items == 8
    assert record.config["seed"] == 1 and record.config["encoder_self"] == "terms(1111)"
    assert not {"root", "cache"} & set(record.config)
    assert {"bleu", "bleu_tok", "bleu_tok_split", "chrf"} <= set(record.metrics)
    assert "13a" in record.signatures["bleu"]
    assert record.seconds["total"] >= record.seconds["train"] > 0
    assert (record.macs or 0) > (found["w/o", 1].macs or 0) > 0
    assert (record.peak_memory_bytes or 0) > 2**20
    assert record.data.fingerprint and record.data.card["dataset"] == "demo"
    assert str(demo_root) not in record.to_json().decode()
    assert found["1111", 0].config_hash == record.config_hash != found["w/o", 1].config_hash

    folder = cell_folder(out, "1111", 1)
    assert sorted(path.name for path in folder.iterdir()) == [
        "history.jsonl",
        "predictions.txt",
        "record.json",
        "run.log",
        "weights.safetensors",
    ]
    assert len((folder / "predictions.txt").read_text().splitlines()) == 8
    weights = load_file(folder / "weights.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == record.parameters

    rows = table(grid, out, capsys)
    bleu = rows["1111"]["metrics"]["bleu"]
    assert rows["1111"]["n"] == 2 and bleu["published"] == 27.7
    mean = sum(found["1111", seed].metrics["bleu"] or 0.0 for seed in (0, 1)) / 2
    assert bleu["mean"] == pytest.approx(mean)


def test_a_failed_and_a_diverged_and_a_refused_row_leave_the_rest_alone(
    tmp_path: Path,
    demo_root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translate = TranslationTask.translate

    def broken(task: TranslationTask, batch: TranslationBatch) -> list[list[int]]:
        if task.config.beam == 3:
            raise RuntimeError("a defect of the suite\nin two lines")
        return translate(task, batch)

    monkeypatch.setattr(TranslationTask, "translate", broken)
    rows = [
        {"row": "breaks", "set": {"beam": 3}},
        {"row": "too fast", "set": {"learning_rate": 1e30}},
        {"row": "sees the future", "set": {"decoder_self": "nsa"}},
        ROWS[1],
    ]
    grid, out = write_grid(tmp_path, rows), tmp_path / "out"
    assert run(grid, out, demo_root) == 1
    found = records(out)
    assert {row: record.status for (row, _), record in found.items()} == {
        "breaks": "failed",
        "too fast": "diverged",
        "sees the future": "refused",
        "1111": "done",
    }
    assert found["breaks", 0].reason == "RuntimeError: a defect of the suite"
    assert "nan" in found["too fast", 0].reason
    assert "decoder_self" in found["sees the future", 0].reason
    assert "Traceback" in (cell_folder(out, "breaks") / "run.log").read_text()
    assert not (cell_folder(out, "too fast") / "checkpoints").exists()

    shown = table(grid, out, capsys)
    assert shown["sees the future"]["status"] == "refused"
    assert shown["1111"]["status"] == "done"
    assert main(command("table", grid, out)) == 0
    assert "n/a: nsa can't stand at decoder_self" in capsys.readouterr().out.replace("\\_", "_")


def test_only_says_which_cells_run_again(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"row": "bad", "set": {"learning_rate": 1e30}}, ROWS[0]]
    grid, out = write_grid(tmp_path, rows, max_steps=4), tmp_path / "out"

    def times() -> dict[str, object]:
        return {row: record.started for (row, _), record in records(out).items()}

    assert run(grid, out, demo_root) == 1
    first = times()
    assert run(grid, out, demo_root) == 1  # there still is a failed cell
    assert times() == first
    assert run(grid, out, demo_root, "--only", "failed") == 1
    second = times()
    assert second["bad"] != first["bad"] and second["w/o"] == first["w/o"]
    assert run(grid, out, demo_root, "--only", "all", "--rows", "w/o") == 0
    assert times()["w/o"] != first["w/o"] and times()["bad"] == second["bad"]
    assert "--only failed" in capsys.readouterr().err


def test_other_settings_run_anew_and_the_old_record_is_kept_aside(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], max_steps=4), tmp_path / "out"
    assert run(grid, out, demo_root) == 0
    old = records(out)["w/o", 0]
    assert run(grid, out, demo_root, "--set", "max_steps=8") == 0
    assert "done with other settings" in capsys.readouterr().err
    new = records(out)["w/o", 0]
    assert new.config["max_steps"] == 8 and new.config_hash != old.config_hash
    folder = cell_folder(out, "w/o")
    aside = folder / f"record.{old.config_hash}.json"
    assert aside.read_bytes() == old.to_json()
    assert (folder / f"weights.{old.config_hash}.safetensors").exists()
    assert table(grid, out, capsys, "--set", "max_steps=8")["w/o"]["n"] == 1


def test_where_files_lie_and_threads_do_not_change_the_hash(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], max_steps=4), tmp_path / "out"
    assert run(grid, out, demo_root) == 0
    first = records(out)["w/o", 0]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in demo_root.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    assert run(grid, out, moved, "--threads", "1") == 0
    assert records(out)["w/o", 0] == first


def test_checkpoints_can_be_kept(tmp_path: Path, demo_root: Path) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1]), tmp_path / "out"
    assert run(grid, out, demo_root, "--keep-checkpoints") == 0
    kept = sorted(path.name for path in (cell_folder(out, "w/o") / "checkpoints").rglob("*.ckpt"))
    assert kept == ["step=00000008.ckpt", "step=00000012.ckpt"]


def test_train_runs_one_cell_and_prints_its_metrics(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["dim=16", "ffn_dim=16", "heads=2", "encoder_layers=1", "decoder_layers=1"]
    settings += ["max_steps=4", "check_every=4", "eval_lines=4", "subword=none", "beam=1"]
    words = ["train", "translation", "--root", str(demo_root), "cross=dot", "seed=3"]
    words += ["--out", str(tmp_path), *settings]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("bleu ") and "chrf " in printed
    (record,) = records(tmp_path).values()
    assert record.grid == "train/translation" and record.seed == 3
    assert record.row == "encoder_self=terms(1111),decoder_self=terms(1111),cross=dot"
    assert main(words) == 0
    assert capsys.readouterr().out == printed
    assert records(tmp_path).popitem()[1] == record


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("run g --only all --out x", "attnbench run g --out x"),
        ("run g --only=all", "attnbench run g"),
        ("run g --onl all --jobs 2", "attnbench run g --jobs 2"),
        ("train t --again dim=4", "attnbench train t dim=4"),
        ("run g --only failed", "the same command"),
        ("run g --out all", "the same command"),
    ],
)
def test_the_command_that_goes_on_begins_nothing_anew(given: str, printed: str) -> None:
    assert printed in how_to_go_on(given.split())


def test_the_table_that_a_run_names_is_the_one_of_what_it_ran(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    chosen = ["--rows", "1111", "--seeds", "2", "--set", "max_steps=8"]
    assert run(grid, out, demo_root, *chosen) == 0
    said = capsys.readouterr().err
    line = next(line for line in said.splitlines() if line.startswith("table: "))
    assert main(shlex.split(line)[2:]) == 0
    shown = capsys.readouterr().out
    assert "1111" in shown and "w/o" not in shown
    assert "changed" not in shown and "not run" not in shown
