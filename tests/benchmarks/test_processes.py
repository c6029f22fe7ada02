"""Ctrl-C, a full disk, several processes on one output folder."""

import resource
import shlex
import signal
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.lock import CellLock, is_locked
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
    {"row": bits, "set": {"encoder_self": f"terms({bits})"}} for bits in ("1000", "0100", "0010")
]


def times_begun(out: Path) -> list[int]:
    """How often each cell was begun."""
    return [log.read_text().count("  cell ") for log in sorted(out.rglob("run.log"))]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing_half_written(
    tmp_path: Path, demo_root: Path, jobs: str
) -> None:
    rows = [ROWS[0], {"row": "long", "set": {"max_steps": 5000}}]
    grid, out = write_grid(tmp_path, rows), tmp_path / "out"
    process = start(command("run", grid, out, "--root", str(demo_root), "--jobs", jobs))
    checkpoints = cell_folder(out, "long") / "checkpoints"
    wait_for(lambda: bool(records(out)) and bool(list(checkpoints.rglob("*.ckpt"))), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("attnbench: stopped; finished cells are kept")
    assert [(row, record.status) for (row, _), record in records(out).items()] == [("w/o", "done")]
    assert leftovers(out) == [] and not is_locked(cell_folder(out, "long"))


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


def test_two_runs_and_several_jobs_share_an_output_folder(tmp_path: Path, demo_root: Path) -> None:
    rows = [*TERMS, {"row": "bad", "set": {"learning_rate": 1e30}}]
    grid, out = write_grid(tmp_path, rows, max_steps=40), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    processes = [start([*words, "--jobs", "2"]), start(words)]
    ends = [process.communicate(timeout=280)[1] for process in processes]
    assert not any("Traceback" in errors for errors in ends), ends
    assert 1 in [process.returncode for process in processes], ends  # a cell failed
    assert times_begun(out) == [1, 1, 1, 1]
    found = {row: record for (row, _), record in records(out).items()}
    assert [found[row["row"]].status for row in rows] == ["done", "done", "done", "diverged"]
    assert all(record.config["threads"] in (None, 1) for record in found.values())
    assert not list(out.rglob("lock"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_cells_that_another_run_has_are_said_to_be_left_to_it(
    tmp_path: Path, demo_root: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path, max_steps=4), tmp_path / "out"
    locks = []
    for row in ("w/o", "1111"):
        cell_folder(out, row).mkdir(parents=True)
        locks.append(CellLock(cell_folder(out, row), "process 4711 on node7"))
        assert locks[-1].acquire()
    words = command("run", grid, out, "--root", str(demo_root), "--jobs", jobs)
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    for row in ("w/o", "1111"):
        assert (
            f"{row} seed 0: left to another run, which has it now (process 4711 on node7)" in said
        )
    assert "2 cells: 2 left to another run that has them now; start the same command again" in said
    for lock in locks:
        lock.release()
    assert main(words) == 0


def test_a_run_says_which_process_has_a_cell(tmp_path: Path, demo_root: Path) -> None:
    grid, out = write_grid(tmp_path, ROWS[:1], max_steps=5000), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    first = start(words)
    wait_for(lambda: is_locked(cell_folder(out, "w/o")), first)
    second = start(words)
    _, errors = second.communicate(timeout=240)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=240)
    assert second.returncode == 1
    assert f"process {first.pid} on " in errors and "attnbench run" in errors


def test_what_ctrl_c_prints_goes_on_with_a_run_of_all_cells(
    tmp_path: Path, demo_root: Path
) -> None:
    rows = [ROWS[0], {"row": "long", "set": {"max_steps": 400, "check_every": 20}}, ROWS[1]]
    grid, out = write_grid(tmp_path, rows, max_steps=4), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    assert main(words) == 0

    def begun() -> dict[str, str]:
        return {row: str(record.started) for (row, _), record in records(out).items()}

    first = begun()
    process = start([*words, "--only", "all"])
    wait_for(lambda: bool(list(cell_folder(out, "long").rglob("*.ckpt"))), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    stopped = begun()
    assert stopped["w/o"] > first["w/o"] and stopped["long"] == first["long"]  # kept until then

    line = errors.splitlines()[-1].partition("this goes on from here: attnbench ")[2]
    assert main(shlex.split(line)) == 0
    ended = begun()
    assert ended["w/o"] == stopped["w/o"]
    assert ended["long"] > stopped["long"] and ended["1111"] > stopped["1111"]
    log = (cell_folder(out, "long") / "run.log").read_text()
    assert log.count("going on from step=") == 1
    assert main(shlex.split(line)) == 0  # and then there is nothing left
    assert begun() == ended
    assert not list(out.rglob("again"))
