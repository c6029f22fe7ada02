"""A list of symbols with their ids, in fairseq's layout and file format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from .errors import DataError
from .files import read_lines, write_atomically

BOS, PAD, EOS, UNK = 0, 1, 2, 3
SPECIALS: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>")
_OVERWRITE = "#fairseq:overwrite"
_CHECK_AT_ONCE = 1 << 22


class Vocabulary:
    """Symbols and ids: ``<s>`` 0, ``<pad>`` 1, ``</s>`` 2, ``<unk>`` 3, then the symbols in order.

    Args:
        symbols: the symbols after the four special ones, each once.
        counts: how often each occurred in training; 1 each if not given.
    """

    bos, pad, eos, unk = BOS, PAD, EOS, UNK

    def __init__(self, symbols: Iterable[str], counts: Iterable[int] | None = None) -> None:
        self.symbols: list[str] = [*SPECIALS, *symbols]
        plain = len(self.symbols) - len(SPECIALS)
        self.counts = [1] * plain if counts is None else list(counts)
        if len(self.counts) != plain:
            raise ValueError(f"{plain} symbols but {len(self.counts)} counts.")
        # A symbol written twice (fairseq's overwrite flag) is found under its last id.
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols

    __hash__ = None  # type: ignore[assignment]  # compares by content

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._ids

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], limit: int | None = None) -> Vocabulary:
        """Number symbols by falling count, ties by spelling; keep ``limit`` ids in all."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if limit is not None:
            ranked = ranked[: max(0, limit - len(SPECIALS))]
        return cls((symbol for symbol, _ in ranked), (count for _, count in ranked))

    @classmethod
    def from_file(cls, path: Path) -> Vocabulary:
        """Read fairseq's ``dict.txt``: one ``symbol count`` a line, special symbols not listed.

        Fillers such as ``madeupword0000`` are ordinary symbols: they keep an embedding's size.

        Raises:
            DataError: a line without a count, or a symbol that occurs twice without fairseq's flag.
        """
        symbols: list[str] = []
        counts: list[int] = []
        seen = set(SPECIALS)
        for number, line in enumerate(read_lines(path), start=1):
            overwrite = line.endswith(" " + _OVERWRITE)
            symbol, _, count = line.removesuffix(" " + _OVERWRITE).rpartition(" ")
            if not symbol or not count.isdecimal():
                raise DataError(
                    f"{path}, line {number}: expected 'symbol count' but found {line[:60]!r}."
                )
            if symbol in seen and not overwrite:
                raise DataError(
                    f"{path}, line {number}: the symbol {symbol!r} occurs twice; remove one line."
                )
            seen.add(symbol)
            symbols.append(symbol)
            counts.append(int(count))
        return cls(symbols, counts)

    def save(self, path: Path) -> None:
        """Write the vocabulary as a fairseq ``dict.txt``, atomically."""
        plain = self.symbols[len(SPECIALS) :]
        rows = []
        for number, (symbol, count) in enumerate(zip(plain, self.counts, strict=True)):
            shadows = symbol in SPECIALS or self._ids[symbol] != number + len(SPECIALS)
            rows.append(f"{symbol} {count}{' ' + _OVERWRITE if shadows else ''}\n")
        write_atomically(path, "".join(rows))

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """Give the ids of pieces, ``<unk>`` for what is not in the list; adds no ``</s>``."""
        ids = self._ids
        return [ids.get(piece, UNK) for piece in pieces]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Give the pieces of ids up to the first ``</s>``, without ``<s>`` and ``<pad>``."""
        found = []
        for number in ids:
            if number == EOS:
                break
            if number not in (BOS, PAD):
                found.append(self.symbols[number])
        return found

    @property
    def sha256(self) -> str:
        """Hash of the symbols in order (not of the counts): equal hashes mean equal ids."""
        return hashlib.sha256("\n".join(self.symbols).encode()).hexdigest()

    def check(self, ids: np.ndarray, starts: np.ndarray, where: str) -> None:
        """Refuse ids that this vocabulary doesn't have.

        Args:
            ids: flat integer ids.
            starts: first position of each sentence in ``ids``, to name the line.
            where: the file that the ids were read from.

        Raises:
            DataError: with file, line (from 1) and id.
        """
        for begin in range(0, len(ids), _CHECK_AT_ONCE):
            part = ids[begin : begin + _CHECK_AT_ONCE]
            if int(part.max()) < len(self) and int(part.min()) >= 0:
                continue
            place = begin + int(np.flatnonzero((part >= len(self)) | (part < 0))[0])
            line = _line_of(place, starts)
            raise DataError(
                f"{where}, line {line}: id {int(ids[place])} is outside the dictionary of "
                f"{len(self)} symbols; use the dict.txt that the file was made with."
            )


def _line_of(place: int, starts: Sequence[int] | np.ndarray) -> int:
    """Give the number (from 1) of the sentence that holds a position of the flat ids."""
    first = np.asarray(starts)
    before = np.where(first <= place, first, -1)
    return int(before.argmax()) + 1
