"""The settings of tasks as a list: name, type, default and meaning, read from their fields."""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from .cell import task_entry

_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
_LIMITS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}


def list_settings(task: str) -> list[dict[str, Any]]:
    """Every setting of a task in the order of its configuration. Raises UsageError."""
    entry = task_entry(task)
    return [
        {
            "task": entry.name,
            "setting": name,
            "type": "attention spec" if name in entry.sites else type_in_words(field),
            "default": _default(field),
            "meaning": field.description or "",
        }
        for name, field in entry.config.model_fields.items()
        if name != "seed"  # has an option, or a word of its own, everywhere
    ]


def type_in_words(field: FieldInfo) -> str:
    """For example `whole number from 1, or null`, or `power, gnmt`."""
    words = _words(field.annotation)
    parts, optional = [w for w in words if w != "null"], "null" in words
    limits = [
        f"{word} {getattr(limit, name):,}"
        for limit in field.metadata
        for name, word in _LIMITS.items()
        if hasattr(limit, name)
    ]
    text = " ".join([" or ".join(parts), *limits])
    return f"{text}, or null" if optional else text


def _words(annotation: Any) -> list[str]:
    origin = typing.get_origin(annotation)
    if annotation is type(None):
        return ["null"]
    if origin is typing.Literal:
        return [", ".join(str(value) for value in typing.get_args(annotation))]
    if origin in (typing.Union, types.UnionType):
        return [word for part in typing.get_args(annotation) for word in _words(part)]
    if origin in (tuple, list):
        inner = [part for part in typing.get_args(annotation) if part is not Ellipsis]
        return [f"list of {' or '.join(word for part in inner[:1] for word in _words(part))}"]
    if origin is typing.Annotated:
        return _words(typing.get_args(annotation)[0])
    return [_NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))]


def _default(field: FieldInfo) -> Any:
    """The default as plain JSON has it; `required` where there is none."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)
