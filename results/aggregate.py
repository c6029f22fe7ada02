"""From the runs of one row to its cells: what is averaged, and what is said instead."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .canonical import config_hash
from .published import PublishedValue
from .record import RunRecord
from .spec import MetricSpec

RowStatus = Literal["done", "partial", "failed", "diverged", "refused", "missing", "reference"]

WORDS = {"failed": "failed", "diverged": "diverged", "refused": "n/a"}

NOT_MEASURED = "not measured"

_RECORD_FIELDS = ("parameters", "macs", "macs_executed")
_OWN_TO_A_RUN = ("seed", "root", "out")
_LONGEST_REASON = 400


@dataclass(frozen=True)
class MetricCell:
    """One metric of one row: mean and sample standard deviation (None where n < 2) of n runs.

    `mean` is None where nothing was measured; `reason` says why a value is missing.
    """

    mean: float | None
    std: float | None
    n: int
    published: PublishedValue | None
    reason: str = ""
    best: bool = False

    @property
    def difference(self) -> float | None:
        """Mean minus published, None where one of them is missing."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published.value


@dataclass(frozen=True)
class TableRow:
    """One line of a table.

    status: done (every run is), partial (some runs are, others failed), failed, diverged,
    refused, missing (no run that counts), reference (published only). `seeds` are the seeds
    averaged, `n` their number, `expected` how many there should be. `settings` is the
    configuration hash where the row has runs of several configurations, which are never averaged;
    else empty. `seconds` is the mean wall time of a run, `peak_memory_bytes` the largest.
    """

    row: str
    status: RowStatus
    reason: str
    n: int
    expected: int
    seeds: tuple[int, ...]
    metrics: dict[str, MetricCell]
    settings: str = ""
    parameters: int | None = None
    macs: int | None = None
    macs_executed: int | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None

    @property
    def label(self) -> str:
        """The row's name, with its settings' hash where that is needed to tell rows apart."""
        return f"{self.row} [settings {self.settings}]" if self.settings else self.row

    @property
    def note(self) -> str:
        """`failed: reason`, `n/a: reason`, or the plain reason; empty where all is well."""
        word = WORDS.get(self.status)
        return f"{word}: {self.reason}" if word else self.reason


def brief(text: str) -> str:
    """`text` on one line, at most 400 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"


def measured(record: RunRecord, metric: MetricSpec) -> float | None:
    """The value of `metric` in the table's unit, None where the run has none."""
    value = record.metrics.get(metric.name)
    if value is None and metric.name in _RECORD_FIELDS:
        value = getattr(record, metric.name)
    return None if value is None else value * metric.scale


def same_settings(records: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """`records` in groups that may be averaged: same configuration, data and number of items.

    A run without a result belongs to the first group of its configuration.
    """
    groups: dict[tuple[str, str, int | None], list[RunRecord]] = {}
    others: list[RunRecord] = []
    for record in records:
        if record.status != "done":
            others.append(record)
            continue
        key = (record.config_hash, config_hash(record.data.fingerprint), record.items)
        groups.setdefault(key, []).append(record)
    for record in others:
        first = next((key for key in groups if key[0] == record.config_hash), None)
        groups.setdefault(first or (record.config_hash, "", None), []).append(record)
    return list(groups.values())


def differing(groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """For each group, in words, what sets it apart from the others."""
    first = [group[0] for group in groups]
    names = sorted({name for record in first for name in record.config} - set(_OWN_TO_A_RUN))
    varied = [name for name in names if len({str(r.config.get(name)) for r in first}) > 1]
    words: list[str] = []
    for record in first:
        parts = [brief(f"{name}={record.config.get(name)}") for name in varied]
        if len({other.items for other in first}) > 1:
            parts.append(f"{record.items} items")
        if len({config_hash(other.data.fingerprint) for other in first}) > 1:
            parts.append(f"data {config_hash(record.data.fingerprint)}")
        words.append(", ".join(parts))
    return words


def make_row(
    name: str,
    records: Sequence[RunRecord],
    metrics: Sequence[MetricSpec],
    published: dict[str, PublishedValue | None],
    seeds: Sequence[int],
    settings: str = "",
    remark: str = "",
    outdated: Mapping[int, str] | None = None,
) -> TableRow:
    """The row of `records`, which may be averaged; `seeds` are those that it should have.

    `outdated` says of further seeds why their runs don't count.
    """
    done = sorted((r for r in records if r.status == "done"), key=lambda r: r.seed)
    rest = sorted((r for r in records if r.status != "done"), key=lambda r: r.seed)
    cells = {m.name: _metric_cell(m, done, published.get(m.name)) for m in metrics}
    status = _status(done, rest)
    reasons = [remark] if remark else []
    if status in WORDS:
        reasons += _reasons_without_result(rest)
    else:
        reasons += [f"seed {r.seed} {WORDS[r.status]}: {brief(r.reason)}" for r in rest]
    outdated = outdated or {}
    reasons += _reasons_by_seed(outdated, alone=not records)
    absent = sorted(set(seeds) - {r.seed for r in records} - outdated.keys())
    if not records and not outdated:
        reasons.append("not run")
    elif absent and status != "refused":
        reasons.append(f"seed{'s' if len(absent) > 1 else ''} {_joined(absent)} not run")
    times = [r.seconds["total"] for r in done if "total" in r.seconds]
    return TableRow(
        row=name,
        status=status,
        reason="; ".join(reasons),
        n=len(done),
        expected=max(len(set(seeds)), len({r.seed for r in records} | outdated.keys())),
        seeds=tuple(r.seed for r in done),
        metrics=cells,
        settings=settings,
        parameters=_first(r.parameters for r in [*done, *rest]),
        macs=_first(r.macs for r in [*done, *rest]),
        macs_executed=_first(r.macs_executed for r in [*done, *rest]),
        seconds=statistics.fmean(times) if times else None,
        peak_memory_bytes=max((r.peak_memory_bytes or 0 for r in done), default=0) or None,
    )


def reference_row(
    name: str, metrics: Sequence[MetricSpec], published: dict[str, PublishedValue | None]
) -> TableRow:
    """A row that only the paper has."""
    cells = {m.name: MetricCell(None, None, 0, published.get(m.name)) for m in metrics}
    return TableRow(name, "reference", "published only, not run here", 0, 0, (), cells)


def _metric_cell(
    metric: MetricSpec, done: Sequence[RunRecord], published: PublishedValue | None
) -> MetricCell:
    values = [value for r in done if (value := measured(r, metric)) is not None]
    why = {
        r.seed: brief(r.notes.get(metric.name, NOT_MEASURED))
        for r in done
        if measured(r, metric) is None
    }
    return MetricCell(
        mean=statistics.fmean(values) if values else None,
        std=statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        published=published,
        reason=", ".join(_reasons_by_seed(why, alone=not values)),
    )


def _status(done: Sequence[RunRecord], rest: Sequence[RunRecord]) -> RowStatus:
    if done:
        return "partial" if rest else "done"
    for status in ("failed", "diverged", "refused"):
        if any(record.status == status for record in rest):
            return status
    return "missing"


def _reasons_without_result(rest: Sequence[RunRecord]) -> list[str]:
    """One reason where all runs share it, else one a seed."""
    if len({(r.status, r.reason) for r in rest}) == 1:
        return [brief(rest[0].reason)]
    return [f"seed {r.seed} {WORDS[r.status]}: {brief(r.reason)}" for r in rest]


def _reasons_by_seed(by_seed: Mapping[int, str], alone: bool) -> list[str]:
    """Why runs don't count, each reason once; without the seeds where no other run counts."""
    why = dict.fromkeys(by_seed[seed] for seed in sorted(by_seed))
    if alone and len(why) == 1:
        return list(why)
    return [
        f"seed{'s' if len(seeds) > 1 else ''} {_joined(seeds)}: {reason}"
        for reason in why
        if (seeds := sorted(seed for seed in by_seed if by_seed[seed] == reason))
    ]


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def _joined(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)
