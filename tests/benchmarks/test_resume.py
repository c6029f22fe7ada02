"""Kill a run in the middle of a cell: it goes on, to exactly the weights of an unbroken run."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from tests.benchmarks.tiny import (
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

# About 13 batches an epoch: checkpoints fall into the middle of epochs, and dropout draws numbers.
LONG = {"max_steps": 120, "check_every": 10, "average_last": 3, "dropout": 0.1}
ROW = [{"row": "1111", "set": {"encoder_self": "terms(1111)"}}]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, demo_root: Path) -> tuple[Path, Path]:
    """A grid, and the output folder of a run that was killed after its fourth checkpoint."""
    folder = tmp_path_factory.mktemp("killed")
    grid = write_grid(folder, ROW, **LONG)
    out = folder / "out"
    process = start(command("run", grid, out, "--root", str(demo_root)))
    wait_for(lambda: bool(list(out.rglob("step=00000040.ckpt"))), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not records(out)
    return grid, out


@pytest.fixture(scope="module")
def unbroken(killed: tuple[Path, Path], demo_root: Path) -> bytes:
    """The final weights of a run that nobody disturbed."""
    grid, _ = killed
    out = grid.parent / "unbroken"
    assert main(command("run", grid, out, "--root", str(demo_root))) == 0
    return (cell_folder(out, "1111") / "weights.safetensors").read_bytes()


def go_on(killed: tuple[Path, Path], out: Path, root: Path, damage: bool) -> bytes:
    grid, left = killed
    shutil.copytree(left, out)
    newest = sorted(out.rglob("*.ckpt"))[-1]
    if damage:
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    assert main(command("status", grid, out)) == 0
    assert main(command("run", grid, out, "--root", str(root))) == 0
    folder = cell_folder(out, "1111")
    log = (folder / "run.log").read_text()
    assert (f"{newest.name} can't be read" in log) == damage
    assert ("going on from step=" in log) and (f"from {newest.name}" in log) != damage
    assert not (folder / "checkpoints").exists() and leftovers(out) == []
    assert records(out)["1111", 0].seconds["train"] > 0
    return (folder / "weights.safetensors").read_bytes()


def test_a_killed_run_goes_on_bit_by_bit(
    killed: tuple[Path, Path],
    unbroken: bytes,
    tmp_path: Path,
    demo_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert go_on(killed, tmp_path / "out", demo_root, damage=False) == unbroken
    printed = capsys.readouterr()
    assert "interrupted" in printed.out
    assert re.search(r"^1111 seed 0: going on from update \d+0$", printed.err, re.MULTILINE)


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    killed: tuple[Path, Path], unbroken: bytes, tmp_path: Path, demo_root: Path
) -> None:
    assert go_on(killed, tmp_path / "out", demo_root, damage=True) == unbroken


def test_checkpoints_of_other_data_are_neither_gone_on_from_nor_lost(
    killed: tuple[Path, Path],
    unbroken: bytes,
    tmp_path: Path,
    demo_root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid, left = killed
    out, root = tmp_path / "out", tmp_path / "data"
    shutil.copytree(left, out)
    shutil.copytree(demo_root, root)
    lines = (root / "train.en").read_text().splitlines(keepends=True)
    (root / "train.en").write_text("".join(["the end .\n", *lines[1:]]))
    assert main(command("run", grid, out, "--root", str(root))) == 2
    assert "was begun on other training data" in capsys.readouterr().err
    shutil.copy(demo_root / "train.en", root / "train.en")
    (root / "test.en").write_text((root / "test.en").read_text() + "the end .\n")
    (root / "test.de").write_text((root / "test.de").read_text() + "das Ende .\n")
    assert main(command("run", grid, out, "--root", str(root))) == 0  # other test data may be
    assert (cell_folder(out, "1111") / "weights.safetensors").read_bytes() == unbroken


def test_a_run_killed_behind_its_last_step_only_evaluates(
    tmp_path: Path, demo_root: Path, unbroken: bytes, killed: tuple[Path, Path]
) -> None:
    grid, out = killed[0], tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    assert main([*words, "--keep-checkpoints"]) == 0
    folder = cell_folder(out, "1111")
    (folder / "record.json").unlink()
    (folder / "weights.safetensors").unlink()
    assert main(words) == 0
    assert "going on from step=00000120.ckpt" in (folder / "run.log").read_text()
    assert (folder / "weights.safetensors").read_bytes() == unbroken
