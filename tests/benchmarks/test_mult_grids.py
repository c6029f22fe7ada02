"""The grids of MulT: published numbers of two splits, exact sizes, refusals, and exact resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from attnbench.benchmarks.callbacks import SaveCheckpoints
from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.checkpoints import Checkpoints
from attnbench.benchmarks.cli import main
from attnbench.benchmarks.cost import grid_costs
from attnbench.benchmarks.grid import load_grid, shared_presets
from attnbench.benchmarks.table import table_spec
from attnbench.benchmarks.training import make_trainer
from attnbench.datamodules.demo.sentiment import write_sentiment_demo
from attnbench.datamodules.sentiment import SentimentData
from attnbench.models.attention import list_variants
from attnbench.models.sentiment import parameter_count
from attnbench.models.streams import MODALITIES
from attnbench.results import Published, ResultTable, RunRecord, Store
from attnbench.tasks.registry import TASKS
from attnbench.tasks.sentiment import SentimentTask
from attnbench.tasks.sentiment_config import SentimentConfig
from attnbench.tasks.sentiment_cost import SIZES
from attnbench.tasks.settings import resolve
from tests.benchmarks.tiny import command
from tests.shared import golden_dir

pytestmark = pytest.mark.timeout(300)

SETTINGS: dict[str, Any] = {
    "dataset": "demo",
    "dim": 8,
    "heads": 2,
    "crossmodal_layers": 1,
    "memory_layers": 1,
    "hidden": 4,
    "batch_size": 8,
    "max_steps": 11,
    "check_every": 2,
    "validate_every": 3,
    "learning_rate": 0.02,
    "plateau_patience": 0,
    "threads": 1,
    "accelerator": "cpu",
}
ROWS = [
    {
        "row": "aligned: MulT",
        "set": {"alignment": "aligned"},
        "published": "MulT",
        "published_split": "mosi-aligned",
    },
    {"row": "unaligned: MulT", "set": {"model": "mult"}, "published": "MulT"},
    {"row": "aligned: EF-LSTM", "set": {"model": "ef-lstm", "alignment": "aligned"}},
    {"row": "unaligned: MCTN", "set": {"model": "mctn", "alignment_by": "ctc"}},
    {"row": "nowhere", "set": {"model": "raven"}},
    {"row": "blind", "set": {"crossmodal": "none"}},
    {"row": "Ridge", "set": {"model": "ridge"}},
]
PUBLISHED = {
    "paper": "mult",
    "table": "table1",
    "dataset_split": "mosi-unaligned",
    "metrics": {"mae": "mae"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """36 training items, 5 batches an epoch, so that checkpoints fall into the middle of epochs."""
    folder = tmp_path_factory.mktemp("demo") / "sentiment"
    return write_sentiment_demo(folder, train=36, val=10, test=12)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, Path]:
    """A grid and the output of a run of it."""
    folder = tmp_path_factory.mktemp("run")
    grid = folder / "tiny.yaml"
    values = {"grid": "own/tiny", "task": "sentiment", "presets": {"tiny": SETTINGS}}
    values |= {"rows": ROWS, "metrics": ["majority_mae"], "published": PUBLISHED}
    grid.write_text(yaml.safe_dump(values))
    assert main(command("run", grid, folder / "out", "--root", str(root))) == 0
    return grid, folder / "out"


def record_of(out: Path, row: str) -> RunRecord:
    folder = Store(out).folder("own/tiny", "demo", "tiny", row, 0)
    return RunRecord.from_json((folder / "record.json").read_bytes())


def test_rows_run_and_refused_ones_say_why(run: tuple[Path, Path]) -> None:
    for row in ("aligned: MulT", "unaligned: MulT", "aligned: EF-LSTM", "unaligned: MCTN", "Ridge"):
        record = record_of(run[1], row)
        assert record.status == "done" and record.items == 12
        assert record.metrics["mae"] is not None and record.metrics["majority_mae"] is not None
    blind, nowhere = record_of(run[1], "blind"), record_of(run[1], "nowhere")
    assert blind.status == nowhere.status == "refused"
    assert "no stream would see another one" in blind.reason
    assert "alignment=aligned or alignment_by=ctc" in nowhere.reason


def test_each_row_stands_beside_the_numbers_of_its_own_split(run: tuple[Path, Path]) -> None:
    grid = load_grid(str(run[0]))
    spec = table_spec(grid, "demo", "tiny")
    table = ResultTable.build(spec, Store(run[1]).records())
    published = {row.row: row.metrics["mae"].published for row in table.rows}
    values = Published.load()
    for row, split in (("aligned: MulT", "mosi-aligned"), ("unaligned: MulT", "mosi-unaligned")):
        assert published[row] == values.value("mult", "table1", split, "MulT", "mae")
    assert published["aligned: MulT"] != published["unaligned: MulT"]
    assert "table1, mosi-aligned and mosi-unaligned;" in table.how["published"]
    costs = {cost.row: cost.published for cost in grid_costs(grid, Choice(preset="tiny"))}
    assert costs["aligned: MulT"]["mae"] == 0.871 and costs["unaligned: MulT"]["mae"] == 0.889


@pytest.mark.parametrize("select", ["best", "last"])
def test_a_run_goes_on_bit_by_bit_from_every_checkpoint(
    root: Path, tmp_path: Path, select: str
) -> None:
    """Also from those after which a validation changes the rate or the choice of weights."""
    # At such a rate no validation is better by as much as counts, so that each one lowers the rate.
    settings = {**SETTINGS, "root": root, "select": select, "learning_rate": 1e-6}
    config = resolve(SentimentConfig, settings)
    reference, drops = _train(config, Checkpoints(tmp_path / "whole", keep=99), None)
    assert drops > 0, "no plateau, so nothing is tested"
    for path in Checkpoints(tmp_path / "whole", keep=99).all():
        again, fell = _train(config, Checkpoints(tmp_path / path.stem, keep=99), path)
        assert fell == drops
        assert all(torch.equal(again[name], value) for name, value in reference.items()), path.name


def _train(
    config: SentimentConfig, checkpoints: Checkpoints, resume: Path | None
) -> tuple[dict[str, torch.Tensor], int]:
    """The final weights of a run, begun or gone on with, and how often the rate fell."""
    torch.manual_seed(0 if resume is None else 99)
    data = SentimentData(config)
    task = TASKS["sentiment"].build(config, data)
    assert isinstance(task, SentimentTask)
    (phase,) = TASKS["sentiment"].phases(config)
    save = SaveCheckpoints(checkpoints, phase.check_every)
    checkpoints.folder.mkdir()
    trainer = make_trainer(config, phase, worker=0, folder=checkpoints.folder, callbacks=[save])
    task.begin_phase(phase, data)
    trainer.fit(task, datamodule=data, ckpt_path=resume, weights_only=True)
    last = checkpoints.last() or ([resume] if resume is not None else [])
    return task.final_weights(last[-1:])[0], task.selection.drops


@pytest.mark.parametrize("name", ["mosi", "mosei", "iemocap"])
def test_every_row_of_the_paper_is_there_in_its_order(name: str) -> None:
    grid = load_grid(f"mult/{name}")
    assert grid.published is not None
    for alignment in ("aligned", "unaligned"):
        split = f"{name}-{alignment}"
        (table,) = [
            table
            for table in Published.load().tables()
            if (table.paper, table.table, table.dataset_split)
            == ("mult", grid.published.table, split)
        ]
        own = [r for r in grid.rows if r.published and (grid.published_place(r) or "")[2] == split]
        assert [row.published for row in own] == [*table.rows]
        assert set(grid.published.metrics.values()) == set(table.metrics)
        for row in own:
            assert row.reference or row.set["alignment"] == alignment


def test_the_ablation_is_the_papers() -> None:
    rows = {row.row: row for row in load_grid("mult/ablation").rows}
    (table,) = [t for t in Published.load().tables() if (t.paper, t.table) == ("mult", "table4")]
    assert {row.published for row in rows.values() if row.published} == set(table.rows)
    assert rows["[V,A->L] only"].set == {"targets": "text"}


def test_parameters_are_exactly_those_of_the_public_code() -> None:
    """Of full MulT, at the settings of the paper and of the code, on all three data sets."""
    counts = {
        (entry["label"], entry["mode"]): entry["parameters"]
        for entry in json.loads((golden_dir() / "mult" / "parameter_counts.json").read_text())
    }
    kernels = {"mosi": "k133", "mosei": "k133", "iemocap": "k335"}
    for name, kernel in kernels.items():
        for preset, label in (
            ("paper", f"paper_table5_{name}_{kernel}"),
            ("public-code", f"code_defaults_{name}"),
            ("parity", f"code_defaults_{name}"),
        ):
            choice = Choice(preset=preset, rows=("unaligned: MulT",))
            (cell,) = make_cells(load_grid(f"mult/{name}"), choice)
            config: Any = cell.config
            dims = dict(zip(MODALITIES, SIZES[name].widths, strict=True))
            model = config.model_config_of(dims, SIZES[name].outputs)
            assert parameter_count("mult", model) == counts[label, "lav"]


def test_the_published_counts_of_mosei_come_out() -> None:
    for preset, count in (("paper", 1_549_321), ("public-code", 1_073_731)):
        choice = Choice(preset=preset, rows=("aligned: MulT", "unaligned: MulT"))
        aligned, unaligned = grid_costs(load_grid("mult/mosei"), choice)
        assert aligned.params == unaligned.params == count
        assert aligned.macs is not None and unaligned.macs is not None
        assert aligned.macs < unaligned.macs
        assert "50 x 300, audio 500 x 74" in unaligned.note


def test_baselines_are_as_large_as_mult() -> None:
    for cost in grid_costs(load_grid("mult/mosi"), Choice()):
        if cost.row.endswith(("Ridge", "Majority")):
            continue
        assert cost.params == pytest.approx(1_539_241, rel=0.005), cost.row
        assert cost.macs, cost.row


def test_updates_are_the_papers_epochs() -> None:
    """Epochs x items of the training part / items a batch, by data set and preset."""
    items = {"mosi": 1_284, "mosei": 16_265, "iemocap": 2_717}
    epochs = {"mosi": 100, "mosei": 20, "iemocap": 30}
    for name in items:
        for preset in ("paper", "public-code", "parity"):
            (cell,) = make_cells(
                load_grid(f"mult/{name}"), Choice(preset=preset, rows=("unaligned: MulT",))
            )
            config: Any = cell.config
            epoch = -(-items[name] // config.batch_size)
            assert config.check_every == epoch
            assert config.max_steps == epoch * (epochs[name] if preset == "paper" else 40)


def test_parity_is_the_public_code_with_all_of_its_quirks() -> None:
    presets = shared_presets("sentiment", "here")
    quirks = {
        "padding": "file",
        "padding_masks": False,
        "positions": "first-channel",
        "read": "last",
        "future_mask": "reference",
        "skip_projection_when_equal": True,
    }
    assert presets["parity"] == presets["public-code"] | quirks
    for preset in ("paper", "public-code", "small", "smoke"):
        assert not quirks.items() & resolve(SentimentConfig, presets[preset]).model_dump().items()


def test_every_variant_stands_at_the_crossmodal_site_or_says_why() -> None:
    cells = make_cells(load_grid("mult/attention"), Choice())
    names = {cell.row.partition("(")[0] for cell in cells}
    assert names == {variant.name for variant in list_variants()}
    assert {
        cell.row for cell in cells if cell.row.startswith("terms(") and len(cell.row) == 11
    } == {f"terms({number:04b})" for number in range(1, 16)}
    for cell in cells:
        config: Any = cell.config
        assert config.crossmodal == cell.row and config.memory_self == "dot"
