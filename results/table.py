"""ResultTable: the runs of one grid on one data set, beside the published numbers."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from .aggregate import NOT_MEASURED, TableRow, differing, make_row, reference_row, same_settings
from .atomic import write_atomically
from .how import describe
from .published import Published, PublishedValue
from .record import RunRecord
from .spec import MetricSpec, RowSpec, TableSpec

Format = Literal["md", "csv", "latex", "html", "json"]

SUFFIXES = {"latex": "tex"}
"""Endings of file names where they aren't the format's name."""


@dataclass(frozen=True)
class ResultTable:
    """A finished table: rows in the grid's order, how it was made, and what was left out."""

    spec: TableSpec
    rows: tuple[TableRow, ...]
    how: dict[str, Any]
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def build(
        cls,
        spec: TableSpec,
        records: Iterable[RunRecord],
        published: Published | None = None,
    ) -> Self:
        """Average the runs of each row over its seeds.

        Runs of other configurations, data or numbers of items are never averaged: they get rows
        of their own; where a row knows its present settings, runs of others count as not done,
        which its note says. Warnings of a store's list of records become notes of the table.
        Without `published`, the numbers that ship with the package stand in the published column.
        """
        notes: list[str] = list(getattr(records, "warnings", ()))
        own = _own_records(spec, records, notes)
        if published is None:
            published = Published.load()
        seeds = spec.seeds or tuple(sorted({r.seed for r in own}))
        rows: list[TableRow] = []
        for row in spec.rows or tuple(RowSpec(name) for name in dict.fromkeys(r.row for r in own)):
            values = _published_values(spec, row, published)
            if row.reference:
                rows.append(reference_row(row.row, spec.metrics, values))
                continue
            runs = [r for r in own if r.row == row.row]
            rows += _rows(spec, row, runs, values, seeds, notes)
        rows = _with_reasons(rows, spec.metrics, notes)
        how = describe(spec, [r for r in own if not _outdated(spec, r)])
        return cls(spec, tuple(_mark_best(rows, spec.metrics)), how, tuple(notes))

    def render(self, format: Format) -> str:
        """The table as text in `format`, with a final newline."""
        from .render import render

        return render(self, format)

    @property
    def name(self) -> str:
        """`<grid with / as ->.<dataset>`, for file names and labels."""
        return f"{self.spec.grid.replace('/', '-')}.{self.spec.dataset}"

    def save(self, folder: Path, format: Format = "md") -> list[Path]:
        """Write `NAME.json` and `NAME.md`, and a file in `format` too, into `folder`.

        Returns the paths. Raises StoreError where that fails; never leaves a half-written file.
        """
        texts = {form: self.render(form) for form in dict.fromkeys(("json", "md", format))}
        paths: list[Path] = []
        for form, text in texts.items():
            paths.append(folder / f"{self.name}.{SUFFIXES.get(form, form)}")
            write_atomically(paths[-1], text.encode("utf-8"))
        return paths


def _own_records(
    spec: TableSpec, records: Iterable[RunRecord], notes: list[str]
) -> list[RunRecord]:
    """The records of this table, one a row and seed (the newest); the rest goes into notes."""
    place = (spec.grid, spec.dataset, spec.preset)
    names = {row.row for row in spec.rows if not row.reference}
    newest: dict[tuple[str, int], RunRecord] = {}
    foreign, unknown, repeated = 0, dict[str, None](), 0
    for record in records:
        if (record.grid, record.dataset, record.preset) != place:
            foreign += 1
            continue
        if spec.rows and record.row not in names:
            unknown[record.row] = None
            continue
        key = (record.row, record.seed)
        repeated += key in newest
        if key not in newest or _finished(record) >= _finished(newest[key]):
            newest[key] = record
    if foreign:
        notes.append(f"left out: {foreign} runs of another grid, data set or preset")
    if unknown:
        notes.append(f"left out: runs of rows that the grid doesn't have ({', '.join(unknown)})")
    if repeated:
        notes.append(f"left out: {repeated} older runs of the same row and seed")
    return list(newest.values())


def _finished(record: RunRecord) -> float:
    return record.finished.timestamp() if record.finished else 0.0


def _outdated(spec: TableSpec, record: RunRecord) -> str:
    """Why `record` doesn't count, as the row it belongs to has it; empty where it does."""
    present = next((row.present for row in spec.rows if row.row == record.row), None)
    return present.outdated(record) if present else ""


def _rows(
    spec: TableSpec,
    row: RowSpec,
    runs: Sequence[RunRecord],
    published: dict[str, PublishedValue | None],
    seeds: Sequence[int],
    notes: list[str],
) -> list[TableRow]:
    """One row, or one for each group of runs that may not be averaged with the others."""
    name = row.row
    outdated = {r.seed: why for r in runs if row.present and (why := row.present.outdated(r))}
    groups = same_settings(r for r in runs if r.seed not in outdated)
    if len(groups) <= 1:
        counted = groups[0] if groups else []
        return [make_row(name, counted, spec.metrics, published, seeds, outdated=outdated)]
    notes.append(
        f"row {name} has runs of {len(groups)} different settings; they aren't averaged and "
        "stand on lines of their own"
    )
    one_hash = len({group[0].config_hash for group in groups}) < len(groups)
    rows: list[TableRow] = []
    for number, (group, words) in enumerate(zip(groups, differing(groups), strict=True), start=1):
        own_seeds = sorted({r.seed for r in group})
        rows.append(
            make_row(
                name,
                group,
                spec.metrics,
                published,
                own_seeds,
                settings=group[0].config_hash + (f"/{number}" if one_hash else ""),
                remark=f"own settings: {words}" if words else "own settings",
                outdated=outdated if number == 1 else {},
            )
        )
    return rows


def _published_values(
    spec: TableSpec, row: RowSpec, published: Published
) -> dict[str, PublishedValue | None]:
    source = spec.published
    if source is None or row.published is None:
        return {}
    split = row.published_split or source.dataset_split
    return {
        metric.name: published.value(
            source.paper, source.table, split, row.published, metric.published
        )
        for metric in spec.metrics
        if metric.published
    }


def _with_reasons(
    rows: Sequence[TableRow], metrics: Sequence[MetricSpec], notes: list[str]
) -> list[TableRow]:
    """The rows saying why values are missing; what is so in all of them is one note.

    A metric that no run has, without a reason of its own, isn't one of this data set.
    """
    ran = [row for row in rows if row.n]
    said = {metric.name: {row.metrics[metric.name].reason for row in ran} for metric in metrics}
    throughout = {
        metric.name
        for metric in metrics
        if len(said[metric.name]) == 1 and all(not row.metrics[metric.name].n for row in ran)
    }
    for metric in metrics:
        reason = next(iter(said[metric.name]), "")
        if metric.name in throughout and reason != NOT_MEASURED:
            notes.append(f"{metric.title} is n/a: {reason}")
    return [replace(row, reason=_reason(row, throughout)) for row in rows]


def _reason(row: TableRow, throughout: Set[str]) -> str:
    missing = [
        f"{name}: {cell.reason}"
        for name, cell in row.metrics.items()
        if cell.reason and name not in throughout
    ]
    return "; ".join(filter(None, [row.reason, *missing]))


def _mark_best(rows: Sequence[TableRow], metrics: Sequence[MetricSpec]) -> list[TableRow]:
    """The rows with `best` set at the best mean as it is shown; equal means share it."""
    marked = list(rows)
    for metric in metrics:
        shown = [
            None
            if (mean := row.metrics[metric.name].mean) is None
            else round(mean, metric.decimals)
            for row in rows
        ]
        present = [value for value in shown if value is not None]
        if metric.higher_is_better is None or len(present) < 2:
            continue
        best = max(present) if metric.higher_is_better else min(present)
        for index, value in enumerate(shown):
            if value == best:
                cell = replace(marked[index].metrics[metric.name], best=True)
                metrics_of_row = marked[index].metrics | {metric.name: cell}
                marked[index] = replace(marked[index], metrics=metrics_of_row)
    return marked
