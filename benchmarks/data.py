"""`attnbench data`: write a demo set, read one that lies on disk and describe it, pack features."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..datamodules.caption_card import check_captions
from ..datamodules.caption_config import CaptionDataConfig
from ..datamodules.caption_open import has_captions
from ..datamodules.caption_pack import pack_captions
from ..datamodules.card import Card
from ..datamodules.demo.captioning import write_captioning_demo
from ..datamodules.demo.detection import write_detection_demo
from ..datamodules.demo.segmentation import write_segmentation_demo
from ..datamodules.demo.sentiment import has_sentiment_demo, write_sentiment_demo
from ..datamodules.demo.translation import write_translation_demo
from ..datamodules.detection_card import check_detection
from ..datamodules.detection_config import DetectionDataConfig
from ..datamodules.detection_open import has_detection
from ..datamodules.registry import dataset_entry
from ..datamodules.segmentation_card import check_segmentation
from ..datamodules.segmentation_config import SegmentationDataConfig
from ..datamodules.segmentation_open import has_segmentation
from ..datamodules.sentiment_card import check_sentiment
from ..datamodules.sentiment_config import SentimentDataConfig
from ..datamodules.translation_card import check_translation
from ..datamodules.translation_config import TranslationDataConfig
from ..tasks.settings import resolve
from .errors import UsageError, nearest
from .settings import parse_settings

DEMOS: dict[str, Callable[[Path], Path]] = {
    "translation": write_translation_demo,
    "captioning": write_captioning_demo,
    "sentiment": write_sentiment_demo,
    "detection": write_detection_demo,
    "segmentation": write_segmentation_demo,
}
CHECKS: dict[str, tuple[type[BaseModel], Callable[..., Card]]] = {
    "translation": (TranslationDataConfig, check_translation),
    "captioning": (CaptionDataConfig, check_captions),
    "sentiment": (SentimentDataConfig, check_sentiment),
    "detection": (DetectionDataConfig, check_detection),
    "segmentation": (SegmentationDataConfig, check_segmentation),
}
DEMO_SIGNS: dict[str, Callable[[Path], bool]] = {
    "captioning": has_captions,
    "sentiment": has_sentiment_demo,
    "segmentation": has_segmentation,
    "detection": has_detection,
}
"""Whether a folder holds data of a task; where none does, it is translation's."""


def write_demo(task: str, root: Path) -> Path:
    """Write the demo set of a task into `root`. Raises UsageError, DataError."""
    if task not in DEMOS:
        hint = nearest(task, DEMOS, otherwise=f"; there is some for {', '.join(DEMOS)}")
        raise UsageError(f"there is no demo data for {task!r}{hint}")
    return DEMOS[task](root)


def check_data(dataset: str, root: Path, settings: Sequence[str]) -> Card:
    """Read all of a data set as training would. Raises UsageError, ConfigError, DataError."""
    config, checked = CHECKS[_task(dataset, root)]
    values = _settings("check", settings)
    resolve(config, {**values, "dataset": dataset, "root": root})
    return checked(dataset, root, **values)


def pack_data(dataset: str, options: Namespace) -> list[str]:
    """Pack a data set's features into one store; what there is to say about it.

    Args:
        dataset: its name.
        options: `root`, `out` (the store's place or None), `extract` (a backbone or None),
            `dtype` and `settings`.

    Raises UsageError, ConfigError, DataError.
    """
    if _task(dataset, options.root) != "captioning":
        raise UsageError(f"data pack: {dataset} has no image features to pack")
    values = _settings("pack", options.settings)
    if options.extract is not None:
        values["extract"] = options.extract
    config = resolve(CaptionDataConfig, {**values, "dataset": dataset, "root": options.root})
    with _progress() as done:
        store, notes = pack_captions(config, options.out, dtype=options.dtype, progress=done)
    header = store.header
    what = f"{header.images:,} images, {header.rows:,} regions of {header.dim:,} ({header.dtype})"
    return [f"wrote {store.folder}: {header.layout}, {what}", *notes]


def _task(dataset: str, root: Path) -> str:
    """Name the task whose data lie there; the demo's are told by what they hold."""
    tasks = dataset_entry(dataset).tasks
    if len(tasks) == 1:
        return tasks[0]
    return next((task for task, there in DEMO_SIGNS.items() if there(root)), "translation")


def _settings(what: str, settings: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = parse_settings(settings)
    for name, given in {"dataset": f"after `{what}`", "root": "with --root"}.items():
        if name in values:
            raise UsageError(f"data {what}: {name} is given {given}, not as a setting")
    return values


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Count images on a terminal's standard error; elsewhere say nothing."""

    def show(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} images", end="", file=sys.stderr, flush=True)

    yield show
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
