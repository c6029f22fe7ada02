"""Tables for programs: JSON and CSV, unrounded."""

import csv
import io
import json
from typing import Any

from .aggregate import MetricCell, TableRow
from .spec import TableSpec
from .table import ResultTable


def as_dict(table: ResultTable) -> dict[str, Any]:
    """The table as plain JSON values.

    `status` is done, partial, failed, diverged, refused, missing or reference (published only);
    a number that doesn't exist is null. `how.wall_time` and `seconds` are in seconds.
    """
    return {
        "grid": table.spec.grid,
        "title": table.spec.title,
        "dataset": table.spec.dataset,
        "preset": table.spec.preset,
        "rows": [_row(row) for row in table.rows],
        "notes": list(table.notes),
        "how": table.how,
    }


def as_json(table: ResultTable) -> str:
    """`as_dict` as JSON text."""
    return json.dumps(as_dict(table), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(table: ResultTable) -> str:
    """One line a row, one value a column; a number that doesn't exist is empty.

    `published_comparable` is `no` where the published numbers of the row are of another data set,
    preset or setting than its runs, and `published_source` says of which.
    """
    names = [metric.name for metric in table.spec.metrics]
    lines = [_flat(table, row, names) for row in table.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _row(row: TableRow) -> dict[str, Any]:
    return {
        "row": row.row,
        "settings": row.settings or None,
        "status": row.status,
        "reason": row.reason,
        "n": row.n,
        "expected": row.expected,
        "seeds": list(row.seeds),
        "metrics": {name: _metric(cell) for name, cell in row.metrics.items()},
        "parameters": row.parameters,
        "macs": row.macs,
        "macs_executed": row.macs_executed,
        "seconds": row.seconds,
        "peak_memory_bytes": row.peak_memory_bytes,
    }


def _metric(cell: MetricCell) -> dict[str, Any]:
    return {
        "mean": cell.mean,
        "std": cell.std,
        "n": cell.n,
        "published": cell.published.value if cell.published else None,
        "confidence": cell.published.confidence if cell.published else None,
        "difference": cell.difference,
        "reason": cell.reason,
        "best": cell.best,
    }


_METRIC_PARTS = ("mean", "std", "n", "published", "confidence", "difference")
_BEFORE = ("grid", "dataset", "preset", "row", "settings", "status", "reason", "n", "expected")
_PUBLISHED = ("published_source", "published_comparable")
_AFTER = ("parameters", "macs", "macs_executed", "seconds", "peak_memory_bytes")


def _columns(names: list[str]) -> list[str]:
    metrics = [f"{name}_{part}" for name in names for part in _METRIC_PARTS]
    return [*_BEFORE, "seeds", *metrics, *_PUBLISHED, *_AFTER]


def _flat(table: ResultTable, row: TableRow, names: list[str]) -> dict[str, Any]:
    values = _row(row)
    flat = {name: values.get(name) for name in (*_BEFORE, *_AFTER)}
    flat |= {"grid": table.spec.grid, "dataset": table.spec.dataset, "preset": table.spec.preset}
    flat["seeds"] = " ".join(str(seed) for seed in row.seeds)
    flat |= _origin(table.spec, row)
    for name in names:
        flat |= {f"{name}_{part}": values["metrics"][name][part] for part in _METRIC_PARTS}
    return flat


def _origin(spec: TableSpec, row: TableRow) -> dict[str, str]:
    """Where the published numbers of a row are from; empty where it has none."""
    source = spec.published
    if source is None or not any(cell.published for cell in row.metrics.values()):
        return dict.fromkeys(_PUBLISHED, "")
    words = f"{source.paper} {source.table} {source.dataset_split}, preset {source.preset}"
    return dict(zip(_PUBLISHED, (words, "yes" if spec.comparable else "no"), strict=True))
