"""Ctrl-C, a full disk, several processes on one output folder."""

import resource
import signal
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from tests.benchmarks.tiny import (
    ROWS,
    cell_folder,
    command,
    leftovers,
    records,
    start,
    wait_for,
    write_grid,
)

# Some processes have to load everything first, and the machine may be busy.
pytestmark = pytest.mark.timeout(300)

TERMS = [
    {"row": bits, "set": {"encoder_self": f"terms({bits})"}}
    for bits in ("1000", "0100", "0010", "0001")
]


def times_begun(out: Path) -> list[int]:
    """How often each cell was begun."""
    return [log.read_text().count("  cell ") for log in sorted(out.rglob("run.log"))]


def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing_half_written(
    tmp_path: Path, demo_root: Path
) -> None:
    rows = [ROWS[0], {"row": "long", "set": {"max_steps": 5000}}]
    grid, out = write_grid(tmp_path, rows), tmp_path / "out"
    process = start(command("run", grid, out, "--root", str(demo_root)))
    checkpoints = cell_folder(out, "long") / "checkpoints"
    wait_for(lambda: bool(list(checkpoints.rglob("*.ckpt"))), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("attnbench: stopped; finished cells are kept")
    assert [(row, record.status) for (row, _), record in records(out).items()] == [("w/o", "done")]
    assert leftovers(out) == [] and not list(out.rglob("lock"))


def test_a_full_disk_stops_the_run_with_one_sentence(tmp_path: Path, demo_root: Path) -> None:
    grid, out = write_grid(tmp_path, dim=64, ffn_dim=64), tmp_path / "out"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    words = command("run", grid, out, "--root", str(demo_root))
    process = start(words, preexec_fn=small_files)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 2, errors
    last = errors.splitlines()[-1]
    assert last.startswith("attnbench: can't write") and "step=00000004.ckpt" in last
    assert "Traceback" not in errors and leftovers(out) == [] and not records(out)
    assert main(words) == 0  # with room again, the same command does it


def test_two_runs_share_an_output_folder(tmp_path: Path, demo_root: Path) -> None:
    grid, out = write_grid(tmp_path, TERMS, max_steps=40), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    processes = [start(words), start(words)]
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    assert times_begun(out) == [1, 1, 1, 1]
    assert {record.status for record in records(out).values()} == {"done"}
    assert not list(out.rglob("lock"))


def test_several_jobs_run_each_cell_once(tmp_path: Path, demo_root: Path) -> None:
    rows = [*TERMS[:3], {"row": "bad", "set": {"accelerator": "tpu"}}]
    grid, out = write_grid(tmp_path, rows), tmp_path / "out"
    process = start(command("run", grid, out, "--root", str(demo_root), "--jobs", "2"))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 1, errors
    assert "4 cells: 3 done, 1 failed" in errors
    assert times_begun(out) == [1, 1, 1, 1]
    assert records(out)["1000", 0].config["threads"] == 1
