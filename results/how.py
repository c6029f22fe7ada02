"""How a table was made: the facts under it."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .glossary import COLUMNS, METRICS
from .published import PAPERS
from .record import RunRecord
from .spec import TableSpec

_PRIVATE_OPTIONS = ("--root", "--out")


def describe(spec: TableSpec, records: Sequence[RunRecord]) -> dict[str, Any]:
    """The `how` of a table, as plain JSON values; `wall_time` is the sum of all runs, in seconds.

    Where runs differ in something that should be one value (versions, device, items, commit),
    all values are given.
    """
    return {
        "commands": [
            public_command(c) for c in distinct([*spec.commands, *(r.command for r in records)])
        ],
        "data": {
            "dataset": spec.dataset,
            "source": spec.data_source or _joined(records, lambda r: r.data.card.get("source")),
            "items": distinct(r.items for r in records if r.status == "done"),
            "fingerprint": _merged(records, lambda r: r.data.fingerprint),
        },
        "preset": spec.preset,
        "seeds": sorted({r.seed for r in records}),
        "runs": {
            status: count
            for status in ("done", "failed", "diverged", "refused")
            if (count := sum(r.status == status for r in records))
        },
        "wall_time": round(sum(r.seconds.get("total", 0.0) for r in records), 1),
        "device": _joined(records, lambda r: r.device),
        "versions": _merged(records, lambda r: r.versions),
        "git": distinct(_commit(r) for r in records),
        "signatures": _merged(records, lambda r: r.signatures),
        "settings_varied": varied_settings(records),
        "published": published_in_words(spec),
        "published_comparable": spec.comparable,
        "glossary": glossary(spec),
    }


def published_in_words(spec: TableSpec) -> str:
    """Source of the published numbers, and whether this run is the published setting."""
    source = spec.published
    if source is None:
        return ""
    splits = distinct(
        row.published_split or source.dataset_split for row in spec.rows if row.published
    )
    shown = " and ".join(splits or [source.dataset_split])
    words = f"{PAPERS.get(source.paper, source.paper)}, {source.table}, {shown}"
    if spec.comparable:
        return words
    lacking = [f"no {name}" for name in source.needs if name not in spec.given]
    runs = " and ".join([f"the preset {spec.preset}", *spec.settings, *lacking])
    return (
        f"{words}; these runs are {spec.dataset} with {runs}, another setting, "
        "so the difference doesn't measure a reproduction"
    )


def glossary(spec: TableSpec) -> dict[str, str]:
    """What each metric and column means."""
    meanings = {m.title: m.meaning or METRICS.get(m.name.lower(), "") for m in spec.metrics}
    return {name: text for name, text in meanings.items() if text} | COLUMNS


def varied_settings(records: Iterable[RunRecord]) -> list[str]:
    """The configuration keys that aren't the same in all runs, seeds and folders aside."""
    ran = [r for r in records if r.config]
    names = sorted({name for r in ran for name in r.config} - {"seed", "root", "out"})
    return [name for name in names if len({repr(r.config.get(name)) for r in ran}) > 1]


def public_command(command: str) -> str:
    """`command` with the user's own folders left out: `--root ~/data` -> `--root DIR`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    shown: list[str] = []
    for word in words:
        option, equals, _ = word.partition("=")
        if shown and shown[-1] in _PRIVATE_OPTIONS:
            shown.append("DIR")
        elif equals and option in (*_PRIVATE_OPTIONS, "root", "out"):
            shown.append(f"{option}=DIR")
        else:
            shown.append(word)
    return shlex.join(shown)


def distinct(values: Iterable[Any]) -> list[Any]:
    """The values in order of appearance, each once, without the empty ones."""
    return list(dict.fromkeys(v for v in values if v not in (None, "")))


def _commit(record: RunRecord) -> str:
    if not record.git_commit:
        return ""
    return record.git_commit + (" with uncommitted changes" if record.git_dirty else "")


def _joined(records: Iterable[RunRecord], of: Callable[[RunRecord], Any]) -> str:
    return "; ".join(str(value) for value in distinct(of(r) for r in records))


def _merged(
    records: Sequence[RunRecord], of: Callable[[RunRecord], dict[str, str]]
) -> dict[str, str]:
    """One value a name; where runs differ, all of them, joined by ` / `."""
    names = dict.fromkeys(name for r in records for name in of(r))
    return {name: " / ".join(distinct(of(r).get(name, "") for r in records)) for name in names}
