"""`attnbench list`: what there is, for people and as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table

Rows = list[dict[str, Any]]


def list_attention() -> Rows:
    """Every variant's example specs, and for each task's sites `yes` or the reason against it."""
    from ..models.attention import list_variants, parse_spec, refusal
    from ..tasks.registry import TASKS

    return [
        {
            "spec": str(parse_spec(example)),
            "variant": variant.name,
            "summary": variant.summary,
            "sites": {
                f"{task.name}.{name}": refusal(example, site) or "yes"
                for task in TASKS.values()
                for name, site in task.sites.items()
            },
        }
        for variant in list_variants()
        for example in variant.examples
    ]


def list_tasks() -> Rows:
    """Every task with its sites, data sets, headline metric and settings."""
    from ..datamodules.registry import DATASETS
    from ..tasks.registry import TASKS

    return [
        {
            "task": task.name,
            "title": task.title,
            "sites": list(task.sites),
            "datasets": [d.name for d in DATASETS.values() if task.name in d.tasks],
            "metric": task.metric,
            "settings": {
                name: {"default": str(field.default), "meaning": field.description or ""}
                for name, field in task.config.model_fields.items()
            },
        }
        for task in TASKS.values()
    ]


def list_grids() -> Rows:
    """Every shipped grid."""
    from .grid import load_grid, shipped_grids

    grids = [load_grid(name) for name in shipped_grids()]
    return [
        {
            "grid": grid.grid,
            "title": grid.title,
            "task": grid.task,
            "rows": len(grid.runnable),
            "presets": grid.preset_names,
            "dataset": grid.default_dataset,
        }
        for grid in grids
    ]


def list_datasets() -> Rows:
    """Every data set: what it is, where it comes from, on which terms."""
    from ..datamodules.registry import DATASETS

    return [
        {
            "dataset": entry.name,
            "title": entry.title,
            "tasks": list(entry.tasks),
            "source": entry.source,
            "licence": entry.licence,
        }
        for entry in DATASETS.values()
    ]


def list_metrics() -> Rows:
    """Every metric column that a grid may show, and what it counts."""
    from ..results.glossary import METRICS
    from .columns import COLUMNS

    return [
        {
            "metric": spec.name,
            "heading": spec.title,
            "meaning": spec.meaning or METRICS.get(spec.name, ""),
        }
        for spec in COLUMNS.values()
    ]


LISTS = {
    "attention": list_attention,
    "tasks": list_tasks,
    "grids": list_grids,
    "datasets": list_datasets,
    "metrics": list_metrics,
}


def as_table(rows: Rows) -> tuple[Table, list[str]]:
    """For the terminal; a reason stands as a number in its cell and in words below.

    Settings, which are many, are left to JSON.
    """
    rows = [{name: value for name, value in row.items() if name != "settings"} for row in rows]
    reasons: dict[str, int] = {}
    flat = [_flat(row, reasons) for row in rows]
    table = Table(box=None, pad_edge=False)
    for heading in flat[0] if flat else ():
        table.add_column(heading, overflow="fold")
    for row in flat:
        table.add_row(*row.values())
    return table, [f"{number}: {reason}" for reason, number in reasons.items()]


def _flat(row: dict[str, Any], reasons: dict[str, int]) -> dict[str, str]:
    cells: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            for site, answer in value.items():
                yes = answer == "yes"
                mark = "yes" if yes else f"no ({reasons.setdefault(answer, len(reasons) + 1)})"
                cells[site] = mark
        else:
            cells[name] = ", ".join(value) if isinstance(value, list) else str(value)
    return cells
