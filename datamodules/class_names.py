"""What the name of a class may be."""

from __future__ import annotations

import re

from .errors import DataError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # with halves of UTF-16 pairs


def class_name(name: str, where: str) -> str:
    """Refuse a name that a table can't show.

    Args:
        name: as the files have it.
        where: file and place, for the error.

    Raises:
        DataError: it is empty, or has a control character.
    """
    if not name.strip() or _CONTROL.search(name):
        raise DataError(
            f"{where} has the class name {name[:60]!a}; expected a text without control "
            "characters: correct it."
        )
    return name
