"""A result table as text, by the name of the format."""

from collections.abc import Callable
from typing import get_args

from .html import html
from .latex import latex
from .layout import lay_out
from .machine import as_csv, as_json
from .markdown import markdown
from .table import Format, ResultTable

FORMATS: tuple[str, ...] = get_args(Format)

_WRITERS: dict[str, Callable[[ResultTable], str]] = {
    "md": lambda table: markdown(lay_out(table)),
    "csv": as_csv,
    "latex": lambda table: latex(lay_out(table)),
    "html": lambda table: html(lay_out(table)),
    "json": as_json,
}


def render(table: ResultTable, format: str) -> str:
    """`table` in one of `FORMATS`. Raises ValueError for another format."""
    if format not in _WRITERS:
        raise ValueError(f"unknown table format {format!r}, known are {', '.join(FORMATS)}")
    return _WRITERS[format](table)
