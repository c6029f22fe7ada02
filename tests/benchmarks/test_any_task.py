"""The runner knows no task: one of two phases, JSON predictions and a metric that can't be had."""

import json
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.plan import make_plan
from attnbench.benchmarks.running import make_cell
from attnbench.results import Store
from attnbench.tasks.cost import CostReport
from attnbench.tasks.module import Evaluation, Phase, TaskModule
from attnbench.tasks.registry import TASKS, TaskEntry
from attnbench.tasks.training_config import TrainingConfig
from tests.benchmarks.tiny import records

METRIC = "slope_error"


class ToyConfig(TrainingConfig):
    """Fit a line, first roughly, then finely."""

    dataset: str = "demo"
    rough_steps: int = 6
    fine_steps: int = 4
    seed: int = 0


class ToyCard(BaseModel):
    """A card with nothing of translation in it."""

    points: int

    def render(self) -> str:
        """As text."""
        return f"{self.points} points"


class ToyData(lightning.LightningDataModule):
    """Points of the line y = 3 x."""

    def card(self) -> ToyCard:
        return ToyCard(points=8)

    def fingerprint(self) -> dict[str, str]:
        return {"points": "abc", "test points": "def"}

    def training_fingerprint(self) -> dict[str, str]:
        return {"points": "abc"}

    def predict_dataloader(self, split: str = "test") -> Any:
        return DataLoader(torch.linspace(-1, 1, 8).unsqueeze(1), batch_size=4)  # type: ignore[arg-type]

    train_dataloader = val_dataloader = predict_dataloader


class ToyModule(TaskModule):
    """One weight, with the rate of the phase; keeps the newest checkpoint instead of a mean."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.config = config
        self.line = nn.Linear(1, 1, bias=False)
        self.rate, self.begun = 0.0, [""]

    def begin_phase(self, phase: Phase, data: Any) -> None:
        self.rate = {"rough": 0.5, "fine": 0.1}[phase.name]
        self.begun.append(f"{phase.name} at {self.line.weight.item():.3f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.rate)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return (self.line(batch) - 3 * batch).square().mean()

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("val/loss", (self.line(batch) - 3 * batch).square().mean())

    def final_weights(self, checkpoints: Any) -> tuple[dict[str, Tensor], str]:
        newest = torch.load(checkpoints[-1], weights_only=True)["state_dict"]
        return newest, f"took {checkpoints[-1].name} of {len(checkpoints)}"

    def evaluate(self, data: Any, split: str = "test") -> Evaluation:
        slope = self.line.weight.item()
        return Evaluation(
            {METRIC: abs(slope - 3), "meteor": None},
            items=1,
            predictions=[{"slope": slope}],
            as_json=True,
            reasons={"meteor": "no Java"},
        )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> TaskEntry:
    """The task, known for as long as the test runs."""
    entry = TaskEntry(
        name="toy",
        title="a line",
        config=ToyConfig,
        data=lambda config: ToyData(),
        build=lambda config, data: ToyModule(config),
        phases=lambda c: (
            Phase("rough", c.rough_steps, 2, 2, keep=2),
            Phase("fine", c.fine_steps, 2, 2, keep=2),
        ),
        sites={},
        metric=METRIC,
        measure=lambda config: CostReport(1, 10, 10, 2, "one batch"),
        training_items=lambda config: 100.0,
        unhashed=frozenset({"seed", "threads", "accelerator"}),
    )
    monkeypatch.setitem(TASKS, "toy", entry)
    return entry


def test_a_task_of_two_phases_is_run_and_recorded(
    toy: TaskEntry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "toy", "row=line", "accelerator=cpu", "--out", str(tmp_path)]
    assert main([*words, "--keep-checkpoints"]) == 0
    printed = capsys.readouterr().out
    assert "meteor n/a: no Java" in printed
    (record,) = records(tmp_path).values()
    assert record.phase == "fine" and record.status == "done"
    assert record.metrics["meteor"] is None and record.notes["meteor"] == "no Java"
    assert record.data.card == {"points": 8} and record.parameters == 1
    folder = Store(tmp_path).path(record).parent
    (slope,) = json.loads((folder / "predictions.json").read_text())
    assert record.metrics[METRIC] == pytest.approx(abs(slope["slope"] - 3))
    log = (folder / "run.log").read_text()
    assert "training (rough)" in log and "training (fine)" in log
    assert "took step=00000006.ckpt of 2" in log and "took step=00000004.ckpt of 2" in log

    # Killed in the second phase: the first one isn't trained again.
    newest = next(folder.rglob("fine/step=00000004.ckpt"))
    newest.unlink()
    (folder / "record.json").unlink()
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "line seed 0: going on from update 6 of rough" in said
    assert "line seed 0: going on from update 2 of fine" in said
    assert records(tmp_path).popitem()[1].metrics == record.metrics
    log = (folder / "run.log").read_text()
    assert "going on from step=00000006.ckpt" in log and "going on from step=00000002.ckpt" in log
    assert not (folder / "checkpoints").exists()


def test_the_plan_counts_what_the_task_says(toy: TaskEntry, tmp_path: Path) -> None:
    cell = make_cell(toy, grid="own/toy", row="line", seed=0, preset="p", settings={})
    (planned,) = make_plan([cell], Store(tmp_path)).cells
    assert planned.training_macs == 3 * 10 * 100 / 2
