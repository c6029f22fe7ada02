"""`attnbench list`: what there is, for people and as JSON. Settings are in `setting_list`."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from ..models.attention import Site

Rows = list[dict[str, Any]]


def list_attention() -> Rows:
    """Every variant's example specs, and for each task's sites `yes` or the reason against it."""
    from ..models.attention import list_variants, parse_spec
    from ..tasks.registry import TASKS

    on_grids = {variant.name: variant.examples for variant in list_variants(axes=2)}
    return [
        {
            "spec": str(parse_spec(example)),
            "variant": variant.name,
            "summary": variant.summary.replace("``", "`"),
            "sites": {
                f"{task.name}.{name}": _answer(example, site)
                for task in TASKS.values()
                for name, site in task.sites.items()
            },
        }
        for variant in list_variants()
        for example in dict.fromkeys([*variant.examples, *on_grids[variant.name]])
    ]


def _answer(spec: str, site: Site) -> str:
    """`yes`, or why a spec can't stand at a site; options differ between sequences and maps."""
    from ..models.attention import SpecError, refusal

    try:
        return refusal(spec, site) or "yes"
    except SpecError as error:
        return str(error).partition(": ")[2]


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


def as_table(rows: Rows) -> Table:
    """For the terminal; settings, which are many, have a list of their own."""
    rows = [{name: value for name, value in row.items() if name != "settings"} for row in rows]
    table = Table(box=None, pad_edge=False)
    for heading in rows[0] if rows else ():
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = (", ".join(v) if isinstance(v, list) else str(v) for v in row.values())
        table.add_row(*cells)
    return table


def attention_text(rows: Rows, width: int) -> list[str]:
    """The variants as lines of at most `width`: specs with the same answers stand together.

    A reason stands as a number behind its site and in full at the end.
    """
    reasons: dict[str, int] = {}
    lines: list[str] = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == variant]
        lines += _wrapped(f"{variant}: {own[0]['summary']}", width, "", "  ")
        answers: dict[str, list[str]] = {}
        for row in own:
            answers.setdefault(_where(row["sites"], reasons), []).append(row["spec"])
        for answer, specs in answers.items():
            lines += _wrapped(", ".join(specs), width, "  ", "  ")
            lines += _wrapped(answer, width, "    ", "      ")
    lines.append("")
    for reason, number in reasons.items():
        lines += _wrapped(f"({number}) {reason}", width, "", "    ")
    return lines


def settings_text(rows: Rows, width: int) -> list[str]:
    """Settings as lines of at most `width`: `name=default  type`, the meaning below."""
    lines: list[str] = []
    for row in rows:
        default = "null" if row["default"] is None else row["default"]
        if isinstance(default, bool | list):
            default = json.dumps(default, separators=(",", ":"))
        lines += _wrapped(f"{row['setting']}={default}  {row['type']}", width, "", "    ")
        lines += _wrapped(row["meaning"], width, "    ", "    ")
    return lines


def _where(sites: dict[str, str], reasons: dict[str, int]) -> str:
    """`stands at a, b; not at c (1)`."""
    good = [site for site, answer in sites.items() if answer == "yes"]
    bad = [
        f"{site} ({reasons.setdefault(answer, len(reasons) + 1)})"
        for site, answer in sites.items()
        if answer != "yes"
    ]
    if not bad:
        return "stands everywhere"
    return "; ".join([f"stands at {', '.join(good) or 'no site'}", f"not at {', '.join(bad)}"])


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
