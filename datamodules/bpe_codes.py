"""BPE from a codes file of subword-nmt (Sennrich et al. 2016, "Neural Machine Translation of Rare
Words with Subword Units")."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from .errors import DataError
from .files import read_lines

MARKER = "@@"
WORD_START = "\u2581"
_END = "</w>"
_WORDS_KEPT = 1_000_000


def join_marked(pieces: Sequence[str], marker: str | None) -> str:
    """Join pieces to a line.

    Args:
        pieces: words or subwords.
        marker: ``@@`` at the end of a piece that goes on, sentencepiece's low line at the start of
            a piece that begins a word, or None for whole words.
    """
    if marker == WORD_START:
        return "".join(pieces).replace(WORD_START, " ").strip()
    line = " ".join(pieces)
    if marker is None:
        return line
    # A hypothesis may end inside a word, hence the mark at the very end.
    return line.replace(marker + " ", "").removesuffix(marker)


class SubwordNmt:
    """Applies learned merges to words; a piece inside a word ends with ``@@``.

    Args:
        path: the codes file, with a ``#version: 0.1`` or ``0.2`` first line; without one it is 0.1
            (there the mark of a word's end is a symbol of its own before merging).

    Raises:
        DataError: the file can't be read or a line is not a pair of symbols.
    """

    kind = "subword-nmt codes"
    symbols: list[str] | None = None

    def __init__(self, path: Path) -> None:
        lines = list(read_lines(path))
        self._sha256 = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        self._end_is_a_symbol = True
        first = 0
        if lines[0].startswith("#version:"):
            version = lines[0].removeprefix("#version:").strip()
            if version not in ("0.1", "0.2"):
                raise DataError(
                    f"{path}: version {version} of subword-nmt codes is not known; expected 0.1 "
                    "or 0.2."
                )
            self._end_is_a_symbol = version == "0.1"
            first = 1
        self._ranks: dict[tuple[str, str], int] = {}
        for number, line in enumerate(lines[first:], start=first + 1):
            pair = line.split(" ")
            if len(pair) != 2:
                raise DataError(
                    f"{path}, line {number}: expected two symbols of a merge but found "
                    f"{line[:60]!r}; is this a subword-nmt codes file?"
                )
            self._ranks.setdefault((pair[0], pair[1]), len(self._ranks))
        self._known: dict[str, list[str]] = {}

    def encode(self, line: str) -> list[str]:
        """Cut each word of a line."""
        return [piece for word in line.split() for piece in self._pieces(word)]

    def encode_all(self, lines: Sequence[str]) -> list[list[str]]:
        """Cut each line."""
        return [self.encode(line) for line in lines]

    def decode(self, pieces: Sequence[str]) -> str:
        """Remove the continuation marks."""
        return join_marked(pieces, MARKER)

    @property
    def sha256(self) -> str:
        """Hash of the codes."""
        return self._sha256

    def _pieces(self, word: str) -> list[str]:
        found = self._known.get(word)
        if found is None:
            symbols = self._merge([*word, _END] if self._end_is_a_symbol else self._ended(word))
            if symbols[-1] == _END:
                symbols.pop()
            symbols[-1] = symbols[-1].removesuffix(_END)
            found = [symbol + MARKER for symbol in symbols[:-1]] + symbols[-1:]
            if len(self._known) > _WORDS_KEPT:
                self._known.clear()
            self._known[word] = found
        return found

    @staticmethod
    def _ended(word: str) -> list[str]:
        return [*word[:-1], word[-1] + _END]

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merge the earliest learned pair everywhere in the word until no pair is known."""
        never = len(self._ranks)
        while len(symbols) > 1:
            pairs = list(zip(symbols, symbols[1:], strict=False))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, never))
            if best not in self._ranks:
                break
            merged: list[str] = []
            at = 0
            while at < len(symbols):
                if tuple(symbols[at : at + 2]) == best:
                    merged.append(best[0] + best[1])
                    at += 2
                else:
                    merged.append(symbols[at])
                    at += 1
            symbols = merged
        return symbols
