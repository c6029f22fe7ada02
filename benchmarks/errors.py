"""Errors of the runner that a user can act on; each message is one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """A command, grid, row or option that can't be used."""


class GridError(UsageError):
    """A grid file that can't be read or asks for something unknown."""


class Interrupted(BaseException):
    """The user or the system asked the run to stop. Not an `Exception`, so nothing swallows it."""


def nearest(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """`; did you mean a or b?`, or `otherwise` where nothing known looks like `name`."""
    near = difflib.get_close_matches(name, list(known), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else otherwise
