"""`attnbench draw`: curves of a grid, or what a run makes of one item, and where it looks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..results import Store
from ..results.naming import slug
from ..tasks.module import AttentionMap
from .cell import Choice, make_cells
from .curves import make_curves
from .draw_images import draw_cell_of, draw_picture, is_of_a_cell, refuse_score
from .errors import UsageError
from .finished import RECORD, FinishedRun, load_run
from .grid import choose_rows, load_grid
from .parser import DEFAULT_OUT
from .pictures import SUFFIXES, check_file, draw_curves, draw_maps
from .runlog import away_from_the_terminal
from .settings import parse_settings
from .status import chosen_dataset, seeds_there

METRIC = "val/loss"

_OF_GRIDS = {
    "metric": None, "x": None, "preset": "paper", "data": None, "seeds": [], "rows": [], "set": [],
    "out": DEFAULT_OUT,
}  # fmt: skip
_OF_RUNS = {
    "split": None, "layer": None, "head": None, "cell": None, "pixel": None, "least_score": None,
    "root": None, "phase": None, "threads": None, "settings": [],
}  # fmt: skip


def draw(options: argparse.Namespace) -> tuple[Path, str, list[str]]:
    """Draw what the options of `attnbench draw` mean.

    Returns:
        The picture, what is in it, and a sentence for each thing that isn't.

    Raises:
        UsageError, GridError: names or options that don't fit.
        StoreError: the picture can't be written, or the run not be read.
        ConfigError, DataError: settings or data that don't fit the run, an unknown item.
    """
    if options.item is None:
        if (options.what / RECORD).is_file() or options.what.suffix == ".json":
            raise UsageError(f"{options.what} is a run: name an item to draw with --item ID")
        _refuse(options, _OF_RUNS, "of a run's attention, which needs --item ID")
        return _curves(options)
    _refuse(options, _OF_GRIDS, "of a grid's curves, which have no --item")
    return _item(options)


def _refuse(options: argparse.Namespace, others: Mapping[str, Any], whose: str) -> None:
    for name, default in others.items():
        value = getattr(options, name)
        if value != default:
            word = value[0] if name == "settings" else f"--{name.replace('_', '-')}"
            hint = "; the picture's file is --save FILE" if name == "out" else ""
            hint = "; for a grid write --set" if name == "settings" else hint
            raise UsageError(f"draw: {word} is an option {whose}{hint}")


def _curves(options: argparse.Namespace) -> tuple[Path, str, list[str]]:
    if options.out.suffix in SUFFIXES:
        raise UsageError(
            f"--out {options.out}: that is the folder of the results; name the picture by --save"
        )
    grid, store = load_grid(str(options.what)), Store(options.out)
    dataset = chosen_dataset(grid, options.data, options.preset, store)
    rows = choose_rows(grid, options.rows)
    seeds = options.seeds or seeds_there(grid, dataset, options.preset, store, rows)
    choice = Choice(
        preset=options.preset,
        dataset=dataset,
        seeds=tuple(dict.fromkeys(seeds)),
        rows=[row.row for row in rows],
        settings=parse_settings(options.set),
    )
    cells = make_cells(grid, choice)
    metric, along = options.metric or METRIC, options.x or "updates"
    name = f"curves.{slug(metric.replace('/', '-'))}{f'.{along}' * (along != 'updates')}.png"
    path = options.save or store.path(cells[0]).parents[2] / name
    check_file(path)
    curves, notes = make_curves(cells, store, metric, along)
    title = f"{grid.grid}, {dataset}.{options.preset}"
    draw_curves(path, curves, metric, along, title)
    return path, f"{metric} of {', '.join(curve.row for curve in curves)}", notes


def _item(options: argparse.Namespace) -> tuple[Path, str, list[str]]:
    split, of_a_cell = options.split or "test", is_of_a_cell(options)
    if options.save is not None:
        check_file(options.save)
    run = load_run(
        options.what,
        root=options.root,
        phase=options.phase,
        settings=parse_settings(options.settings)
        | ({} if options.threads is None else {"threads": options.threads}),
    )
    stem = f"{f'.{options.phase}' * run.earlier}.{split}.{slug(options.item)}"
    if of_a_cell:
        return draw_cell_of(run, options, split, stem)
    with away_from_the_terminal(lambda line: None):
        picture = run.module.picture(run.data, split, options.item)
    if picture is not None:
        return draw_picture(run, picture, options, split, stem)
    refuse_score(options)
    return _attention(run, options, split, stem)


def _attention(
    run: FinishedRun, options: argparse.Namespace, split: str, stem: str
) -> tuple[Path, str, list[str]]:
    layer = _number_of(options.layer)
    chosen = "".join(
        f".{word}{value}"
        for word, value in (("layer", layer), ("head", options.head))
        if value is not None
    )
    path = options.save or run.folder / f"attention{stem}{chosen}.png"
    check_file(path)
    with away_from_the_terminal(lambda line: None):
        maps = run.module.attention_maps(run.data, split, options.item)
    lacking = {name: why for name, one in maps.items() if (why := _lacks(one, layer, options.head))}
    if len(lacking) == len(maps):
        reasons = "; ".join(f"{name}: {why}" for name, why in lacking.items())
        raise UsageError(f"{options.what} has no attention weights to draw: {reasons}")
    there = {name: one for name, one in maps.items() if name not in lacking}
    notes = [f"{name} is left out: {why}" for name, why in lacking.items()]
    weights = [_chosen(one, layer, options.head) for one in there.values()]
    record = run.record
    title = f"{record.row}, {record.dataset} {split} {options.item}: {_which(layer, options.head)}"
    draw_maps(path, there, weights, title)
    return path, ", ".join(there), notes


def _number_of(layer: str | None) -> int | None:
    if layer is not None and not layer.isdecimal():
        raise UsageError(f"draw: the layers of this run have numbers from 1 on, not {layer!r}")
    return None if layer is None else int(layer)


def _lacks(one: AttentionMap, layer: int | None, head: str | None) -> str:
    """Why there is nothing to draw of a map, or nothing where there is."""
    if not one.layers:
        return one.missing
    layers, heads = len(one.layers), len(one.layers[0])
    if (layer or 1) > layers:
        return f"it has {layers} layer{'s' * (layers > 1)}, no --layer {layer}"
    if head not in (None, "mean") and int(head) > heads:
        return f"it has {heads} head{'s' * (heads > 1)}, no --head {head}"
    return ""


def _chosen(one: AttentionMap, layer: int | None, head: str | None) -> Any:
    """The (Q, K) weights of a layer (default: the last one) and head (default: their mean)."""
    weights_HQK = one.layers[-1 if layer is None else layer - 1]
    if head in (None, "mean"):
        return weights_HQK.mean(0).numpy()
    return weights_HQK[int(head) - 1].numpy()


def _which(layer: int | None, head: str | None) -> str:
    of_layer = "last layer" if layer is None else f"layer {layer}"
    return f"{of_layer}, {'mean of heads' if head in (None, 'mean') else f'head {head}'}"
