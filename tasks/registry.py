"""The tasks, each as data: its settings, its data, its module and its attention sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightning
from pydantic import BaseModel

from ..datamodules.translation import TranslationData
from ..models.attention import Site
from .cost import CostReport
from .translation import TranslationTask, measure
from .translation_config import TRANSLATION_SITES, TranslationConfig


@dataclass(frozen=True)
class TaskEntry:
    """One task.

    Attributes:
        name: as on the command line.
        title: for lists.
        config: all settings, one level.
        data: makes the data module of a config.
        build: makes the Lightning module for a config and its prepared data; it has
            ``evaluate(data, split="test") -> Evaluation``.
        sites: where attention variants are plugged in; each is a setting of that name.
        metric: the headline metric.
        measure: counts parameters and multiply-accumulates.
        unhashed: settings that can't change the result (paths, machine), left out of the hash.
    """

    name: str
    title: str
    config: type[BaseModel]
    data: Callable[[Any], lightning.LightningDataModule]
    build: Callable[[Any, Any], lightning.LightningModule]
    sites: dict[str, Site]
    metric: str
    measure: Callable[[Any], CostReport]
    unhashed: frozenset[str]


def _translation(config: TranslationConfig, data: TranslationData) -> TranslationTask:
    return TranslationTask(config, len(data.source_vocabulary), len(data.target_vocabulary))


TASKS: dict[str, TaskEntry] = {
    "translation": TaskEntry(
        name="translation",
        title="machine translation",
        config=TranslationConfig,
        data=TranslationData,
        build=_translation,
        sites=TRANSLATION_SITES,
        metric="bleu",
        measure=measure,
        unhashed=frozenset({"root", "cache", "seed", "threads", "accelerator", "validate_every"}),
    )
}
