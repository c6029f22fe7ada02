"""`attnbench data`: write a demo set, or read one that lies on disk and describe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..datamodules.card import DataCard, check
from ..datamodules.demo.translation import write_translation_demo
from ..datamodules.translation_config import TranslationDataConfig
from ..tasks.settings import resolve
from .errors import UsageError, nearest
from .settings import parse_settings

DEMOS: dict[str, Callable[[Path], Path]] = {"translation": write_translation_demo}


def write_demo(task: str, root: Path) -> Path:
    """Write the demo set of a task into `root`. Raises UsageError, DataError."""
    if task not in DEMOS:
        hint = nearest(task, DEMOS, otherwise=f"; there is some for {', '.join(DEMOS)}")
        raise UsageError(f"there is no demo data for {task!r}{hint}")
    return DEMOS[task](root)


def check_data(dataset: str, root: Path, settings: Sequence[str]) -> DataCard:
    """Read all of a data set as training would. Raises UsageError, ConfigError, DataError."""
    values: dict[str, Any] = parse_settings(settings)
    for name, given in {"dataset": "after `check`", "root": "with --root"}.items():
        if name in values:
            raise UsageError(f"data check: {name} is given {given}, not as a setting")
    resolve(TranslationDataConfig, {**values, "dataset": dataset, "root": root})
    return check(dataset, root, **values)
