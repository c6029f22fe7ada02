"""Cells that are to be run again although they are done, remembered until they are.

A run with `--only all` that is stopped would leave no trace of what it was about: the old records
are still there. A small file in each cell's folder says so, and lets a later run go on.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

from ..results import write_atomically

_NAME = "again"

State = Literal["", "wanted", "begun"]


def state(folder: Path, config_hash: str) -> State:
    """Whether the cell in `folder` is wanted again with these settings, or begun again."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        words = (folder / _NAME).read_text(encoding="utf-8").split()
        if words == [config_hash, "begun"]:
            return "begun"
        if words == [config_hash, "wanted"]:
            return "wanted"
    return ""


def want(folder: Path, config_hash: str) -> None:
    """Remember that a done cell is to be run again, from its beginning. Raises StoreError."""
    write_atomically(folder / _NAME, f"{config_hash} wanted\n".encode())


def begin(folder: Path, config_hash: str) -> None:
    """Remember that it was begun, so that it goes on from its checkpoints. Raises StoreError."""
    if state(folder, config_hash) == "wanted":
        write_atomically(folder / _NAME, f"{config_hash} begun\n".encode())


def forget(folder: Path) -> None:
    """It has its new record."""
    (folder / _NAME).unlink(missing_ok=True)
