"""Writer of the translation demo: plain parallel text, as published corpora come."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from random import Random

from ..errors import DataError
from ..files import reading
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
    with reading(root):
        if _is_there(root, contents):
            return root
        place = root.resolve()
        if place == Path.cwd():  # it would be replaced under the user's shell
            raise DataError(
                f"{root} is the current folder; give a new folder in it, such as demo, as root."
            )
    _write(place, contents)
    return root


def _is_there(root: Path, contents: dict[str, str]) -> bool:
    """Tell whether the demo lies there already; refuse a place that holds something else."""
    if not root.exists():
        return False
    if not root.is_dir():
        raise DataError(f"{root} is a file; give a folder for the demo data.")
    if _holds(root, contents):
        return True
    if any(root.iterdir()):
        raise DataError(
            f"{root} is not empty and holds other files than this demo; give an empty or a "
            "new folder."
        )
    return False


def _write(root: Path, contents: dict[str, str]) -> None:
    """Write the files beside the folder, and put them in its place."""
    work = None
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=root.name + ".", dir=root.parent))
        for name, text in contents.items():
            with (work / name).open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        work.chmod(0o755)  # a temporary folder is readable for its owner only
        os.replace(work, root)
    except OSError as error:
        raise DataError(f"{root} can't be written: {error.strerror or error}.") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


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


def _holds(root: Path, contents: dict[str, str]) -> bool:
    """Tell whether a folder holds exactly these files."""
    found = {path.name for path in root.iterdir()}
    if found != set(contents):
        return False
    return all((root / name).read_bytes() == text.encode() for name, text in contents.items())
