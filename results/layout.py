"""A table as text cells, before any markup: what md, LaTeX and HTML have in common."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from .aggregate import MetricCell, TableRow
from .published import MARK_MEANINGS, MARKS
from .spec import MetricSpec
from .table import ResultTable

DASH = "–"

_WITHOUT_VALUE = {"failed": "failed", "diverged": "diverged", "refused": "n/a"}
_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Text:
    """One cell: plain text, and whether it is the best measured value of its column."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Layout:
    """Headings and cells (all rows as long as `headings`), and the lines under the table.

    `name` is for labels and files, `notes` has the note of each row, which the last column shows.
    `aligned` has one letter a column: l for text, r for numbers.
    """

    title: str
    headings: tuple[str, ...]
    aligned: str
    rows: tuple[tuple[Text, ...], ...]
    footnotes: tuple[str, ...]
    how: tuple[tuple[str, str], ...]
    name: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    heading: str
    align: str
    cells: tuple[Text, ...]
    needed: bool = False

    @property
    def empty(self) -> bool:
        """Whether it says nothing in any row."""
        return all(cell.text in ("", DASH) for cell in self.cells)


def lay_out(table: ResultTable) -> Layout:
    """The cells of `table`; columns that would be empty throughout are left out."""
    rows = table.rows
    columns = [_column("row", "l", [row.label for row in rows])]
    for metric in table.spec.metrics:
        columns += _metric_columns(metric, rows)
    shown = {metric.name for metric in table.spec.metrics}
    columns.append(_column("n", "r", [_n(row) for row in rows]))
    if "parameters" not in shown:
        columns.append(_column("parameters", "r", [count(row.parameters) for row in rows]))
    if "macs" not in shown:
        columns.append(_column("MACs", "r", [count(row.macs) for row in rows]))
    columns.append(_column("time", "r", [duration(row.seconds) for row in rows]))
    columns.append(_column("note", "l", [row.note for row in rows]))
    kept = [c for c in columns if c.needed or not c.empty] or columns
    return Layout(
        title=table.spec.title or table.spec.grid,
        headings=tuple(c.heading for c in kept),
        aligned="".join(c.align for c in kept),
        rows=tuple(tuple(c.cells[i] for c in kept) for i in range(len(rows))),
        footnotes=(*_mark_footnotes(table), *table.notes),
        how=tuple(how_lines(table, {c.heading for c in kept} | {"±"})),
        name=table.name,
        notes=tuple(row.note for row in rows),
    )


def how_lines(table: ResultTable, explained: Set[str]) -> list[tuple[str, str]]:
    """The table's `how` as (term, words), without what is empty.

    Of the glossary only the names in `explained`, which are those that the table shows.
    """
    how = table.how
    data = how["data"]
    lines = [
        ("grid", f"{table.spec.grid}, preset {table.spec.preset}"),
        ("published", how["published"]),
        ("data", ", ".join(filter(None, (data["dataset"], data["source"])))),
        ("items evaluated", ", ".join(str(number) for number in data["items"])),
        ("seeds", ", ".join(str(seed) for seed in how["seeds"])),
        ("runs", ", ".join(f"{n} {status}" for status, n in how["runs"].items())),
        ("wall time of all runs", duration(how["wall_time"]) if how["wall_time"] else ""),
        ("device", how["device"]),
        ("versions", _pairs(how["versions"])),
        ("commit", ", ".join(how["git"])),
        ("signatures", _pairs(how["signatures"])),
        ("settings that vary", ", ".join(how["settings_varied"])),
        *(("command", command) for command in how["commands"]),
        *((name, words) for name, words in how["glossary"].items() if name in explained),
    ]
    return [(term, words) for term, words in lines if words]


def count(number: int | None) -> str:
    """`61234567` as `61.2 M`, three digits that count; a dash for None."""
    if number is None:
        return DASH
    for size, unit in _UNITS:
        scaled = number / size
        if scaled >= 0.9995:
            decimals = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{decimals}f} {unit}"
    return str(number)


def duration(seconds: float | None) -> str:
    """`200` as `3 min 20 s`; a dash for None."""
    if seconds is None:
        return DASH
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def signed(number: float, decimals: int) -> str:
    """`number` with its sign; what rounds to nothing has none."""
    text = f"{number:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text


def _metric_columns(metric: MetricSpec, rows: Sequence[TableRow]) -> list[_Column]:
    pairs = [(row, row.metrics[metric.name]) for row in rows]
    values = tuple(Text(_value(row, cell, metric), cell.best) for row, cell in pairs)
    beside = any(cell.published for _, cell in pairs)
    columns = [_Column(metric.title, "r", values, needed=beside)]
    if beside:
        published = [_published(cell, metric.decimals) for _, cell in pairs]
        columns.append(_column("published", "r", published))
        columns.append(_column("diff", "r", [_difference(c, metric.decimals) for _, c in pairs]))
    return columns


def _column(heading: str, align: str, texts: Sequence[str]) -> _Column:
    return _Column(heading, align, tuple(Text(text) for text in texts))


def _value(row: TableRow, cell: MetricCell, metric: MetricSpec) -> str:
    if cell.mean is None:
        return _WITHOUT_VALUE.get(row.status, DASH)
    text = f"{cell.mean:.{metric.decimals}f}"
    if cell.std is not None:
        text += f" ± {cell.std:.{metric.decimals}f}"
    return text if cell.n == row.n else f"{text} (n {cell.n})"


def _published(cell: MetricCell, decimals: int) -> str:
    if cell.published is None:
        return DASH
    return f"{cell.published.value:.{decimals}f}{cell.published.mark}"


def _difference(cell: MetricCell, decimals: int) -> str:
    return DASH if cell.difference is None else signed(cell.difference, decimals)


def _n(row: TableRow) -> str:
    if row.status == "reference":
        return DASH
    return str(row.n) if row.n == row.expected else f"{row.n} of {row.expected}"


def _mark_footnotes(table: ResultTable) -> list[str]:
    used = {
        cell.published.confidence
        for row in table.rows
        for cell in row.metrics.values()
        if cell.published
    }
    return [f"{MARKS[name]} {words}" for name, words in MARK_MEANINGS.items() if name in used]


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
