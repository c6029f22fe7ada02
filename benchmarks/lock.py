"""One process at a time works on a cell, also where several share an output folder."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

_NAME = "lock"
_LONGEST = 400
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class CellLock:
    """An exclusive lock on a cell's folder. The system frees it however the process ends.

    `holder` says who has it, for `held_by`. On a file system that can't lock, `acquire` always
    succeeds and `works` is False.
    """

    def __init__(self, folder: Path, holder: str = "") -> None:
        self._path = folder / _NAME
        self._holder = holder
        self._handle: int | None = None
        self.works = True

    def acquire(self) -> bool:
        """Take the lock; False if another process has it."""
        for _ in range(5):  # someone who only asks holds it for a moment
            if self._try():
                return True
            time.sleep(0.05)
        return False

    def _try(self) -> bool:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl is None:
                raise OSError(errno.ENOTSUP, "no locks on this system")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _BUSY:
                os.close(handle)
                return False
            self.works = False
        if not _is_file(handle, self._path):  # its owner removed it in between
            os.close(handle)
            return False
        self._handle = handle
        with contextlib.suppress(OSError):  # a full disk keeps nobody from holding it
            os.ftruncate(handle, 0)
            os.write(handle, self._holder.encode("utf-8", "replace"))
        return True

    def release(self) -> None:
        """Give the lock back and remove its file."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def is_locked(folder: Path) -> bool:
    """Whether a process works on the cell in `folder` right now."""
    if fcntl is None:
        return False
    try:
        handle = os.open(folder / _NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(handle)
    return False


def held_by(folder: Path) -> str:
    """Who works on the cell in `folder`, as its `holder` said; empty where that isn't known."""
    try:
        return (folder / _NAME).read_text(encoding="utf-8", errors="replace")[:_LONGEST].strip()
    except OSError:
        return ""


def _is_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
