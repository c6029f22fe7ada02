"""The tasks, each as data: its settings, its data, its module and its attention sites.

Lightning and the data libraries are loaded when a task is built, so that lists stay quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ..models.attention import Site
from .errors import ConfigError
from .translation_config import TRANSLATION_SITES, TranslationConfig

if TYPE_CHECKING:
    import lightning

    from ..datamodules.translation import TranslationData
    from .cost import CostReport
    from .translation import TranslationTask


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


def _translation_data(config: TranslationConfig) -> TranslationData:
    from ..datamodules.translation import TranslationData

    return TranslationData(config)


def _translation(config: TranslationConfig, data: TranslationData) -> TranslationTask:
    import torch

    from .translation import TranslationTask

    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    found["gpu"] = any(found.values())
    if not found.get(config.accelerator, True):
        raise ConfigError(
            f"accelerator={config.accelerator}, but this machine has no such device: use "
            "accelerator=auto or accelerator=cpu"
        )
    if config.share_embeddings == "all" and data.source_vocabulary != data.target_vocabulary:
        raise ConfigError(
            "share_embeddings=all needs one dictionary for both languages, but these data have "
            "two: use share_embeddings=decoder, or data with a joined dictionary"
        )
    return TranslationTask(config, len(data.source_vocabulary), len(data.target_vocabulary))


def _translation_cost(config: TranslationConfig) -> CostReport:
    from .translation import measure

    return measure(config)


TASKS: dict[str, TaskEntry] = {
    "translation": TaskEntry(
        name="translation",
        title="machine translation",
        config=TranslationConfig,
        data=_translation_data,
        build=_translation,
        sites=TRANSLATION_SITES,
        metric="bleu",
        measure=_translation_cost,
        unhashed=frozenset({"root", "cache", "seed", "threads", "accelerator", "validate_every"}),
    )
}
