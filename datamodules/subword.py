"""Cutting a line of text into subword pieces and putting it together again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .bpe_codes import MARKER, WORD_START, SubwordNmt, join_marked
from .errors import DataError
from .vocabulary import SPECIALS

_BYTES = 256
_WORDS_KEPT = 1_000_000
# A word with the space before it; of several spaces all but the last are a piece of their own.
_WORD = re.compile(r"\s+(?!\S)| ?\S+|\s+")


class Subword(Protocol):
    """A reversible segmentation.

    Attributes:
        kind: what it is, for data cards.
        symbols: all pieces it can give, in order; None if they must be counted in training text.
    """

    kind: str
    symbols: list[str] | None

    def encode(self, line: str) -> list[str]:
        """Cut one line into pieces."""
        ...

    def encode_all(self, lines: Sequence[str]) -> list[list[str]]:
        """Cut many lines; the same as `encode` on each, only faster."""
        ...

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces to the line that they came from."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of everything that decides how text is cut."""
        ...


class Words:
    """Pieces as they are on disk, separated by white space.

    Args:
        marker: mark of text that was cut into subwords before (``@@`` or sentencepiece's low
            line), removed when decoding; None for plain words.
    """

    symbols: list[str] | None = None

    def __init__(self, marker: str | None = None) -> None:
        self.kind = "words" if marker is None else f"subwords as on disk, marked {marker}"
        self.marker = marker

    def encode(self, line: str) -> list[str]:
        """Split at white space."""
        return line.split()

    def encode_all(self, lines: Sequence[str]) -> list[list[str]]:
        """Split each line at white space."""
        return [line.split() for line in lines]

    def decode(self, pieces: Sequence[str]) -> str:
        """Join words with spaces and the subwords of a word without."""
        return join_marked(pieces, self.marker)

    @property
    def sha256(self) -> str:
        """Hash of the kind and mark."""
        return hashlib.sha256(f"{self.kind} {self.marker}".encode()).hexdigest()


class LearnedBpe:
    """Byte-level BPE: any text is cut without unknown pieces, and comes back exactly.

    A space is put before the first word, so that a word has the same pieces wherever it stands.

    Args:
        text: the tokenizer as JSON, as `learn` or `text` gave it.
    """

    kind = "byte-level bpe learned on the training text"

    def __init__(self, text: str) -> None:
        from tokenizers import Tokenizer

        self.text = text
        self._tokenizer: Any = Tokenizer.from_str(text)
        ranked = sorted(self._tokenizer.get_vocab().items(), key=lambda item: item[1])
        self.symbols: list[str] | None = [symbol for symbol, _ in ranked]
        self._known: dict[str, list[str]] = {}

    @classmethod
    def learn(cls, lines: Iterable[str], vocabulary_size: int) -> LearnedBpe:
        """Learn merges on lines of both languages; the same lines give the same merges.

        Args:
            lines: source and target training text.
            vocabulary_size: ids in all, the four special ones and 256 bytes included.

        Raises:
            DataError: a size too small for the bytes.
        """
        smallest = len(SPECIALS) + _BYTES
        if vocabulary_size < smallest:
            raise DataError(
                f"vocabulary_size={vocabulary_size} is too small for a learned BPE, which needs "
                f"an id for every byte: use at least {smallest}."
            )
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer: Any = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size - len(SPECIALS),
            min_frequency=2,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator((" " + line for line in lines), trainer)
        return cls(tokenizer.to_str())

    def encode(self, line: str) -> list[str]:
        """Cut one line; an empty line has no pieces."""
        return self.encode_all([line])[0]

    def encode_all(self, lines: Sequence[str]) -> list[list[str]]:
        """Cut many lines; pieces never cross white space, so each word is cut once and kept."""
        if len(self._known) > _WORDS_KEPT:
            self._known.clear()
        words = [_WORD.findall(" " + line) if line else [] for line in lines]
        new = list({word: None for line in words for word in line if word not in self._known})
        for word, cut in zip(new, self._tokenizer.encode_batch(new), strict=True):
            self._known[word] = cut.tokens
        return [[piece for word in line for piece in self._known[word]] for line in words]

    def decode(self, pieces: Sequence[str]) -> str:
        """Give the exact text; bytes that are no UTF-8 come out as U+FFFD."""
        return self._tokenizer.decoder.decode(list(pieces)).removeprefix(" ")

    @property
    def sha256(self) -> str:
        """Hash of the tokenizer's JSON."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class SentencePiece:
    """A trained sentencepiece model (unigram or BPE).

    Args:
        path: the ``.model`` file.

    Raises:
        DataError: the file is missing or is no sentencepiece model.
    """

    kind = "sentencepiece"

    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        try:
            self._bytes = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} can't be read: {error.strerror or error}.") from error
        self._model: Any = SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(self._bytes)
        except (RuntimeError, OSError) as error:
            raise DataError(
                f"{path} is not a sentencepiece model; give the .model file that spm_train wrote."
            ) from error
        model = self._model
        self.symbols: list[str] | None = [
            model.id_to_piece(number)
            for number in range(model.get_piece_size())
            if not (model.is_control(number) or model.is_unknown(number))
        ]

    def encode(self, line: str) -> list[str]:
        """Cut one line."""
        return self._model.encode(line, out_type=str)

    def encode_all(self, lines: Sequence[str]) -> list[list[str]]:
        """Cut many lines in one call."""
        return self._model.encode(list(lines), out_type=str)

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces (text that the model's own normalisation changed stays changed)."""
        return self._model.decode_pieces(list(pieces))

    @property
    def sha256(self) -> str:
        """Hash of the model file."""
        return hashlib.sha256(self._bytes).hexdigest()


def detect_marker(pieces: Iterable[str]) -> str | None:
    """Tell whether pieces are subwords already, by the marks on at least 2 in 100 of them.

    Args:
        pieces: pieces of some training lines, or the symbols of a dictionary.

    Returns:
        The mark, for `Words`; None for whole words.
    """
    counted = going_on = starting = 0
    for piece in pieces:
        counted += 1
        going_on += piece.endswith(MARKER) and len(piece) > len(MARKER)
        starting += piece.startswith(WORD_START)
    most, marker = max((going_on, MARKER), (starting, WORD_START))
    return marker if most and most >= counted / 50 else None


def read_subword(path: Path) -> Subword:
    """Open a subword file: a sentencepiece ``.model`` or subword-nmt codes.

    Raises:
        DataError: missing file, or neither of the two.
    """
    if not path.is_file():
        raise DataError(
            f"The subword file {path} does not exist; give subword=learn, subword=none, or the "
            "path of subword-nmt codes or of a sentencepiece .model."
        )
    return SentencePiece(path) if path.suffix == ".model" else SubwordNmt(path)
