"""Files that are either the old or the new one, never a half of either."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from .errors import StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

_HINTS = {
    errno.ENOSPC: "free some space and start the same command again, what is finished is kept",
    errno.EDQUOT: "free some of your quota and start the same command again, what is finished "
    "is kept",
    errno.EFBIG: "the file may not grow that large here, raise the limit or choose another folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
    errno.ENOTDIR: "a file stands where a folder is needed, choose another folder",
    errno.EEXIST: "a file stands where a folder is needed, choose another folder",
}


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`, making its folder where needed.

    The bytes go to a unique name in the same folder, are flushed to the disk and then renamed;
    the temporary file is removed on every failure. Raises StoreError where the system refuses.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
        try:
            _write_new(temporary, data)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _flush_folder(path.parent)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside into a StoreError that names `path`, the cause and the remedy."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        hint = _HINTS.get(error.errno or 0)
        raise StoreError(f"can't write {path}: {cause}" + (f"; {hint}" if hint else "")) from error


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes' `exclusive(folder)` waiting, where the file system can lock folders."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems can't lock a folder: the rename is atomic there all the same.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_new(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the rename itself durable; file systems that can't flush a folder are let be."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
