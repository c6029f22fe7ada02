"""What every translation corpus offers, whatever it looks like on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from .errors import DataError
from .store import TokenStore
from .vocabulary import Vocabulary


class Corpus(Protocol):
    """Named splits on disk.

    Attributes:
        format: what was found, in words, for the data card.
        training: name of the training split, None if there is none.
        validation: name of the validation split, None if there is none.
        tests: names of the test splits, the default one first.
        notes: remarks for the data card, such as files left aside.
    """

    format: str
    training: str | None
    validation: str | None
    tests: list[str]
    notes: list[str]

    def files(self, split: str) -> list[Path]:
        """Give the files that a split is read from."""
        ...


class TextCorpus(Corpus, Protocol):
    """A corpus of sentences as text."""

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yield the (source, target) lines of a split in file order, again at every call."""
        ...


class IdCorpus(Corpus, Protocol):
    """A corpus of sentences as ids of its own dictionaries."""

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def stores(self, split: str) -> tuple[TokenStore, TokenStore]:
        """Give the source and target sentences of a split."""
        ...


def find_split(corpus: Corpus, name: str, root: Path) -> str:
    """Turn ``train``, ``val``, ``test`` or a split's own name into its name on disk.

    Raises:
        DataError: there is no such split, with those that exist.
    """
    roles = {
        "train": corpus.training,
        "val": corpus.validation,
        "test": corpus.tests[0] if corpus.tests else None,
    }
    there = [split for split in (corpus.training, corpus.validation) if split] + corpus.tests
    if name in there:
        return name
    found = roles.get(name)
    if found is None:
        raise DataError(f"{root} has no split {name!r}; found: {', '.join(there) or 'none'}.")
    return found
