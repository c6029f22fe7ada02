"""The log file of one cell, and the quiet around it."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

LOG_NAME = "run.log"

_NOISY = ("lightning", "lightning.pytorch", "lightning.fabric", "py.warnings")


class RunLog:
    """Appends lines with the time in front to `run.log` in a cell's folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_NAME
        self._file = self.path.open("a", encoding="utf-8", buffering=1)

    def write(self, text: str) -> None:
        """Append `text`, each of its lines on one of its own.

        What can't be written is dropped: a full disk is reported by whoever writes results.
        """
        now = datetime.datetime.now().isoformat(sep=" ", timespec="seconds")
        with contextlib.suppress(OSError):
            for line in text.rstrip("\n").split("\n"):
                self._file.write(f"{now}  {line}\n")

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()


@contextlib.contextmanager
def away_from_the_terminal(write: Callable[[str], None]) -> Iterator[None]:
    """Give what Lightning, torch and Python's warnings say to `write`, a line each."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    before = [(log, log.handlers, log.propagate, log.level) for log in loggers]
    for log in loggers:
        log.handlers, log.propagate = [_To(write)], False
        log.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)  # libraries talking to libraries
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)
            for log, handlers, propagate, level in before:
                log.handlers, log.propagate = handlers, propagate
                log.setLevel(level)


class _To(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        text = " ".join(record.getMessage().split())
        self._write(f"{record.levelname.lower()}: {text[:400]}")


def last_line(folder: Path) -> str:
    """The last line of a cell's log, without its time; empty if there is none."""
    try:
        with (folder / LOG_NAME).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().decode("utf-8", "replace").rstrip().splitlines()
    except OSError:
        return ""
    return lines[-1].partition("  ")[2] if lines else ""


def one_line(error: BaseException) -> str:
    """`ValueError: first line of its message`, for a record."""
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name
