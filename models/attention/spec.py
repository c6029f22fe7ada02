"""The short specs that name attention variants, e.g. ``terms(0010,range=13)+deformable``.

Grammar: ``part ("+" part)*`` with ``part = name | name "(" argument ("," argument)* ")"`` and
``argument = value | key "=" value``. At most one argument has no key. A value may hold ``+``
inside parentheses (``on=query+key``). The last part stands in front: ``X+deformable`` feeds X
with the output of a deformable convolution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

Value = bool | int | float | str

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
# Not 0110, which is bits.
_FLOAT = re.compile(r"[+-]?(([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)")


class SpecError(ValueError):
    """An attention spec that can't be read or names something unknown."""


@dataclass(frozen=True)
class Part:
    """One variant with its arguments: ``terms(0110,range=13)``."""

    name: str
    positional: str | None = None
    options: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        arguments = [] if self.positional is None else [self.positional]
        arguments += [f"{key}={_format(value)}" for key, value in self.options]
        return f"{self.name}({','.join(arguments)})" if arguments else self.name


@dataclass(frozen=True)
class Spec:
    """A parsed spec; ``str(spec)`` is its canonical form (options sorted, no spaces)."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "+".join(str(part) for part in self.parts)


def parse_spec(text: str | Spec) -> Spec:
    """Read a spec. Raises ``SpecError`` with one sentence if it is malformed."""
    if isinstance(text, Spec):
        return text
    if not isinstance(text, str):
        raise SpecError(
            f"attention spec {text!r} is a {type(text).__name__}, not text: "
            "quote it, e.g. 'terms(0110)'"
        )
    return Spec(tuple(_parse_part(part, text) for part in _split(text, "+", text)))


SpecText = Annotated[str, AfterValidator(lambda text: str(parse_spec(text)))]
"""A setting that holds a spec, in its canonical form."""


def _parse_part(part: str, whole: str) -> Part:
    name, parenthesis, rest = part.strip().partition("(")
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"attention spec {whole!r}: {name!r} is no variant name; write e.g. 'dot', "
            "'terms(0110)' or 'terms(0010)+deformable'"
        )
    if not parenthesis:
        return Part(name)
    if not rest.endswith(")"):
        raise SpecError(f"attention spec {whole!r}: text follows the last ')'; remove it")
    positional: str | None = None
    options: dict[str, Value] = {}
    for argument in _split(rest[:-1], ",", whole):
        key, equals, value = (piece.strip() for piece in argument.partition("="))
        if not equals:
            if not key or positional is not None or options:
                raise SpecError(
                    f"attention spec {whole!r}: {argument!r} must be key=value; "
                    "only the first argument may stand without a key"
                )
            positional = key
        elif not _NAME.fullmatch(key) or not value:
            raise SpecError(f"attention spec {whole!r}: {argument!r} is not key=value")
        elif key in options:
            raise SpecError(f"attention spec {whole!r}: {key!r} is given twice; keep one")
        else:
            options[key] = _parse_value(value)
    return Part(name, positional, tuple(sorted(options.items())))


def _split(text: str, separator: str, whole: str) -> list[str]:
    """Split at ``separator`` outside of parentheses."""
    pieces, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == separator and depth == 0:
            pieces.append(text[start:index])
            start = index + 1
    if depth != 0:
        raise SpecError(
            f"attention spec {whole!r}: the parentheses don't match; add the missing one"
        )
    return [*pieces, text[start:]]


def _parse_value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _format(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
