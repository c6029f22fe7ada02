"""In how many images each n-gram occurs: the document frequencies of CIDEr."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ....datamodules.pickles import read_pickle
from .errors import CaptionScoreError
from .ngrams import MAX_ID, ORDERS, Captions, Ints, Keys, find, key_of, keys_of


class DocumentFrequencies:
    """Number of images (documents) whose references hold an n-gram, for n = 1 to 4.

    Attributes:
        keys, images: each known n-gram (`ngrams.key_of`), sorted, and its number of images.
        documents: number of images counted.
        end: the id that closes every caption, or None. Self-critical's rewards count the end
            (id 0) as a word; evaluation doesn't.
    """

    def __init__(self, keys: Keys, images: Ints, documents: int, end: int | None = None) -> None:
        if documents < 1 or (len(images) and int(images.max()) > documents):
            raise CaptionScoreError(
                f"document frequencies of {documents} images can't say that an n-gram occurs in "
                f"{int(images.max()) if len(images) else 0} of them; count them anew"
            )
        self.keys, self.images, self.documents, self.end = keys, images, documents, end

    @classmethod
    def count(
        cls, references: Sequence[Sequence[Sequence[int]]], end: int | None = None
    ) -> DocumentFrequencies:
        """Count over the reference captions of each image, as word ids.

        Args:
            references: for each image its captions.
            end: an id that closes every caption; 0 for self-critical's rewards.

        Raises:
            CaptionScoreError: no image, or an id that is out of range.
        """
        if not references:
            raise CaptionScoreError(
                "document frequencies need the captions of at least one image, but there are none"
            )
        keys, owner = keys_of(Captions.of(list(chain.from_iterable(references)), end))
        image = np.repeat(np.arange(len(references)), [len(captions) for captions in references])
        unique, place = np.unique(keys, return_inverse=True)
        pairs = np.unique(image[owner] * max(len(unique), 1) + place)
        images = np.bincount(pairs % max(len(unique), 1), minlength=len(unique))
        return cls(unique, images, len(references), end)

    @classmethod
    def from_counts(
        cls, counts: Mapping[tuple[int, ...], float], documents: int, end: int | None = None
    ) -> DocumentFrequencies:
        """Take counted n-grams of ids.

        Raises:
            CaptionScoreError: an n-gram isn't one to four ids, or its count is no whole number.
        """
        keys = np.fromiter(map(_checked_key, counts), np.uint64, len(counts))
        given = np.fromiter(counts.values(), np.float64, len(counts))
        images = np.rint(given).astype(np.int64)
        if not np.array_equal(images, given) or (len(images) and images.min() < 0):
            raise CaptionScoreError(
                "document frequencies must be whole numbers of images; count them anew"
            )
        order = np.argsort(keys)
        return cls(keys[order], images[order], documents, end)

    @classmethod
    def from_pickle(cls, path: Path, ids: Mapping[str, int] | None = None) -> DocumentFrequencies:
        """Read self-critical's file ``…-idxs.p``, or ``…-words.p`` with the words' ids.

        Only plain containers and numbers are admitted from the pickle.

        Args:
            path: a pickle of ``document_frequency`` (n-gram tuple of strings to number) and
                ``ref_len`` (number of images).
            ids: the id of each word, where the n-grams are words.

        Raises:
            CaptionScoreError: no such file, something else in it, or words without `ids`.
        """
        content = read_pickle(path, encoding="utf-8", error=CaptionScoreError)
        if not isinstance(content, dict) or not {"document_frequency", "ref_len"} <= set(content):
            raise CaptionScoreError(
                f"{path} has no document_frequency and ref_len; expected the file that "
                "self-critical's prepro_ngrams writes"
            )
        counts, documents = content["document_frequency"], content["ref_len"]
        if not isinstance(counts, dict) or not _is_count(documents):
            raise CaptionScoreError(
                f"{path} has a document_frequency that is no dictionary or a ref_len that is no "
                "number of images; make it anew with prepro_ngrams"
            )
        ended = any(isinstance(ngram, tuple) and ngram in (("0",), ("<eos>",)) for ngram in counts)
        try:
            numbered = {_numbers(ngram, ids): number for ngram, number in counts.items()}
            return cls.from_counts(numbered, int(documents), 0 if ended else None)
        except (CaptionScoreError, TypeError, ValueError) as error:
            raise CaptionScoreError(f"{path} can't be used: {error}") from None

    def __len__(self) -> int:
        """Give the number of different n-grams."""
        return len(self.keys)

    def __getitem__(self, ngram: Sequence[int]) -> int:
        """Give the number of images with this n-gram, 0 if none."""
        place, found = find(self.keys, np.array([_checked_key(tuple(ngram))], np.uint64))
        return int(self.images[place[0]]) if found[0] else 0

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Give the n-grams as tuples of ids."""
        for key in self.keys.tolist():
            words = (key >> (16 * place) & 0xFFFF for place in range(ORDERS))
            yield tuple(word - 1 for word in words if word)

    def __eq__(self, other: object) -> bool:
        """Tell whether the same n-grams have the same numbers, of as many images."""
        return (
            isinstance(other, DocumentFrequencies)
            and (self.documents, self.end) == (other.documents, other.end)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.images, other.images)
        )

    __hash__ = None  # type: ignore[assignment]

    def idf(self, keys: Keys) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The weight of each key: log of images over images with it (at least 1)."""
        place, found = find(self.keys, keys)
        images = np.where(found, self.images[place] if len(self.images) else 1, 1)
        return np.log(self.documents) - np.log(np.maximum(images, 1.0))

    def fingerprint(self) -> str:
        """Give the SHA-256 of the n-grams and their numbers."""
        digest = hashlib.sha256(f"{self.documents} {self.end}".encode())
        digest.update(np.ascontiguousarray(self.keys, "<u8").tobytes())
        digest.update(np.ascontiguousarray(self.images, "<i8").tobytes())
        return digest.hexdigest()


def _checked_key(ngram: Any) -> int:
    words = ngram if isinstance(ngram, tuple) else ()
    if not 1 <= len(words) <= ORDERS or not all(
        isinstance(word, int) and 0 <= word <= MAX_ID for word in words
    ):
        raise CaptionScoreError(f"{ngram!r} is no tuple of one to four word ids")
    return key_of(words)


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return False
    return float(value).is_integer() and float(value) >= 1


def _numbers(ngram: Any, ids: Mapping[str, int] | None) -> tuple[int, ...]:
    if not isinstance(ngram, tuple) or not all(isinstance(word, str) for word in ngram):
        raise CaptionScoreError(f"{ngram!r} is no tuple of strings")
    if ids is not None:
        missing = [word for word in ngram if word not in ids and word != "<eos>"]
        if missing:
            raise CaptionScoreError(f"the vocabulary has no word {missing[0]!r}; use its own file")
        return tuple(ids.get(word, 0) for word in ngram)
    if not all(word.isascii() and word.isdigit() for word in ngram):
        raise CaptionScoreError(f"{ngram!r} holds words, not ids; use the file …-idxs.p")
    return tuple(map(int, ngram))
