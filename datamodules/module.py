"""What the data modules of all tasks share: their folder, and the place in training batches."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from lightning import LightningDataModule

from .errors import DataError
from .loading import StatefulLoader
from .registry import dataset_entry

LoaderT = TypeVar("LoaderT", bound=StatefulLoader[Any])


class ResumableDataModule(LightningDataModule, ABC):
    """A data set in a folder, whose training batches go on where a checkpoint stopped.

    Args:
        dataset: its name.
        root: its folder; the demo needs none.
    """

    def __init__(self, dataset: str, root: Path | None) -> None:
        super().__init__()
        self._dataset, self._given_root = dataset, root
        self._loader: StatefulLoader[Any] | None = None
        self._place: dict[str, Any] | None = None

    @abstractmethod
    def write_demo(self, root: Path) -> object:
        """Write the demo of the task into a folder."""

    @cached_property
    def root(self) -> Path:
        """Folder of the data; a temporary one, gone with this object, for the demo without one."""
        if self._given_root is not None:
            return self._given_root
        entry = dataset_entry(self._dataset)
        if entry.name != "demo":
            raise DataError(f"{entry.name} needs root, the folder it lies in ({entry.source}).")
        self._temporary = tempfile.TemporaryDirectory(prefix="attnbench-demo-")
        folder = Path(self._temporary.name) / "demo"
        self.write_demo(folder)
        return folder

    @property
    def share(self) -> dict[str, int]:
        """How many processes share the batches and which one this is, for the loaders."""
        if self.trainer is None:
            return {"num_replicas": 1, "rank": 0}
        return {"num_replicas": self.trainer.world_size, "rank": self.trainer.global_rank}

    def resumed(self, loader: LoaderT) -> LoaderT:
        """Make a loader the training one, going on where a loaded state stopped.

        Raises:
            DataError: the loaded state was of other batches.
        """
        self._loader = loader
        if self._place is not None:
            loader.load_state_dict(self._place)
            self._place = None
        return loader

    def state_dict(self) -> dict[str, Any]:
        """Give the place in the training batches, for Lightning's checkpoints."""
        return {"train": self._loader.state_dict()} if self._loader else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the training loader go on with the batch after the last one used.

        Raises:
            DataError: the checkpoint was trained on other batches (on a loader that exists already;
                otherwise `train_dataloader` raises it).
        """
        self._place = state_dict.get("train")
        if self._loader is not None and self._place is not None:
            self._loader.load_state_dict(self._place)
