"""RunRecord: everything that is kept of one trained cell (grid row x seed), as one JSON file."""

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from .canonical import plain
from .errors import StoreError

SCHEMA_VERSION = 1

Status = Literal["done", "failed", "diverged", "refused"]


class DataStamp(BaseModel):
    """Which data a run saw: hashes by file or part, and the data card that was printed."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    fingerprint: dict[str, str] = Field(default_factory=dict)
    card: dict[str, JsonValue] = Field(default_factory=dict)


class RunRecord(BaseModel):
    """One run. All metrics come from one checkpoint, evaluated once.

    A metric that isn't a finite number is stored as null, with the reason in `notes`. Times are
    in seconds, memory in bytes, dates carry their time zone. `macs` counts multiply-accumulates
    of the explicit path as papers do, `macs_executed` those of the fused path. `command` is the
    shell command that made the run. `config` may hold paths and tuples; they are stored plain.
    `phase` names the phase of training that the metrics belong to, where a task has several.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    schema_version: Literal[1] = SCHEMA_VERSION
    grid: str = Field(min_length=1)
    row: str = Field(min_length=1)
    cell: str = ""
    seed: int = Field(ge=0)
    task: str
    dataset: str = Field(min_length=1)
    preset: str = Field(min_length=1)
    phase: str = ""
    status: Status
    reason: str = ""
    command: str = ""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    config_hash: str
    data: DataStamp = Field(default_factory=DataStamp)
    items: int | None = Field(default=None, ge=0)
    metrics: dict[str, float | None] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)
    signatures: dict[str, str] = Field(default_factory=dict)
    parameters: int | None = Field(default=None, ge=0)
    macs: int | None = Field(default=None, ge=0)
    macs_executed: int | None = Field(default=None, ge=0)
    seconds: dict[str, float] = Field(default_factory=dict)
    peak_memory_bytes: int | None = Field(default=None, ge=0)
    versions: dict[str, str] = Field(default_factory=dict)
    git_commit: str | None = None
    git_dirty: bool | None = None
    device: str = ""
    started: AwareDatetime | None = None
    finished: AwareDatetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _store_plainly(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        fields = dict(values)
        metrics, notes = fields.get("metrics", {}), fields.get("notes", {})
        if isinstance(metrics, Mapping) and isinstance(notes, Mapping):
            fields["metrics"], fields["notes"] = _finite_metrics(metrics, notes)
        for name in ("config", "reason", "command", "device"):
            if name in fields:
                fields[name] = plain(fields[name])
        if isinstance(fields.get("data"), Mapping):
            fields["data"] = plain(fields["data"])
        if fields.get("status") in ("failed", "diverged", "refused") and not fields.get("reason"):
            fields["reason"] = "no reason was recorded"
        return fields

    def to_json(self) -> bytes:
        """The record as UTF-8 JSON with a final newline; never holds NaN or infinity."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False)
        return (text + "\n").encode("utf-8")

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read `to_json`'s output. Raises StoreError, a phrase that says what is wrong."""
        try:
            values = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise StoreError(f"it isn't whole JSON text ({error})") from None
        if not isinstance(values, dict) or "schema_version" not in values:
            raise StoreError("it isn't a run record (no schema_version)")
        version = values["schema_version"]
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise StoreError(
                f"it was written by a newer attnbench (schema {version}, "
                f"this one reads {SCHEMA_VERSION})"
            )
        try:
            return cls.model_validate(values)
        except Exception as error:  # whatever a damaged file makes of the values
            raise StoreError(f"it isn't a valid run record ({_first_problem(error)})") from None


def _finite_metrics(
    metrics: Mapping[str, Any], notes: Mapping[str, str]
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Metrics as floats, or None with a note for what isn't a finite number."""
    values: dict[str, float | None] = {}
    reasons = dict(plain(notes))
    for name, given in metrics.items():
        if isinstance(given, str):
            raise ValueError(f"metric {name} is text ({given!r}), not a number")
        try:
            number = None if given is None else float(given)
        except (TypeError, OverflowError):
            raise ValueError(f"metric {name} isn't a number") from None
        if number is not None and math.isfinite(number):
            values[name] = number
            continue
        values[name] = None
        reasons.setdefault(name, "undefined" if number is None else f"the value was {number}")
    return values, reasons


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    problem = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
