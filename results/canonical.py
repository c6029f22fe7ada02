"""Plain JSON values, and the hash by which two configurations are told apart."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

_LARGEST_EXACT_INTEGER = 2**53


def clean_text(text: str) -> str:
    """`text` with everything that UTF-8 can't hold (lone surrogates) replaced by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def plain(value: Any, path_text: Callable[[PurePath], str] = str) -> Any:
    """`value` as JSON knows it: None, bool, int, float, str, list, dict.

    Paths become text by `path_text`, enums their value, tuples and sets lists (sets sorted),
    numbers of other libraries Python numbers, and floats that JSON lacks the words `nan`, `inf`
    and `-inf`. Raises TypeError for anything else, and for a key that isn't text.
    """
    if isinstance(value, Enum):
        return plain(value.value, path_text)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, PurePath):
        return clean_text(path_text(value))
    if isinstance(value, Mapping):
        return {_key(key): plain(item, path_text) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, path_text) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, path_text) for item in value), key=repr)
    if callable(getattr(value, "item", None)):
        return plain(value.item(), path_text)
    raise TypeError(f"a {type(value).__name__} can't be stored as JSON: {value!r}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, found {key!r}")
    return clean_text(key)


def _whole_numbers(value: Any) -> Any:
    """`value` (plain) with 2.0 written as 2, so that YAML and command line hash alike."""
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT_INTEGER:
        return int(value)
    return value


def config_hash(config: Mapping[str, Any]) -> str:
    """12 hex digits of the SHA-256 of `config` as canonical JSON.

    Equal for any order of keys, for 2 and 2.0, for tuples and lists, and for a `Path` in any
    folder (only its last name counts). Hand in the keys that change a result and no others:
    leave out the seed (runs of several seeds are averaged only where their hashes agree), the
    data root, output folders and display options.
    """
    values = _whole_numbers(plain(config, lambda path: path.name))
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
