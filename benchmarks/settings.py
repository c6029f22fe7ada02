"""`key=value` words of the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .errors import UsageError


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` words as settings; a task's configuration turns the text into its type.

    `null` is no value, and text that begins with `[` or `{` is read as JSON. Raises UsageError.
    """
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f"{word!r} is not key=value, e.g. max_steps=200")
        if key in settings:
            raise UsageError(f"{key} is set twice; keep one")
        settings[key] = _value(word, value)
    return settings


def _value(word: str, text: str) -> Any:
    if text == "null":
        return None
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{word!r} isn't JSON after the equals sign ({error})") from None
