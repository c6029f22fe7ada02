"""Small corpora for the tests."""

import gzip
import re
from pathlib import Path

import pytest

from attnbench.datamodules.errors import DataError

TRAIN = [
    ("A dog sees the cat.", "Ein Hund sieht die Katze."),
    ("The cat sleeps, the dog doesn't.", "Die Katze schläft, der Hund nicht."),
    ("Is the red house old?", "Ist das rote Haus alt?"),
    ("The house is new; the cat isn't.", "Das Haus ist neu; die Katze nicht."),
] * 5
EVAL = [
    ("The dog sleeps.", "Der Hund schläft."),
    ("", "Eine Zeile ohne Quelle."),
    ("Is the cat new?", "Ist die Katze neu?"),
]


def write_lines(path: Path, lines: list[str]) -> Path:
    """Write lines, gzip-packed if the name says so."""
    data = "".join(line + "\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_corpus(root: Path, ending: str = "", /, **splits: list[tuple[str, str]]) -> Path:
    """Write `SPLIT.en` and `SPLIT.de`; by default train, val and test."""
    for split, pairs in (splits or {"train": TRAIN, "val": EVAL, "test": EVAL}).items():
        write_lines(root / f"{split}.en{ending}", [source for source, _ in pairs])
        write_lines(root / f"{split}.de{ending}", [target for _, target in pairs])
    return root


class Sentence:
    """Expects a DataError whose message is one sentence with all of some parts."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts
        self._raises = pytest.raises(DataError)

    def __enter__(self) -> None:
        self._info = self._raises.__enter__()

    def __exit__(self, *error: object) -> bool:
        caught = self._raises.__exit__(*error)  # type: ignore[arg-type]
        message = str(self._info.value)
        assert "\n" not in message and message.endswith((".", "?"))
        for part in self._parts:
            assert re.search(re.escape(part), message), f"{part!r} is not in {message!r}"
        return bool(caught)
