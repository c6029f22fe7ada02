"""Folder names for rows, grids and data sets: readable, and no two names share one."""

import hashlib

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+=,()")
_LONGEST = 120


def slug(name: str, *, dots: bool = True) -> str:
    """`name` as one folder name.

    Letters, digits and `-_.+=,()` stay; every other byte of its UTF-8 form becomes `~` and two
    hex digits (`w/o` -> `w~2fo`), as does a dot at the start, or any dot with `dots=False`. So
    the name can be read back and two names never meet. A name that would be longer than 120
    characters is cut and ends in `~~` and 16 digits of its SHA-256.
    """
    data = name.encode("utf-8", "surrogatepass")
    parts: list[str] = []
    for byte in data:
        letter = chr(byte)
        keep = letter in _SAFE and (letter != "." or (dots and parts))
        parts.append(letter if keep else f"~{byte:02x}")
    text = "".join(parts) or "~"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 18]}~~{hashlib.sha256(data).hexdigest()[:16]}"
