"""The store: whole files or none, finished runs kept, nothing in the tree makes it fail."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnbench.results import RunRecord, Store, StoreError, write_atomically
from tests.results.samples import GRID, make_record

PLACE = (GRID, "demo", "smoke")
WRITER = """
import sys
from attnbench.results import RunRecord, Store, StoreError
store, record = Store(sys.argv[1]), RunRecord.from_json(sys.stdin.buffer.read())
"""


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]


def child(code: str, out: Path, record: RunRecord) -> subprocess.Popen[bytes]:
    """A process that has `store` and `record` and runs `code`."""
    command = [sys.executable, "-c", WRITER + code, str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(record.to_json())
    process.stdin.close()
    process.stdin = None
    return process


@dataclass(frozen=True)
class Cell:
    row: str
    seed: int
    config_hash: str
    refusal: str | None = None
    grid: str = GRID
    dataset: str = "demo"
    preset: str = "smoke"


def cell_of(record: RunRecord) -> Cell:
    return Cell(record.row, record.seed, record.config_hash)


def test_layout_and_reading_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    records = [make_record(row, seed) for row in ("1111", "w/o", "w_o") for seed in (0, 1)]
    paths = [store.write(record) for record in records]
    assert paths[0] == tmp_path / GRID / "demo.smoke" / "1111" / "seed0" / "record.json"
    assert len(set(paths)) == len(records)
    assert store.read(*PLACE, "w/o", 1) == records[3]
    assert store.read(*PLACE, "0000", 0) is None
    found = store.records(*PLACE)
    assert found.warnings == []
    assert sorted(found, key=repr) == sorted(records, key=repr)
    assert sorted(store.records(), key=repr) == sorted(records, key=repr)
    assert store.records(GRID, "wmt14", "paper") == []
    assert leftovers(tmp_path) == []


def test_no_output_folder_is_no_records(tmp_path: Path) -> None:
    found = Store(tmp_path / "none").records(*PLACE)
    assert (found, found.warnings) == ([], [])


def test_dots_in_names_dont_mix_presets(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(make_record(dataset="a.b", preset="c"))
    store.write(make_record(dataset="a", preset="b.c"))
    assert [r.preset for r in store.records(GRID, "a", "b.c")] == ["b.c"]
    assert len(store.records()) == 2


def test_a_finished_run_is_kept_unless_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write(make_record(metrics={"bleu": 1.0}))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="done already"):
        store.write(make_record(metrics={"bleu": 2.0}))
    with pytest.raises(StoreError, match="done already"):
        store.write(make_record(status="failed", reason="out of memory"))
    assert path.read_bytes() == before
    store.write(make_record(metrics={"bleu": 3.0}), replace=True)
    record = store.read(*PLACE, "1111", 0)
    assert record and record.metrics == {"bleu": 3.0}


@pytest.mark.parametrize("status", ["failed", "diverged", "refused"])
def test_a_run_without_result_makes_room(tmp_path: Path, status: str) -> None:
    store = Store(tmp_path)
    store.write(make_record(status=status, metrics={}))
    store.write(make_record())
    assert [r.status for r in store.records(*PLACE)] == ["done"]


def test_broken_and_foreign_files_are_named_and_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    good = store.write(make_record(seed=0))
    for seed in (1, 2, 3, 4):
        store.write(make_record(seed=seed))
    folder = good.parent.parent
    (folder / "seed1" / "record.json").write_bytes(good.read_bytes()[:100])
    (folder / "seed2" / "record.json").write_text('{"name": "something else"}')
    (folder / "seed3" / "record.json").write_bytes(os.urandom(64))
    (folder / "seed4" / "record.json").unlink()
    (folder / "seed4" / "record.json").symlink_to("record.json")
    shutil.copytree(good.parent, folder / "seed5")
    (folder / "seed6").mkdir()
    os.mkfifo(folder / "seed6" / "record.json")
    (folder / "seed7" / "record.json").mkdir(parents=True)
    (folder / "notes.json").write_text("{}")
    found = store.records(*PLACE)
    assert [r.seed for r in found] == [0]
    for seed in (1, 2, 3, 4, 5, 6):
        about = [w for w in found.warnings if f"seed{seed}{os.sep}record.json" in w]
        assert len(about) == 1, seed
        assert "\n" not in about[0]
    assert "belongs in another folder" in " ".join(found.warnings)
    with pytest.raises(StoreError, match="seed1"):
        store.read(*PLACE, "1111", 1)


def test_a_broken_record_is_run_again_and_its_bytes_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write(make_record())
    path.write_bytes(b'{"half')
    chosen = store.wanted([cell_of(make_record())])
    assert len(chosen) == 1 and "record.json" in chosen.warnings[0]
    store.write(make_record())
    assert store.read(*PLACE, "1111", 0) == make_record()
    aside = [p for p in path.parent.iterdir() if p.name.startswith("record.unreadable-")]
    assert [p.read_bytes() for p in aside] == [b'{"half']


def test_selection_of_cells(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = ["done", "failed", "diverged", "refused", "missing", "interrupted"]
    for row in rows[:4]:
        store.write(make_record(row, status=row))
    checkpoint = store.folder(*PLACE, "interrupted", 0) / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    cells = [cell_of(make_record(row)) for row in rows]
    cells[3] = Cell("refused", 0, cells[3].config_hash, refusal="leaks the future")
    assert [c.row for c in store.wanted(cells)] == ["missing", "interrupted"]
    assert [c.row for c in store.wanted(cells, only="failed")] == ["failed", "diverged"]
    assert [c.row for c in store.wanted(cells, only="all")] == rows
    cells[3] = cell_of(make_record("refused"))
    assert "refused" in [c.row for c in store.wanted(cells)]
    with pytest.raises(ValueError, match="missing, failed or all"):
        store.wanted(cells, only="some")  # type: ignore[arg-type]


def test_other_settings_are_named_where_done_and_run_where_failed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(make_record("a"))
    store.write(make_record("b", status="failed"))
    cells = [cell_of(make_record(row, settings={"max_steps": 5})) for row in "ab"]
    chosen = store.wanted(cells)
    assert [c.row for c in chosen] == ["b"]
    assert len(chosen.warnings) == 1 and "other settings" in chosen.warnings[0]


def test_many_writers_of_one_cell_leave_one_whole_record(tmp_path: Path) -> None:
    code = """
try:
    store.write(record); print("stored", record.metrics["bleu"])
except StoreError as error:
    print("refused")
"""
    children = [child(code, tmp_path, make_record(metrics={"bleu": i})) for i in range(4)]
    answers = [process.communicate()[0].split() for process in children]
    stored = [float(words[1]) for words in answers if words[0] == b"stored"]
    assert len(stored) == 1
    assert [r.metrics["bleu"] for r in Store(tmp_path).records()] == stored
    assert leftovers(tmp_path) == []


def test_a_killed_writer_leaves_the_old_or_the_new_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    big = {f"key{i}": "x" * 50 for i in range(2000)}
    record = make_record(config=big)
    for delay in (0.0, 0.01, 0.03):
        process = child(
            "print('on', flush=True)\nwhile True: store.write(record, replace=True)\n",
            tmp_path,
            record,
        )
        assert process.stdout and process.stdout.readline() == b"on\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = store.records()
        assert found.warnings == []
        assert list(found) in ([], [record])
    store.write(record, replace=True)
    assert store.records() == [record]


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os
def interrupted(handle): raise KeyboardInterrupt
os.fsync = interrupted
try:
    store.write(record)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = child(code, tmp_path, make_record())
    assert process.communicate()[0] == b"interrupted\n"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_write_beyond_the_size_limit_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.write(record)
except StoreError as error:
    print(error)
"""
    store = Store(tmp_path)
    old = store.path(make_record(status="failed"))
    store.write(make_record(status="failed"))
    before = old.read_bytes()
    message = child(code, tmp_path, make_record()).communicate()[0].decode()
    assert str(old) in message and "too large" in message
    assert message.count("\n") == 1
    assert leftovers(tmp_path) == []
    assert old.read_bytes() == before


def test_a_full_disk_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system isn't permitted here")
    try:
        store = Store(tmp_path)
        kept = store.write(make_record(seed=1))
        with pytest.raises(StoreError, match="no space left on device; free some space") as caught:
            store.write(make_record(config={"text": "x" * 100_000}))
        assert "\n" not in str(caught.value)
        assert leftovers(tmp_path) == []
        assert list(tmp_path.rglob("*.json")) == [kept]
        assert store.write(make_record()).exists()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("I am a file")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        Store(tmp_path / "out").write(make_record())
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        write_atomically(tmp_path / "out" / "table.md", b"")


def test_records_are_readable_by_the_group(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        path = Store(tmp_path).write(make_record())
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("grid", ["..", "../outside", "/etc", "a/../../b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, grid: str) -> None:
    store = Store(tmp_path / "out")
    path = store.write(make_record(grid=grid, row="../..", dataset="..", preset="..")).resolve()
    assert (tmp_path / "out").resolve() in path.parents
    assert len(store.records()) == 1
