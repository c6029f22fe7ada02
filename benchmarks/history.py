"""What a cell's validations said while it trained, a JSON object a line: `history.jsonl`.

Each line names the phase of training (empty where there is only one), how many of its updates
were done of how many, the epoch with its fraction, seconds of training in this phase, and every
number that was logged; one that isn't finite is null.

While a cell trains, the file lies with the checkpoints that it belongs to and loses what is newer
than the one that is gone on from; so it ends up as one run without a break writes it. At the end it
comes to lie beside the record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..results import Store, write_atomically
from ..results.atomic import storage_errors
from .cell import Cell
from .records import HISTORY, checkpoints_folder


class Entry(BaseModel):
    """One validation."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    phase: str = ""
    update: int = Field(ge=0)
    updates: int = Field(ge=0)
    epoch: float = Field(ge=0)
    seconds: float = Field(ge=0)
    values: dict[str, float | None] = Field(default_factory=dict)


class History:
    """The file of one cell.

    Args:
        path: the file; need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[Entry]:
        """All whole lines; one that a crash cut off is passed over, a missing file has none."""
        return [entry for _, entry in self._lines()]

    def keep_until(self, phase: str, update: int) -> int:
        """Drop what was validated in `phase` after `update`, and half lines.

        Gives the update of the phase's last validation that is kept, 0 where there is none.
        Raises StoreError.
        """
        kept = [
            (line, entry)
            for line, entry in self._lines()
            if entry.phase != phase or entry.update <= update
        ]
        text = b"".join(line for line, _ in kept)
        if self.path.exists() and text != self.path.read_bytes():
            write_atomically(self.path, text)
        return max((entry.update for _, entry in kept if entry.phase == phase), default=0)

    def append(self, entry: Entry) -> None:
        """Write one line, at once. Raises StoreError."""
        line = json.dumps(entry.model_dump(), allow_nan=False) + "\n"
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                file.write(line.encode("utf-8"))
                os.fsync(file.fileno())

    def copy_to(self, path: Path) -> None:
        """Put the whole lines at `path` too; nothing where there are none. Raises StoreError."""
        if lines := self._lines():
            write_atomically(path, b"".join(line for line, _ in lines))

    def _lines(self) -> list[tuple[bytes, Entry]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return list(_whole(content.splitlines(keepends=True)))


def live_history(store: Store, cell: Cell) -> History:
    """The history of a cell that isn't finished."""
    return History(checkpoints_folder(store, cell) / HISTORY)


def _whole(lines: Iterable[bytes]) -> Iterable[tuple[bytes, Entry]]:
    for line in lines:
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError:
            continue
        if line.endswith(b"\n"):
            yield line, entry
