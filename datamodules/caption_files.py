"""Annotation files of captions: what a file is, told by its content, and reading JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

from .errors import DataError
from .files import reading

Kind = Literal["karpathy", "coco", "cocotalk"]

_LOOK = 1 << 16
_HTML = (b"<!doctype html", b"<html")


def read_json(path: Path, expected: str) -> Any:
    """Read a JSON file.

    Args:
        path: the file.
        expected: what should be in it, for the error.

    Raises:
        DataError: missing, empty, HTML or damaged file, or text with half characters.
    """
    with reading(path):
        content = path.read_bytes()
    refuse_html(path, content[:512], expected)
    try:
        found = json.loads(content)
        if b"\\ud" in content.lower():  # an escaped half of a surrogate pair is no character
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path} has {error.object[error.start]!a}, half of a character, in a text; correct it."
        ) from error
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(
            f"{path} is not complete JSON{place}; expected {expected}: copy it again."
        ) from error


def refuse_html(path: Path, head: bytes, expected: str) -> None:
    """Raise DataError if a file starts as an HTML page, or is empty."""
    if not head:
        raise DataError(f"{path} is empty; expected {expected}.")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML):
        raise DataError(
            f"{path} is an HTML page, probably an error page of a download server; expected "
            f"{expected}: download it again."
        )


def head_of(path: Path, size: int = 512) -> bytes:
    """Give the first bytes of a file. Raises DataError if it can't be read."""
    with reading(path), path.open("rb") as stream:
        return stream.read(size)


def kind_of(path: Path) -> Kind | None:
    """Tell an annotation file by its first and last bytes; None if it is none of ours."""
    with reading(path), path.open("rb") as stream:
        head = stream.read(_LOOK)
        size = path.stat().st_size
        stream.seek(max(0, size - _LOOK))
        both = head + stream.read(_LOOK)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    if b'"ix_to_word"' in both:
        return "cocotalk"
    if b'"sentences"' in both or b'"sentids"' in both:
        return "karpathy"
    if re.search(rb'"caption"\s*:', both) and b'"image_id"' in both:
        return "coco"
    return None


def member(path: Path, value: Any, name: str, kind: type, expected: str) -> Any:
    """Give a member of a JSON object that must be there and of a type.

    Raises:
        DataError: it isn't.
    """
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise DataError(f"{path} has no proper {name!r}; expected {expected}.")
    return found
