"""Pictures by matplotlib: no window, no date in the file, whole files only."""

from __future__ import annotations

import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..results import write_atomically
from ..tasks.module import AttentionMap
from .curves import Curve
from .errors import UsageError

SUFFIXES = (".png", ".svg", ".pdf")

_MOST_LABELS = 40
_LINES = ("-", "--", ":", "-.")
_COLOURS = 10
_DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_file(path: Path) -> None:
    """Raise UsageError where a picture can't have this name, or matplotlib is missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: a picture's name ends in {', '.join(SUFFIXES)}")
    try:
        import matplotlib  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        raise UsageError(
            "drawing needs matplotlib, which isn't installed; install attnbench[draw]"
        ) from None


def draw_curves(path: Path, curves: Sequence[Curve], metric: str, along: str, title: str) -> None:
    """One line a row, with a band from the least to the most of its seeds. Raises StoreError."""
    with figure_file(path, 7.5, 4.5) as figure:
        axes = figure.add_subplot()
        handles = [_draw_curve(axes, curve, number) for number, curve in enumerate(curves)]
        names = [curve.row + f" ({curve.seeds} seeds)" * (curve.seeds > 1) for curve in curves]
        for handle, name in zip(handles, names, strict=True):
            handle.set_label(f"\u200a{name}" if name.startswith("_") else name)  # "_" hides it
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel({"seconds": "seconds of training"}.get(along, along))
        axes.set_ylabel(metric)
        axes.grid(alpha=0.3)
        _draw_phases(axes, curves)
        if len(curves) > 8:
            figure.legend(handles=handles, loc="outside right upper", fontsize="small")
        else:
            axes.legend(handles=handles, fontsize="small")


def _draw_curve(axes: Any, curve: Curve, number: int) -> Any:
    style = {"color": f"C{number % _COLOURS}", "linestyle": _LINES[number // _COLOURS % 4]}
    line = None
    for segment in curve.segments:
        marker = "o" if len(segment.along) == 1 else None
        (line,) = axes.plot(segment.along, segment.mean, marker=marker, linewidth=1.5, **style)
        if curve.seeds > 1:
            band = (segment.along, segment.low, segment.high)
            axes.fill_between(*band, color=style["color"], alpha=0.2, linewidth=0)
    return line


def _draw_phases(axes: Any, curves: Sequence[Curve]) -> None:
    """A thin line where a phase begins: one for all rows, or each its own where they differ."""
    common = {tuple(curve.begins) for curve in curves}
    if len(common) == 1:
        for place in common.pop():
            axes.axvline(place, color="0.4", linewidth=0.8)
        return
    for number, curve in enumerate(curves):
        for place in curve.begins:
            axes.axvline(place, color=f"C{number % _COLOURS}", linewidth=0.8, alpha=0.6)


def draw_maps(
    path: Path, maps: Mapping[str, AttentionMap], weights: Sequence[Any], title: str
) -> None:
    """One panel a map: queries downwards, keys to the right, a colour bar.

    Args:
        path: the file.
        maps: the names and labels.
        weights: (Q, K) of each map.
        title: over all panels.

    Raises StoreError.
    """
    columns = min(len(maps), 3)
    rows = math.ceil(len(maps) / columns)
    with figure_file(path, 5.2 * columns, 4.6 * rows + 0.4) as figure:
        figure.suptitle(title, fontsize="medium")
        for number, ((name, one), weights_QK) in enumerate(zip(maps.items(), weights, strict=True)):
            axes = figure.add_subplot(rows, columns, number + 1)
            image = axes.imshow(
                weights_QK, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest"
            )
            figure.colorbar(image, ax=axes, fraction=0.05)
            queries, _, keys = name.partition(" from ")
            axes.set_title(name, fontsize="small")
            axes.set_ylabel(queries or "queries")
            axes.set_xlabel(keys or "keys")
            _label(axes.set_yticks, one.queries, 0)
            _label(axes.set_xticks, one.keys, 90 if _are_words(one.keys) else 0)


def _label(set_ticks: Any, labels: Sequence[str], rotation: int) -> None:
    """All labels where there is room, else every second, fifth, tenth, …"""
    needed = len(labels) / (_MOST_LABELS if _are_words(labels) else _MOST_LABELS / 4)
    powers = [step * 10**power for power in range(6) for step in (1, 2, 5)]
    step = next(step for step in powers if step >= needed)
    places = range(0, len(labels), step)
    texts = [labels[place] for place in places]
    set_ticks(list(places), texts, fontsize="x-small", rotation=rotation)


def _are_words(labels: Sequence[str]) -> bool:
    return not all(label.isdecimal() for label in labels)


@contextmanager
def figure_file(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure that is written to `path` when the block ends well."""
    import matplotlib  # type: ignore[import-not-found]
    from matplotlib.backends.backend_agg import (  # type: ignore[import-not-found]
        FigureCanvasAgg,
    )
    from matplotlib.figure import Figure  # type: ignore[import-not-found]

    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # it tells of font caches and the like
    try:
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that its font lacks
            matplotlib.rcdefaults()
            matplotlib.rcParams.update({"svg.hashsalt": "attnbench", "text.parse_math": False})
            figure = Figure(figsize=(width, height), layout="constrained")
            FigureCanvasAgg(figure)
            yield figure
            content = io.BytesIO()
            suffix = path.suffix.lower()
            figure.savefig(content, format=suffix[1:], dpi=150, metadata=_DATES.get(suffix, {}))
    finally:
        log.setLevel(level)
    write_atomically(path, content.getvalue())
