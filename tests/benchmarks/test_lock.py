"""One process a cell, and locks that no crash leaves behind."""

import subprocess
import sys
from pathlib import Path

from attnbench.benchmarks.lock import CellLock, is_locked

HOLD = """
import sys
from pathlib import Path
from attnbench.benchmarks.lock import CellLock
print(CellLock(Path(sys.argv[1])).acquire(), flush=True)
sys.stdin.read()
"""


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    first, second = CellLock(tmp_path), CellLock(tmp_path)
    assert first.acquire() and is_locked(tmp_path)
    assert not second.acquire()
    first.release()
    assert not is_locked(tmp_path) and list(tmp_path.iterdir()) == []
    assert second.acquire()
    second.release()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "True\n"
    assert is_locked(tmp_path) and not CellLock(tmp_path).acquire()
    process.kill()
    process.communicate()
    assert not is_locked(tmp_path)
    lock = CellLock(tmp_path)
    assert lock.acquire()
    lock.release()


def test_asking_takes_no_lock_away(tmp_path: Path) -> None:
    assert not is_locked(tmp_path) and not is_locked(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
