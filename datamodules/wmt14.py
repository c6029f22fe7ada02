"""Translation sets of Hugging Face `datasets`: rows ``{"translation": {"de": …, "en": …}}``.

`wmt14` (configuration ``de-en``) is the one that papers use; every set in the same form can be
read. The files are Arrow or Parquet and are read in chunks, never as lists of a whole split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import DataError

_ROWS_AT_ONCE = 10_000
_SPLITS = ("train", "validation", "test")
_SHARD = re.compile(r"(?:.*-)?(train|validation|test)(?:-\d{5}-of-\d{5})?\.(arrow|parquet)")
_HOW = (
    "save one with load_dataset('wmt14', 'de-en').save_to_disk(FOLDER) and give that folder as root"
)


class HuggingFaceText:
    """A folder with a translation set of `datasets`.

    Args:
        root: a folder written by ``DatasetDict.save_to_disk``, a folder of Parquet files (as on the
            hub), or a ``cache_dir`` that ``load_dataset`` filled.
        languages: source and target language, in either order of the configuration.

    Raises:
        DataError: nothing of that kind is there, or the rows have another form.
    """

    notes: list[str]

    def __init__(self, root: Path, languages: tuple[str, str]) -> None:
        self._root = root
        self._languages = languages
        self._shards = _find_shards(root, languages)
        self._sets: dict[str, Any] = {}
        kinds = sorted({path.suffix[1:] for paths in self._shards.values() for path in paths})
        self.format = f"Hugging Face datasets ({', '.join(kinds)})"
        self.notes = []
        self.training = "train" if "train" in self._shards else None
        self.validation = "validation" if "validation" in self._shards else None
        self.tests = ["test"] if "test" in self._shards else []

    def files(self, split: str) -> list[Path]:
        """Give the Arrow or Parquet files of a split."""
        return self._shards[split]

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a split in order; a missing side counts as an empty line."""
        source, target = self._languages
        opened = self._open(split)
        rows = 0
        try:
            for batch in opened.iter(batch_size=_ROWS_AT_ONCE):
                for row in batch["translation"]:
                    rows += 1
                    if not isinstance(row, dict):
                        raise DataError(self._no_text(split, rows, row))
                    pair = row[source], row[target]
                    for side in pair:
                        if not isinstance(side, str | None):
                            raise DataError(self._no_text(split, rows, side))
                    yield _one_line(pair[0]), _one_line(pair[1])
        except DataError:
            raise
        except (ValueError, OSError) as error:  # what Arrow raises on damaged files
            raise DataError(
                f"{self._root}, split {split}: damaged after row {rows} ({_short(error)}); "
                "make or copy the set again."
            ) from error
        if not rows:
            raise DataError(f"{self._root}, split {split}: has no rows.")

    def _no_text(self, split: str, row: int, found: object) -> str:
        return (
            f"{self._root}, split {split}: the translation in row {row} is {found!r:.40} instead "
            "of text; correct or remove the row."
        )

    def _open(self, split: str) -> Any:
        if split not in self._sets:
            try:
                opened = _open_shards(self._shards[split])
            except (ValueError, OSError) as error:
                raise DataError(
                    f"{self._root}, split {split}: can't be opened ({_short(error)}); make or "
                    "copy the set again."
                ) from error
            form = opened.features.get("translation") if opened.features else None
            found = list(form) if isinstance(form, dict) else getattr(form, "languages", [])
            missing = [language for language in self._languages if language not in found]
            if missing:
                columns = ", ".join(opened.features or {})
                raise DataError(
                    f"{self._root}, split {split}: expected a column 'translation' with "
                    f"{' and '.join(self._languages)}, but found the columns {columns} and the "
                    f"languages {', '.join(found) or 'none'}."
                )
            self._sets[split] = opened
        return self._sets[split]


def is_hugging_face(root: Path) -> bool:
    """Tell whether a folder was written by `datasets`, or holds Arrow or Parquet splits below."""
    return (
        (root / "dataset_dict.json").is_file()
        or (root / "state.json").is_file()
        or any(_SHARD.fullmatch(path.name) for path in root.rglob("*.*"))
    )


def _find_shards(root: Path, languages: tuple[str, str]) -> dict[str, list[Path]]:
    """Give the files of each split.

    Raises:
        DataError: nothing there, a single split, or several sets.
    """
    if (root / "state.json").is_file():
        raise DataError(f"{root} holds a single split of `datasets`, not train and test; {_HOW}.")
    if (root / "dataset_dict.json").is_file():
        saved = {split: sorted((root / split).glob("*.arrow")) for split in _SPLITS}
        return {split: paths for split, paths in saved.items() if paths}
    files = [path for path in sorted(root.rglob("*.*")) if _SHARD.fullmatch(path.name)]
    pairs = {"-".join(languages), "-".join(reversed(languages))}
    files = [path for path in files if pairs & set(path.relative_to(root).parts)] or files
    folders = sorted({str(path.parent) for path in files})
    if len(folders) != 1:
        found = f"sets in {', '.join(folders)}" if folders else "no Arrow or Parquet split"
        raise DataError(f"{root} has {found}; expected exactly one set: {_HOW}.")
    shards: dict[str, list[Path]] = {}
    for path in files:
        match = _SHARD.fullmatch(path.name)
        if match:
            shards.setdefault(match[1], []).append(path)
    return shards


def _open_shards(paths: list[Path]) -> Any:
    """Open the files of one split: Arrow memory-mapped, Parquet as a stream without a cache.

    Only classes that read local files are used: `load_dataset` would ask the hub, too.
    """
    from datasets import Dataset, IterableDataset, concatenate_datasets, load_from_disk

    if paths[0].suffix == ".parquet":
        return IterableDataset.from_parquet([str(path) for path in paths])
    if (paths[0].parent / "state.json").is_file():
        return load_from_disk(str(paths[0].parent))
    return concatenate_datasets([Dataset.from_file(str(path)) for path in paths])


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split("\n")).strip()


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:120]
