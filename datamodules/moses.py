"""Raw text and Moses tokens: which of the two a corpus holds, and the way from one to the other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

_SAMPLE = 2000
_ESCAPE = re.compile(r"&(?:apos|quot|amp|lt|gt|#91|#93|#124);")
_SPACED = re.compile(r"(?<=\s)[,.!?;:](?=\s|$)")
_ATTACHED = re.compile(r"(?<=\w)[,.!?;:](?=\s|$)")
_DASH = " @-@ "


@lru_cache
def _tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer  # imported late: it costs a third of a second

    return MosesTokenizer(lang=language)


@lru_cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=language)


def tokenize(line: str, language: str) -> str:
    """Give the Moses tokens of raw text, separated by spaces, HTML-escaped as Moses does.

    Hyphenated words stay whole (Moses without ``-a``), as scores with compound splitting expect.
    """
    return _tokenizer(language).tokenize(line, return_str=True)


def detokenize(line: str, language: str) -> str:
    """Give raw text from Moses tokens: escapes undone, ``@-@`` joined, punctuation attached."""
    return _detokenizer(language).detokenize(line.split())


@dataclass(frozen=True)
class TextStyle:
    """How the text of a corpus is written.

    Attributes:
        kind: ``raw`` (as people write) or ``moses`` (tokens separated by spaces).
        why: what was counted to tell, for the data card.
    """

    kind: Literal["raw", "moses"]
    why: str

    def plain(self, line: str, language: str) -> str:
        """Give a line of this corpus as raw text."""
        return line if self.kind == "raw" else detokenize(line, language)

    def tokens(self, line: str, language: str) -> str:
        """Give a line of this corpus as Moses tokens."""
        return line if self.kind == "moses" else tokenize(line, language)


def detect_style(lines: Iterable[str]) -> TextStyle:
    """Tell raw text from Moses tokens by the punctuation of the first 2,000 lines.

    Escapes alone don't decide where there is punctuation: web text contains ``&amp;`` too.
    """
    spaced = attached = escaped = dashes = 0
    for line in islice(lines, _SAMPLE):
        unescaped, escapes = _ESCAPE.subn("", line)  # their semicolons are no punctuation
        escaped += escapes
        spaced += len(_SPACED.findall(unescaped))
        attached += len(_ATTACHED.findall(unescaped))
        dashes += line.count(_DASH)
    marks = escaped + dashes
    tokenised = spaced > attached if spaced + attached else marks > 0
    why = (
        f"{spaced} punctuation marks stand alone and {attached} are attached to a word, "
        f"{escaped} HTML escapes, {dashes} @-@, in the first lines"
    )
    return TextStyle("moses" if tokenised else "raw", why)
