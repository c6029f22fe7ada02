"""The trainer of a cell."""

from pathlib import Path

import pytest

from attnbench.benchmarks.training import make_trainer
from attnbench.tasks.module import Phase
from attnbench.tasks.training_config import TrainingConfig


def test_a_cell_trains_in_one_process_whatever_a_slurm_job_has_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"JOB_ID": "7", "JOB_NAME": "grid", "NTASKS": "8", "PROCID": "3", "LOCALID": "3"}
    for name, value in job.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    config = TrainingConfig.model_validate({"accelerator": "cpu"})
    trainer = make_trainer(config, Phase("", 1, 1, 1, 1), worker=0, folder=tmp_path)
    assert (trainer.world_size, trainer.global_rank, trainer.num_nodes) == (1, 0, 1)
