"""The table that every speed benchmark prints, and the same as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ...results import environment, write_atomically
from ..errors import UsageError
from .measure import UNITS, Comparison


def parser(
    name: str, text: str | None, *, threads: int = 2, rounds: int
) -> argparse.ArgumentParser:
    """A parser with what all benchmarks take: ``--json``, ``--threads`` and ``--rounds``."""
    made = argparse.ArgumentParser(
        prog=f"python -m attnbench.benchmarks.speed.{name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    made.add_argument("--threads", type=int, default=threads, help=f"CPU threads ({threads})")
    made.add_argument("--rounds", type=int, default=rounds, help=f"turns a side ({rounds})")
    return made


def run_benchmark(main: Callable[[Sequence[str] | None], None], arguments: Any = None) -> int:
    """Call ``main``; a user's mistake becomes one sentence on stderr and exit code 2."""
    try:
        main(arguments)
    except (UsageError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def show(rows: Sequence[Comparison], ours: str, theirs: str) -> str:
    """A table with the medians of both sides, their ratio, its spread and the target."""
    head = ["", ours, theirs, "ratio", "min..max", "target", ""]
    lines = [head]
    for row in rows:
        low, high = row.spread
        target = "" if row.target is None else f"{row.target:g}x {'met' if row.met else 'MISSED'}"
        values = [_value(median(side), row.unit) for side in (row.ours, row.theirs)]
        ratio = [f"{row.ratio:.2f}x", f"{low:.2f}..{high:.2f}", target]
        lines.append([row.what, *values, *ratio, row.note])
    return align(lines)


def align(lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first and the last to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    rows = [
        "  ".join(
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([rows[0], "-" * max(map(len, rows)), *rows[1:]])


def _value(value: float, unit: str) -> str:
    factor, name = UNITS.get(unit, (1.0, unit))
    return f"{value * factor:,.1f} {name}"


def machine() -> dict[str, Any]:
    """Device, versions, and how busy the machine is: processes that want a core now, on average."""
    return {**environment(), "load": [round(load, 2) for load in os.getloadavg()]}


def as_json(name: str, settings: dict[str, Any], rows: Sequence[Comparison], **more: Any) -> str:
    """Everything measured, as JSON text; seconds and bytes where the table shows ms and MiB."""
    content = {
        "benchmark": name,
        "settings": {key: value for key, value in settings.items() if key != "json"},
        "machine": machine(),
        "rows": [
            {
                "what": row.what,
                "unit": row.unit,
                "ours": row.ours,
                "theirs": row.theirs,
                "ratio": row.ratio,
                "spread": list(row.spread),
                "target": row.target,
                "met": row.met,
                "note": row.note,
            }
            for row in rows
        ],
        **more,
    }
    return json.dumps(content, indent=2, default=str) + "\n"


def save(path: Path | None, text: str) -> None:
    """Write the JSON text whole, if a path was given."""
    if path is not None:
        write_atomically(path, text.encode())
