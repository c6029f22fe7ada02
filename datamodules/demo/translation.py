"""Writer of the translation demo: plain parallel text, as published corpora come."""

from __future__ import annotations

from pathlib import Path
from random import Random

from ..errors import DataError
from .folder import write_folder
from .grammar import draw_pair

_LANGUAGES = ("en", "de")
_WORDS = range(4, 21)
_TRIES = 50


def write_translation_demo(
    root: Path, *, seed: int = 0, train: int = 6000, val: int = 200, test: int = 200
) -> Path:
    """Write ``{train,val,test}.{en,de}`` into a folder, in one step.

    No sentence occurs twice, in or across splits. The same arguments give the same bytes.

    Args:
        root: the folder; made if it is missing. Running again with the same arguments changes
            nothing.
        seed: seed of the sentences.
        train: number of training pairs.
        val: number of validation pairs.
        test: number of test pairs.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, is the current one, can't be read or written,
            or more pairs are wanted than the grammar gives.
    """
    root = Path(root)
    contents = _contents(seed, {"train": train, "val": val, "test": test})
    return write_folder(root, {name: text.encode() for name, text in contents.items()})


def _contents(seed: int, sizes: dict[str, int]) -> dict[str, str]:
    """Draw all pairs and give the text of each file."""
    random = Random(seed)
    wanted = sum(sizes.values())
    pairs: dict[str, str] = {}
    for _ in range(_TRIES * wanted):
        if len(pairs) == wanted:
            break
        english, german = draw_pair(random)
        if len(english.split()) in _WORDS and len(german.split()) in _WORDS:
            pairs.setdefault(english, german)
    if len(pairs) < wanted:
        raise DataError(f"The demo grammar gave only {len(pairs)} of {wanted} pairs; ask for less.")
    rows = iter(pairs.items())
    contents: dict[str, str] = {}
    for split, size in sizes.items():
        chosen = [next(rows) for _ in range(size)]
        for side, language in enumerate(_LANGUAGES):
            contents[f"{split}.{language}"] = "".join(pair[side] + "\n" for pair in chosen)
    return contents
