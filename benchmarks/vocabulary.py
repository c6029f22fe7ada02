"""The real vocabulary of a cell's data, which decides how many parameters its model has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..datamodules.errors import DataError
from ..results import RunRecord
from ..results.canonical import plain
from .cell import Cell

MOST_BYTES = 50_000_000
"""Data larger than this aren't read for a plan: learning subwords on them takes minutes."""


class Vocabularies:
    """Looks the vocabulary's size up: in a finished cell on the same data, else in the data."""

    def __init__(self, done: Sequence[RunRecord]) -> None:
        self._done = done
        self._found: dict[str, int | None] = {}

    def size(self, cell: Cell) -> int | None:
        """Number of symbols; None where it isn't known before a run, or there are two of them."""
        if "vocabulary_size" not in type(cell.config).model_fields:
            return None
        settings = _data_settings(cell)
        key = repr(sorted(settings.items()))
        if key not in self._found:
            card = self._recorded(cell, settings) or _read(cell)
            separate = card.get("source_vocabulary_size") is not None
            size = None if separate else card.get("vocabulary_size")
            self._found[key] = size if isinstance(size, int) else None
        return self._found[key]

    def _recorded(self, cell: Cell, settings: dict[str, Any]) -> dict[str, Any]:
        """The data card of a finished cell whose data are the same."""
        stored = {k: plain(value) for k, value in cell.stored_config().items() if k in settings}
        for record in self._done:
            if all(record.config.get(name) == value for name, value in stored.items()):
                return dict(record.data.card)
        return {}


def _data_settings(cell: Cell) -> dict[str, Any]:
    """The settings that data modules have, without those that can't change the data."""
    config = type(cell.config)
    owner = next((kind for kind in config.__mro__ if ".datamodules." in kind.__module__), config)
    names = getattr(owner, "model_fields", {}).keys() - cell.entry.unhashed
    return {name: getattr(cell.config, name) for name in names}


def _read(cell: Cell) -> dict[str, Any]:
    """The card of data that are there and small; empty where they can't be read."""
    config: Any = cell.config
    if config.root is None and cell.dataset != "demo":
        return {}
    try:
        if config.root is not None and _bytes(config.root) > MOST_BYTES:
            return {}
        data: Any = cell.entry.data(config.model_copy(update={"cache": None}))
        return data.card().model_dump()
    except (DataError, OSError):  # the run says what is wrong with them
        return {}


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
