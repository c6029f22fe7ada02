"""What a cell needs before it can train: its data read, its module built; nothing is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import lightning
import torch

from ..datamodules.files import sha256_file
from ..tasks.module import DataCardLike, TaskModule
from .cell import Cell
from .runlog import away_from_the_terminal


@dataclass
class Prepared:
    """A cell that can train.

    `data` is the task's data module (a `TaskData` and a LightningDataModule); `begun_on` are the
    hashes that training depends on; `said` is what libraries had to say meanwhile; `seconds` what
    it took.
    """

    data: Any
    card: DataCardLike
    fingerprint: dict[str, str]
    begun_on: dict[str, str]
    module: TaskModule
    seconds: float
    said: list[str] = field(default_factory=list)


def prepare(cell: Cell) -> Prepared:
    """Read all data of a cell, also those that only its evaluation needs, and build its module.

    Raises:
        DataError: data that can't be read or used.
        ConfigError: settings that these data or this machine can't do.
    """
    begin = time.monotonic()
    said: list[str] = []
    with away_from_the_terminal(said.append):
        config: Any = cell.config
        config.check_machine()
        config.check_training()
        if config.threads:
            torch.set_num_threads(config.threads)
        data: Any = cell.entry.data(config)
        card = data.card()
        weights = config.first_weights  # settings tell it by its name alone
        first = {} if weights is None else {"weights": sha256_file(weights)}
        fingerprint = {**data.fingerprint(), **first}
        begun_on = {**data.training_fingerprint(), **first}
        data.train_dataloader()
        data.val_dataloader()
        data.predict_dataloader("test")
        lightning.seed_everything(cell.seed, verbose=False)
        module = cell.entry.build(config, data)
    return Prepared(data, card, fingerprint, begun_on, module, time.monotonic() - begin, said)
