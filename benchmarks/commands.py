"""What each command does: from its options to output and exit code."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType

from .errors import UsageError

Options = argparse.Namespace


def list_(options: Options, words: list[str]) -> int:
    """`attnbench list`."""
    from .listing import LISTS, as_table, attention_text, settings_text

    if options.what == "settings":
        if options.task is None:
            raise UsageError("list settings: name a task that `attnbench list tasks` shows")
        from .setting_list import list_settings

        rows = list_settings(options.task)
    elif options.task is not None:
        raise UsageError(f"list {options.what} takes no further word, found {options.task!r}")
    else:
        rows = LISTS[options.what]()
    if options.json:
        return _print_json(rows)
    texts = {"attention": attention_text, "settings": settings_text}
    if options.what in texts:
        return _show(*texts[options.what](rows, _text_width()))
    return _show(as_table(rows))


def data(options: Options, words: list[str]) -> int:
    """`attnbench data demo|check|pack`."""
    from .data import check_data, pack_data, write_demo

    if options.what == "demo":
        if options.settings:
            raise UsageError(f"data demo takes no settings, found {options.settings[0]!r}")
        return _show(f"wrote {write_demo(options.name, options.root)}")
    if options.what == "pack":
        return _show(*pack_data(options.name, options))
    if options.out is not None or options.extract is not None:
        raise UsageError("data check takes no --out or --extract; those are for data pack")
    card = check_data(options.name, options.root, options.settings)
    return _print_json(card.model_dump(mode="json")) if options.json else _show(card)


def train(options: Options, words: list[str]) -> int:
    """`attnbench train`."""
    from .running import train_one

    return train_one(options, words)


def run(options: Options, words: list[str]) -> int:
    """`attnbench run`."""
    from .running import run_grid

    return run_grid(options, words)


def plan(options: Options, words: list[str]) -> int:
    """`attnbench plan`."""
    from ..results import Store
    from .grid import load_grid
    from .plan import make_plan, plan_table, summary
    from .running import chosen_cells

    cells = chosen_cells(load_grid(options.grid), options)
    planned = make_plan(cells, Store(options.out), gmacs=options.gmacs)
    if options.json:
        return _print_json(planned.as_json())
    return _show(plan_table(planned), *summary(planned, options.jobs))


def status(options: Options, words: list[str]) -> int:
    """`attnbench status`."""
    from ..results import Store
    from .grid import choose_rows, load_grid
    from .present import present_settings
    from .settings import parse_settings
    from .status import (
        chosen_dataset,
        explanations,
        grid_status,
        nothing_there,
        status_table,
        summary,
    )

    grid, store = load_grid(options.grid), Store(options.out)
    dataset = chosen_dataset(grid, options.data, options.preset, store)
    rows = choose_rows(grid, options.rows)
    records = store.records(grid.grid, dataset, options.preset)
    known = len(records.warnings)  # what these say stands in the lines of the cells
    settings = parse_settings(options.set)
    present = present_settings(grid, dataset, options.preset, rows, settings, records)
    for warning in records.warnings[known:]:
        print(f"attnbench: {warning}", file=sys.stderr)
    cells = grid_status(grid, dataset, options.preset, store, options.seeds, rows, present)
    if all(cell.status == "missing" and not cell.line for cell in cells):
        print(f"attnbench: {nothing_there(grid, dataset, options.preset, store)}", file=sys.stderr)
    if options.json:
        return _print_json([cell.as_json() for cell in cells])
    title = f"{grid.grid}, {dataset}.{options.preset}: {summary(cells)}"
    return _show(status_table(cells), title, *explanations(cells))


def table(options: Options, words: list[str]) -> int:
    """`attnbench table`."""
    from ..results import ResultTable, Store
    from .grid import choose_rows, load_grid
    from .present import present_settings
    from .settings import parse_settings
    from .status import chosen_dataset, nothing_there
    from .table import table_command, table_spec

    grid, store = load_grid(options.grid), Store(options.out)
    dataset = chosen_dataset(grid, options.data, options.preset, store)
    rows = choose_rows(grid, options.rows) if options.rows else grid.rows
    records = store.records(grid.grid, dataset, options.preset)
    settings = parse_settings(options.set)
    present = present_settings(grid, dataset, options.preset, rows, settings, records)
    command = table_command(
        options.grid, dataset, options.preset,
        rows=options.rows, seeds=options.seeds, settings=options.set,
    )  # fmt: skip
    spec = table_spec(
        grid, dataset, options.preset, options.seeds, rows, present, command, options.set
    )
    if not records:
        records.warnings.append(nothing_there(grid, dataset, options.preset, store))
    for warning in records.warnings:
        print(f"attnbench: {warning}", file=sys.stderr)
    shown, seeds = {row.row for row in rows}, options.seeds
    chosen = [r for r in records if r.row in shown and (not seeds or r.seed in seeds)]
    result = ResultTable.build(spec, chosen)
    if options.save is None:
        sys.stdout.write(result.render(options.format))
        return 0
    return _show(*(f"wrote {path}" for path in result.save(options.save, options.format)))


def cost(options: Options, words: list[str]) -> int:
    """`attnbench cost`."""
    from ..results import write_atomically
    from .cell import Choice
    from .cost import EXPLAINED, cost_table, grid_costs
    from .cost_report import Counted, cost_report
    from .grid import load_grid
    from .settings import parse_settings

    choice = Choice(preset=options.preset, rows=options.rows, settings=parse_settings(options.set))
    grids = {name: load_grid(name) for name in options.grids}
    costs = {name: grid_costs(grid, choice) for name, grid in grids.items()}
    if options.save is not None:
        counted = [
            Counted(f"{grid.grid}, preset {options.preset}", grid.task, costs[name])
            for name, grid in grids.items()
        ]
        command = shlex.join(["attnbench", *words])
        write_atomically(options.save, cost_report(counted, command).encode())
        return _show(f"wrote {options.save}")
    if options.json:
        return _print_json([cost.as_json() for rows in costs.values() for cost in rows])
    for rows in costs.values():
        notes = dict.fromkeys(cost.note for cost in rows if cost.note)
        _show(f"{rows[0].grid}, preset {options.preset}", cost_table(rows), *notes, EXPLAINED, "")
    return 0


def predict(options: Options, words: list[str]) -> int:
    """`attnbench predict`."""
    from .predict import write_predictions
    from .settings import parse_settings

    path, items = write_predictions(
        options.run,
        split=options.split,
        root=options.root,
        phase=options.phase,
        out=options.out,
        settings=parse_settings(options.settings)
        | ({} if options.threads is None else {"threads": options.threads}),
    )
    return _show(f"wrote {path}: {items:,} items")


def draw(options: Options, words: list[str]) -> int:
    """`attnbench draw`."""
    from .draw import draw as draw_

    path, shown, notes = draw_(options)
    for note in notes:
        print(f"attnbench: {note}", file=sys.stderr)
    return _show(f"wrote {path}: {shown}")


def doctor(options: Options, words: list[str]) -> int:
    """`attnbench doctor`."""
    from .doctor import examine

    findings = examine(options.out)
    if options.json:
        _print_json([vars(finding) for finding in findings])
    else:
        _show(*(f"{f.level:5} {f.subject}: {f.text}" for f in findings))
    return 1 if any(finding.level == "bad" for finding in findings) else 0


COMMANDS: dict[str, Callable[[Options, list[str]], int]] = {
    "list": list_,
    "data": data,
    "train": train,
    "run": run,
    "plan": plan,
    "status": status,
    "table": table,
    "cost": cost,
    "predict": predict,
    "draw": draw,
    "doctor": doctor,
}


def _text_width() -> int:
    """Of running text: the terminal's width, but no lines that are hard to read."""
    return max(40, min(100, shutil.get_terminal_size((80, 24)).columns))


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `main`; rich would end the process with code 1."""
        raise BrokenPipeError


def _show(*things: RenderableType) -> int:
    """Print tables and lines; into a file or pipe they are as wide as they need."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 240
    console = _Output(width=width, highlight=False, markup=False, emoji=False)
    for thing in things:
        console.print(thing, soft_wrap=isinstance(thing, str))
    return 0


def _print_json(value: Any) -> int:
    print(json.dumps(value, indent=2, ensure_ascii=False))
    return 0
