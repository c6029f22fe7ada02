"""Norms that have too little to work with say so in a sentence."""

from pathlib import Path
from typing import Any

import pytest

from attnbench.datamodules.demo.detection import write_detection_demo
from attnbench.tasks.errors import ConfigError
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve
from tests.tasks.segmentation_world import SETTINGS, write_world

_SMALL = {"resnet": "resnet18", "heads": 2, "batch_norm": "batch", "accelerator": "cpu"}


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("detection", {"min_size": 16, "max_size": 32, "fpn_channels": 8}, "raise min_size and"),
        ("segmentation", {"crop_height": 16, "crop_width": 32}, "raise crop_height and crop_width"),
    ],
)
def test_a_single_cell_can_not_be_normalised(
    tmp_path: Path, task: str, settings: dict[str, Any], words: str
) -> None:
    if task == "segmentation":
        settings = {**SETTINGS, "root": write_world(tmp_path / "world"), **settings}
    else:
        root = write_detection_demo(tmp_path / "world", train=2, val=1, test=1)
        settings = {**_SMALL, "root": root, **settings}
    entry = TASKS[task]
    config = resolve(entry.config, {**settings, "batch_size": 1})
    data = entry.data(config)
    built = entry.build(config, data).train()
    with pytest.raises(ConfigError, match=f"single cell.*{words}.*or batch_size"):
        built.training_step(next(iter(data.train_dataloader())), 0)
