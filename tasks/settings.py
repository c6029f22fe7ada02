"""Turn named settings into a task's config, with errors a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from .errors import ConfigError

ConfigT = TypeVar("ConfigT", bound=BaseModel)

_WORDS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    "tuple_type": "must be a list, such as [1, 2]",
    "too_short": "must not be empty",
}
"""What pydantic's kinds of errors mean to a user; other kinds speak for themselves."""


def resolve(config: type[ConfigT], settings: Mapping[str, Any]) -> ConfigT:
    """Check ``settings`` and fill in the defaults.

    Raises:
        ConfigError: one sentence about the first wrong setting; an unknown name comes with the
            nearest known ones.
    """
    known = config.model_fields
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else "`attnbench list settings TASK` shows them all"
            )
            raise ConfigError(f"no setting is called {name!r}; {hint}")
    try:
        return config(**settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""  # further parts name types
        message = _WORDS.get(first["type"], first["msg"].removeprefix("Value error, "))
        given = f"{name}={settings[name]!r}: " if name in settings else ""
        raise ConfigError(f"{given}{message[:1].lower()}{message[1:]}") from None
