"""history.jsonl: what the validations of a cell said, whatever happened to the cell meanwhile."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.history import Entry, History
from attnbench.results import Store
from attnbench.tasks.errors import Diverged
from attnbench.tasks.registry import TASKS, TaskEntry
from tests.benchmarks.test_any_task import ToyModule, toy  # noqa: F401
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

ROW = ROWS[1:]
# 13 batches an epoch: checkpoints and validations fall into the middle of epochs, and meet or not.
LONG = {"max_steps": 60, "check_every": 4, "validate_every": 6, "average_last": 40, "dropout": 0.1}


def lines(file: Path) -> list[dict[str, Any]]:
    """The lines without their times, which no two runs share."""
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(line.pop("seconds") > 0 for line in found)
    return found


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, demo_root: Path) -> tuple[Path, Path]:
    """A grid, and the output folder of a run that nobody disturbed, with all its checkpoints."""
    folder = tmp_path_factory.mktemp("unbroken")
    grid, out = write_grid(folder, ROW, **LONG), folder / "out"
    words = command("run", grid, out, "--root", str(demo_root), "--keep-checkpoints")
    assert main(words) == 0
    return grid, out


def test_every_validation_is_kept_with_all_its_numbers(unbroken: tuple[Path, Path]) -> None:
    folder = cell_folder(unbroken[1], "1111")
    found = lines(folder / "history.jsonl")
    assert [line["update"] for line in found] == list(range(6, 61, 6))
    assert {(line["phase"], line["updates"]) for line in found} == {("", 60)}
    assert [line["epoch"] for line in found][:3] == [0.4615, 0.9231, 1.3846]
    assert all(line["values"].keys() == {"train/loss", "val/loss", "val/ppl"} for line in found)
    assert found[-1]["values"]["val/loss"] < found[0]["values"]["val/loss"]
    seconds = [entry.seconds for entry in History(folder / "history.jsonl").entries()]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("step", [4, 12, 28, 60])
def test_a_resumed_run_ends_with_the_history_of_an_unbroken_one(
    unbroken: tuple[Path, Path], tmp_path: Path, demo_root: Path, step: int
) -> None:
    grid, before = unbroken
    out = tmp_path / "out"
    shutil.copytree(before, out)
    folder = cell_folder(out, "1111")
    for name in ("record.json", "weights.safetensors", "history.jsonl"):
        (folder / name).unlink()
    for checkpoint in out.rglob("*.ckpt"):
        if checkpoint.name > f"step={step:08d}.ckpt":
            checkpoint.unlink()
    live = next(folder.rglob("history.jsonl"))
    live.write_bytes(live.read_bytes() + b'{"phase": "", "upda')  # the crash was in a write
    assert main(command("run", grid, out, "--root", str(demo_root))) == 0
    expected = cell_folder(before, "1111")
    assert lines(folder / "history.jsonl") == lines(expected / "history.jsonl")
    same = (folder / "weights.safetensors").read_bytes()
    assert same == (expected / "weights.safetensors").read_bytes()
    assert [path.parent for path in out.rglob("history.jsonl")] == [folder]


def test_a_killed_process_leaves_whole_lines_and_the_next_goes_on(
    unbroken: tuple[Path, Path], tmp_path: Path, demo_root: Path
) -> None:
    grid, before = unbroken
    out = tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    process = start(words)
    wait_for(lambda: bool(list(out.rglob("step=00000024.ckpt"))), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    live = next(out.rglob("history.jsonl"))
    assert [line["update"] for line in lines(live)][:4] == [6, 12, 18, 24]
    assert main(words) == 0
    ended = lines(cell_folder(out, "1111") / "history.jsonl")
    assert ended == lines(cell_folder(before, "1111") / "history.jsonl")
    assert leftovers(out) == []


def test_a_new_run_begins_anew_and_keeps_the_earlier_one_until_it_is_done(
    tmp_path: Path, demo_root: Path
) -> None:
    grid, out = write_grid(tmp_path, ROW), tmp_path / "out"
    words = command("run", grid, out, "--root", str(demo_root))
    assert main(words) == 0
    folder = cell_folder(out, "1111")
    first = (folder / "history.jsonl").read_bytes()
    hash_ = records(out)["1111", 0].config_hash

    grid = write_grid(tmp_path, ROW, max_steps=400, validate_every=2)
    process = start(words)
    wait_for(lambda: len(list(folder.rglob("history.jsonl"))) > 1, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (folder / "history.jsonl").read_bytes() == first

    write_grid(tmp_path, ROW, max_steps=8)
    assert main(words) == 0
    assert [line["update"] for line in lines(folder / "history.jsonl")] == [4, 8]
    assert (folder / f"history.{hash_}.jsonl").read_bytes() == first
    assert main([*words, "--only", "all"]) == 0
    assert [line["update"] for line in lines(folder / "history.jsonl")] == [4, 8]


class RunsOff(ToyModule):
    """Diverges before the fifth update."""

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        if self.global_step == 4:
            raise Diverged("the line ran off")
        return super().training_step(batch, batch_idx)


def test_a_diverged_run_keeps_its_history(
    toy: TaskEntry,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off = replace(toy, build=lambda config, data: RunsOff(config))
    monkeypatch.setitem(TASKS, "toy", off)
    words = ["train", "toy", "row=line", "accelerator=cpu", "--out", str(tmp_path)]
    assert main(words) == 1
    (record,) = records(tmp_path).values()
    assert record.status == "diverged"
    (file,) = tmp_path.rglob("history.jsonl")
    assert file.parent == Store(tmp_path).path(record).parent
    assert [line["update"] for line in lines(file)] == [2, 4]
    assert not (file.parent / "checkpoints").exists()


def test_the_phases_of_a_task_are_named(
    toy: TaskEntry,  # noqa: F811
    tmp_path: Path,
) -> None:
    words = ["train", "toy", "row=line", "accelerator=cpu", "--out", str(tmp_path)]
    assert main([*words, "--keep-checkpoints"]) == 0
    (file,) = (path for path in tmp_path.rglob("history.jsonl") if path.parent.name == "seed0")
    places = [(line["phase"], line["update"], line["updates"]) for line in lines(file)]
    rough = [("rough", 2, 6), ("rough", 4, 6), ("rough", 6, 6)]
    assert places == [*rough, ("fine", 2, 4), ("fine", 4, 4)]
    whole = lines(file)

    # Killed in the second phase; the first one's lines stay.
    next(file.parent.rglob("fine/step=00000004.ckpt")).unlink()
    (file.parent / "record.json").unlink()
    assert main(words) == 0
    assert lines(file) == whole


def test_a_half_line_is_passed_over_and_mended(tmp_path: Path) -> None:
    history = History(tmp_path / "deep" / "history.jsonl")
    assert history.entries() == [] and history.keep_until("", 5) == 0
    losses: dict[int, float | None] = {3: 2.5, 6: None}
    entries = [
        Entry(phase=phase, update=k, updates=9, epoch=k / 3, seconds=1.5, values={"val/loss": loss})
        for phase in ("a", "b")
        for k, loss in losses.items()
    ]
    for entry in entries:
        history.append(entry)
    assert history.entries() == entries
    whole = history.path.read_bytes()
    history.path.write_bytes(whole + entries[0].model_dump_json().encode()[:-3])
    assert history.entries() == entries
    assert history.keep_until("b", 3) == 3
    assert history.entries() == entries[:3]
    assert history.path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])
