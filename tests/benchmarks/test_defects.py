"""Mistakes of users and machines that once cost results, a traceback or a silent wrong answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.grid import load_grid
from tests.benchmarks.tiny import ROWS, cell_folder, command, records, start, write_grid


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that ends with code 2."""
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("attnbench: ") and error.count("\n") == 1
    return error


def run(grid: Path, out: Path, root: Path, *more: str) -> int:
    return main(command("run", grid, out, "--root", str(root), *more))


def test_a_line_longer_than_a_batch_stops_a_cell_before_it_trains(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    for file in demo_root.iterdir():
        (root / file.name).write_bytes(file.read_bytes())
    lines = (root / "test.en").read_text().splitlines(keepends=True)
    (root / "test.en").write_text("".join(["the dog " * 300 + "\n", *lines[1:]]))
    grid, out = write_grid(tmp_path, ROWS[:1]), tmp_path / "out"
    assert run(grid, out, root) == 2
    assert "Line 1 of split 'test'" in capsys.readouterr().err
    assert not list(out.rglob("*.ckpt")) and not records(out)


def test_starting_anew_needs_no_old_checkpoint(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], max_steps=8), tmp_path / "out"
    assert run(grid, out, demo_root, "--keep-checkpoints") == 0
    weights = cell_folder(out, "w/o") / "weights.safetensors"
    first = weights.read_bytes()
    for file in out.rglob("*.ckpt"):  # another model's, though it looks like ours
        content = torch.load(file, weights_only=True)
        torch.save({**content, "state_dict": {"other": torch.ones(1)}}, file)
    assert run(grid, out, demo_root, "--only", "all") == 0
    assert weights.read_bytes() == first
    assert run(grid, out, demo_root, "--only", "all", "--set", "learning_rate=1e30") == 1
    assert "the finished record is kept as" in " ".join(capsys.readouterr().err.split())


def test_weights_that_are_not_finite_are_no_result(tmp_path: Path, demo_root: Path) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], max_steps=8), tmp_path / "out"
    assert run(grid, out, demo_root, "--keep-checkpoints") == 0
    (cell_folder(out, "w/o") / "record.json").unlink()
    for file in out.rglob("step=00000004.ckpt"):
        content = torch.load(file, weights_only=True)
        name = next(name for name, value in content["state_dict"].items() if value.ndim)
        content["state_dict"][name].view(-1)[0] = float("inf")
        torch.save(content, file)
    assert run(grid, out, demo_root) == 1
    assert records(out)["w/o", 0].status == "diverged"
    assert "finite" in records(out)["w/o", 0].reason


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_bad_data_of_one_row_fail_that_row_alone(
    jobs: str, tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tight = {"row": "tight", "set": {"max_tokens": 2}}
    grid = write_grid(tmp_path, [ROWS[0], tight, ROWS[1]], max_steps=4)
    assert run(grid, tmp_path / "out", demo_root, "--jobs", jobs) == 1
    found = {row: record.status for (row, _), record in records(tmp_path / "out").items()}
    assert found == {"w/o": "done", "tight": "failed", "1111": "done"}
    words = command("run", grid, tmp_path / "first", "--root", str(demo_root), "--jobs", jobs)
    assert "max_tokens=2" in refused([*words, "--rows", "tight"], capsys)
    assert not list(tmp_path.glob("first/own"))


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_wrong_root_is_said_once_and_leaves_nothing_behind(
    jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    words = command("run", grid, out, "--root", str(tmp_path / "none"), "--seeds", "0", "1")
    assert "none does not exist" in refused([*words, "--jobs", jobs], capsys)
    assert not out.exists()
    assert main(command("status", grid, out)) == 0
    assert "interrupted" not in capsys.readouterr().out


def test_settings_that_this_machine_cannot_do_stop_the_run(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("this machine has a GPU")
    grid, out = write_grid(tmp_path), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root), "--set")
    assert "precision=16-mixed needs a GPU" in refused([*words, "precision=16-mixed"], capsys)
    assert "no such device" in refused([*words, "accelerator=cuda"], capsys)
    assert not out.exists()


@pytest.mark.parametrize("place", ["row", "base", "preset"])
def test_a_grid_sets_no_seed(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"row": "a", "set": {"seed": 3} if place == "row" else {}}
    grid = write_grid(tmp_path, [row], **({"seed": 3} if place == "preset" else {}))
    if place == "base":
        grid.write_text(grid.read_text() + "base: {seed: 3}\n")
    assert "--seeds" in refused(command("plan", grid, tmp_path / "out"), capsys)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("metrics: [blue]", "metrics: no metric is called 'blue'; did you mean bleu"),
        ("base: {[1, 2]: 3}", "a key must be one word"),
        ("base: {dim: 2024-13-45}", "number or date"),
        ('base: {dim: !!int ""}', "number or date"),
        ("base: {dim: !!timestamp soon}", "number or date"),
        (
            "a0: &a0 [1, 1]\n"
            + "\n".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(40)),
            "counting what its aliases stand for",
        ),
        ("base: &b {dim: *b}", "counting what its aliases stand for"),
    ],
)
def test_what_yaml_would_swallow_is_named(
    line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = write_grid(tmp_path)
    grid.write_text(grid.read_text() + line + "\n")
    error = refused(command("plan", grid, tmp_path / "out"), capsys)
    assert words in error and str(grid) in error


def test_a_measured_metric_beside_a_published_one_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = write_grid(tmp_path)
    grid.write_text(grid.read_text().replace("    bleu: BLEU", "    blue: BLEU"))
    assert "published.metrics" in refused(command("plan", grid, tmp_path / "out"), capsys)
    assert load_grid("spatial-attention/nmt-self").metrics


@pytest.mark.parametrize("name", ["status", "table", "plan", "run"])
def test_names_too_long_for_the_system_are_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, long = write_grid(tmp_path), "x" * 300
    assert "too long" in refused([name, long], capsys)
    out = tmp_path / long
    words = command(name, grid, out)
    if name in ("status", "run"):  # the others find nothing there
        assert "too long" in refused(words, capsys)


def test_doctor_names_a_path_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "too long" in refused(["doctor", "--out", str(tmp_path / ("x" * 300))], capsys)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("max_tokens=many", "max_tokens='many'"),
        ("dataset=demo", "dataset is given after"),
        ("root=there", "root is given with --root"),
    ],
)
def test_settings_of_a_data_check_are_checked(
    settings: str, words: str, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["data", "check", "demo", "--root", str(demo_root), settings]
    assert words in refused(line, capsys)


@pytest.mark.parametrize("seed", ["4294967296", "9" * 5000, "-1", "1.5"])
def test_a_seed_that_torch_cannot_take_is_refused(
    seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "translation", f"seed={seed}", "--out", str(tmp_path)]
    assert "is not a seed" in refused(words, capsys)


@pytest.mark.parametrize("name", ["status", "table"])
def test_unknown_places_and_empty_ones_are_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "out"
    words = [name, str(grid), "--out", str(out)]
    assert "did you mean tiny" in refused([*words, "--preset", "tinny"], capsys)
    error = refused([*words, "--preset", "tiny", "--data", "multi30"], capsys)
    assert "did you mean multi30k" in error
    assert main([*words, "--preset", "tiny"]) == 0
    assert "there are no records of own/tiny, demo.tiny" in capsys.readouterr().err


def test_a_row_keeps_the_name_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = write_grid(tmp_path, [{"row": ":smile: [red]a[/red]"}])
    assert main(command("status", grid, tmp_path / "out")) == 0
    assert ":smile: [red]a[/red]" in capsys.readouterr().out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_an_output_that_is_full_is_said() -> None:
    words = [sys.executable, "-m", "attnbench.benchmarks.cli", "list", "grids"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2 and "no space left" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_closed_or_narrow_output_is_no_error() -> None:
    line = f"{sys.executable} -m attnbench.benchmarks.cli list grids >&-"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    process = start(["list", "attention"], {"PYTHONIOENCODING": "ascii"})
    _, error = process.communicate()
    assert (process.returncode, error) == (0, "")
