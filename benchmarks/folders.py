"""A folder of files that is either the old or the new one, never a half of either."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..results.atomic import storage_errors
from .errors import UsageError


def check_folder(path: Path, names: Iterable[str]) -> None:
    """Raise UsageError unless `path` is free, or a folder that holds nothing but such files."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir() or path.is_symlink():
        raise UsageError(f"{path} is there and no folder; give another --out")
    expected = set(names)
    with storage_errors(path):
        strange = sorted(entry.name for entry in path.iterdir() if entry.name not in expected)
    if strange:
        raise UsageError(
            f"{path} holds other things than the files to be written, such as {strange[0]}; give "
            "another --out, or a folder that isn't there yet"
        )


def write_folder(path: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Write files into a folder of their own and put it at `path`; gives their number.

    They go to a folder of a unique name beside it, which then takes its place; that of an earlier
    folder of the same kind too (`check_folder`). Whatever fails, `path` is as it was.

    Raises:
        UsageError: something else lies at `path`.
        StoreError: the system refuses to write.
    """
    names: list[str] = []
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{path.name[:100]}.{os.getpid()}.{secrets.token_hex(6)}"
    made, old = path.parent / f".{mark}.tmp", path.parent / f".{mark}.old.tmp"
    try:
        with storage_errors(made):
            made.mkdir()
        for name, content in files:
            with storage_errors(path / name):
                _write(made / name, content)
            names.append(name)
        check_folder(path, names)
        with storage_errors(path), _aside(path, old):
            made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    return len(names)


@contextlib.contextmanager
def _aside(path: Path, old: Path) -> Iterator[None]:
    """Make room at `path`; what was there goes to `old`, and back if the rest fails."""
    there = path.exists()
    if there:
        path.rename(old)
    try:
        yield
    except BaseException:
        if there:
            old.rename(path)
        raise


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
