"""Costs of detection and segmentation beside Tables 2 and 3 of "An Empirical Study of Spatial
Attention Mechanisms in Deep Networks", counted over the real modules of the shipped grids."""

from functools import cache
from typing import Any

import pytest

from attnbench.benchmarks.cell import Choice, make_cells
from attnbench.benchmarks.cost import GFLOPS, RowCost, grid_costs
from attnbench.benchmarks.grid import load_grid
from attnbench.tasks.cost import CostReport
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve

BASE = "spatial-attention/{task}-deformable"
GRIDS = [
    f"spatial-attention/{task}-{table}"
    for task in ("detection", "segmentation")
    for table in ("deformable", "dynamic")
]
WHOLE, ADDED = 0.025, 0.015
"""How far a baseline, and what attention adds to it, may be from the printed number."""

QUICK = {
    ("spatial-attention/detection-deformable", "1111"),
    ("spatial-attention/detection-deformable", "0010+deformable"),
    ("spatial-attention/detection-dynamic", "dynamic nk=13"),
    ("spatial-attention/segmentation-dynamic", "0100 nk=13"),
}


@cache
def cost(grid: str, row: str) -> RowCost:
    return grid_costs(load_grid(grid), Choice(rows=(row,)))[0]


def cases() -> list[Any]:
    """Every row with attention; only a few of them are quick enough for each run."""
    return [
        pytest.param(grid, row.row, marks=[] if (grid, row.row) in QUICK else [pytest.mark.slow])
        for grid in GRIDS
        for row in load_grid(grid).rows
        if row.published is not None and not row.row.startswith("w/o")
    ]


@pytest.mark.parametrize("task", ["detection", "segmentation"])
def test_a_baseline_costs_what_the_paper_prints(task: str) -> None:
    for row in ("w/o", "w/o+deformable"):
        counted = cost(BASE.format(task=task), row)
        assert counted.macs is not None and counted.macs_executed == counted.macs
        assert counted.macs / 1e9 == pytest.approx(counted.published[GFLOPS], rel=WHOLE)


@pytest.mark.parametrize(("grid", "row"), cases())
def test_attention_adds_what_the_paper_prints(grid: str, row: str) -> None:
    task = load_grid(grid).task
    plain = cost(BASE.format(task=task), "w/o" + "+deformable" * row.endswith("+deformable"))
    counted = cost(grid, row)
    assert counted.macs is not None and plain.macs is not None, counted.reason
    added = (counted.macs - plain.macs) / 1e9
    printed = counted.published[GFLOPS] - plain.published[GFLOPS]
    # The table prints one decimal of each of the two.
    assert added == pytest.approx(printed, rel=ADDED, abs=0.1), f"{added:.2f} {printed:.2f}"
    assert counted.macs / 1e9 == pytest.approx(counted.published[GFLOPS], rel=WHOLE)


def measured(task: str, **settings: Any) -> CostReport:
    entry = TASKS[task]
    return entry.measure(resolve(entry.config, settings))


def test_a_small_detector_is_counted_at_its_own_size() -> None:
    small = {"resnet": "resnet18", "min_size": 240, "max_size": 320, "rpn_test_proposals": 100}
    plain = measured("detection", **small, batch_norm="batch")
    assert plain.note == "one image of 240x320 padded to 256x320, 100 proposals"
    fewer = measured("detection", **small | {"rpn_test_proposals": 50}, batch_norm="batch")
    demo_outputs = 5 * 81  # a class and four sides, for as many classes as COCO has
    assert plain.macs - fewer.macs == 50 * 1024 * (256 * 49 + 1024 + demo_outputs)


def test_a_crop_of_whole_cells_and_one_pixel_counts_as_whole_cells() -> None:
    small = {"resnet": "resnet18", "decoder_channels": 16}
    crops = [
        measured("segmentation", **small, crop_height=size, crop_width=96) for size in (65, 64, 66)
    ]
    whole = "one crop of 64x96"
    assert [crop.note for crop in crops] == [f"{whole}, for 65x96", whole, "one crop of 66x96"]
    assert crops[0].macs == crops[1].macs < crops[2].macs


def test_the_auxiliary_classifier_has_parameters_but_no_cost() -> None:
    small = {"resnet": "resnet18", "decoder_channels": 16, "crop_height": 64, "crop_width": 64}
    both = [measured("segmentation", **small, auxiliary=there) for there in (True, False)]
    assert both[0].macs == both[1].macs
    assert both[0].parameters > both[1].parameters


def test_deformable_taps_count_as_ordinary_ones() -> None:
    small = {"resnet": "resnet18", "min_size": 64, "max_size": 64, "batch_norm": "batch"}
    plain, moved = (measured("detection", **small, backbone=b) for b in ("none", "deformable"))
    # Only the convolutions that predict 18 offsets come on top: conv4 at 4 x 4, conv5 at 2 x 2.
    offsets = 9 * 18 * (16 * (128 + 256) + 4 * (256 + 512))
    assert moved.macs - plain.macs == offsets


def test_no_file_of_weights_is_read_but_frozen_stages_are_not_counted() -> None:
    small = {"resnet": "resnet18", "min_size": 64, "max_size": 64}
    fine, scratch = (measured("detection", **small, weights=path) for path in ("nowhere.pth", None))
    stem_and_conv2 = 3 * 64 * 49 + 4 * 64 * 64 * 9
    assert scratch.parameters - fine.parameters == stem_and_conv2


@pytest.mark.parametrize("task", ["detection", "segmentation"])
def test_every_cell_of_the_figures_can_be_counted(task: str) -> None:
    cells = make_cells(load_grid(f"spatial-attention/{task}"), Choice())
    assert [cell.row for cell in cells] == ["w/o", *(f"{n:04b}" for n in range(15, 0, -1))]
    assert all(cell.refusal is None for cell in cells)
