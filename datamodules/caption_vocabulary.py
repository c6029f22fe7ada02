"""Words of captions and their ids, as self-critical training numbers them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from .errors import DataError

UNK = "UNK"


class CaptionVocabulary:
    """Words 1..V; id 0 is start, end and padding.

    Args:
        words: the word of id i stands at i - 1; no word twice.

    Raises:
        DataError: a word that occurs twice, or none at all but UNK.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words, start=1)}
        if set(self.words) <= {UNK}:
            raise DataError("The vocabulary has no word; lower min_count or use more captions.")
        if len(self._ids) < len(self.words):
            twice = next(word for word, n in Counter(self.words).items() if n > 1)
            raise DataError(f"The vocabulary has {twice!r} more than once; each word needs one id.")

    @classmethod
    def count(
        cls,
        captions: Iterable[Sequence[str]],
        min_count: int,
        all_captions: Iterable[Sequence[str]] = (),
    ) -> CaptionVocabulary:
        """Keep the words that occur more than `min_count` times, in the order they first occur.

        Where any other word occurs, ``UNK`` stands for it, as the last word.

        Args:
            captions: tokens of the captions that count.
            min_count: a word is kept if it occurs more often.
            all_captions: further captions that will be encoded, without being counted.
        """
        counts = Counter(word for tokens in captions for word in tokens)
        kept = [word for word, number in counts.items() if number > min_count and word != UNK]
        known = set(kept)
        rare = len(kept) < len(counts)
        rare = rare or any(word not in known for tokens in all_captions for word in tokens)
        return cls([*kept, UNK] if rare else kept)

    def __len__(self) -> int:
        """Give the number of ids, 0 included: the size of a model's output."""
        return len(self.words) + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaptionVocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    @cached_property
    def unk(self) -> int | None:
        """The id that stands for words left out; None if there is none."""
        return self._ids.get(UNK)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Give the words' ids, without 0. Unknown words are left out where there is no UNK."""
        ids = (self._ids.get(word, self.unk) for word in tokens)
        return [number for number in ids if number is not None]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Give the words up to the first 0.

        Raises:
            IndexError: an id that is no word's.
        """
        words: list[str] = []
        for number in ids:
            if number == 0:
                break
            if number < 0:
                raise IndexError(f"{number} is no word's id")
            words.append(self.words[number - 1])
        return words

    def fingerprint(self) -> str:
        """Give the SHA-256 of the words in order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()
