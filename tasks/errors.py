"""Errors of the tasks that a user can act on; each message is one sentence."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting is unknown, has the wrong type or is out of range."""


class Diverged(RuntimeError):
    """Training produced a loss that is not a finite number."""
