"""What the settings of a row are at present, by which older runs of it are told apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .canonical import plain
from .record import RunRecord

_MOST_NAMED = 3


@dataclass(frozen=True)
class PresentSettings:
    """The settings that a run of a row would have now.

    `config_hash` is theirs, `config` the settings themselves (only those that are hashed), for
    the words about what has changed. `refusal`: why the row can't be run, None where it can.
    """

    config_hash: str
    config: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None

    def outdated(self, record: RunRecord) -> str:
        """Why `record` is no run of these settings, as a phrase; empty where it is one."""
        if record.config_hash != self.config_hash:
            return (
                f"the settings of this row have changed since{self._changes(record)}; run again, "
                "or give the old ones with --set"
            )
        if record.status == "refused" and self.refusal is None:
            return "what was refused here is possible since; run again"
        return ""

    def _changes(self, record: RunRecord) -> str:
        """` (dim was 16, is 32)`, at most three settings; empty where the record has none."""
        if not record.config:
            return ""
        changes: list[str] = []
        for name, value in self.config.items():
            now = plain(value)
            if name not in record.config:
                changes.append(f"{name} is new")
            elif record.config[name] != now:
                changes.append(f"{name} was {_shown(record.config[name])}, is {_shown(now)}")
        more = len(changes) - _MOST_NAMED
        if more > 0:
            changes[_MOST_NAMED:] = [f"{more} more"]
        return f" ({', '.join(changes)})" if changes else ""


def _shown(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )
