"""Parallel text: one file a language and split, one sentence a line, plain or gzip.

File names are read as ``SPLIT[.VARIANT…][.SRC-TGT].LANGUAGE[.gz]``: ``train.en``, ``val.de.gz``,
``test_2016_flickr.en.gz``, ``newstest2014.tok.de``, ``train.tok.clean.bpe.32000.en``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from .errors import DataError
from .files import read_lines

_TRAINING = re.compile(r"train\w*", re.ASCII)
_VALIDATION = re.compile(r"(val|valid|validation|dev)([_\d]\w*)?", re.ASCII)
_TEST = re.compile(r"(test|newstest|newsdev)\w*", re.ASCII)
_LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Za-z]+)?")
_OTHER_ENDS = {"bin", "csv", "idx", "npy", "npz", "pt", "sgm", "tar", "tsv", "txt", "xml", "zip"}
_PAIR = re.compile(r"[a-z]{2,3}-[a-z]{2,3}")
_VALIDATION_NAMES = ("val", "valid", "dev", "validation", "newstest2013")

Variant = tuple[str, ...]


class ParallelText:
    """A folder of aligned text files.

    Args:
        root: the folder.
        languages: source and target language, as the files end.
        validation: preferred name of the validation split, if it is there.
        test: preferred name of the test split, if it is there.
        variant: which files to take where a split is there in several forms, such as
            ``tok.clean``; by default the most processed training text, and the forms of the other
            splits that are closest to it.

    Raises:
        DataError: no such folder, no file of a language, or half of a training or validation pair.
    """

    format = "parallel text"

    def __init__(
        self,
        root: Path,
        languages: tuple[str, str],
        *,
        validation: str = "val",
        test: str = "test",
        variant: str | None = None,
    ) -> None:
        self._root = root
        self._languages = languages
        self._aligned: set[str] = set()
        self.notes: list[str] = []
        found = _list_files(root, languages)
        complete = self._complete(found)
        self.training = self._training([name for name in complete if _TRAINING.fullmatch(name)])
        order = (validation, *_VALIDATION_NAMES, *(n for n in complete if _VALIDATION.fullmatch(n)))
        self.validation = next((name for name in order if name in complete), None)
        self.tests = sorted(
            (n for n in complete if _TEST.fullmatch(n) and n != self.validation),
            key=lambda name: (name != test, name != "test", name),
        )
        self._paths = self._choose(complete, variant)

    def files(self, split: str) -> list[Path]:
        """Give the source and the target file of a split."""
        return list(self._paths[split])

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a split in file order.

        Raises:
            DataError: files of different length, and everything that `read_lines` refuses.
        """
        source, target = self._paths[split]
        self._check_aligned(split)
        yield from zip(read_lines(source), read_lines(target), strict=True)

    def _check_aligned(self, split: str) -> None:
        """Count first: a shift must be noticed even where only the first lines are used."""
        if split in self._aligned:
            return
        counts = [0, 0]
        paths = self._paths[split]
        for lines in zip_longest(*(read_lines(path) for path in paths)):
            for side in (0, 1):
                counts[side] += lines[side] is not None
        if counts[0] != counts[1]:
            raise DataError(
                f"{paths[0]} has {counts[0]} lines but {paths[1].name} has {counts[1]}; "
                "line n of both must be the same sentence."
            )
        self._aligned.add(split)

    def _complete(
        self, found: dict[tuple[str, Variant], dict[str, Path]]
    ) -> dict[str, dict[Variant, tuple[Path, Path]]]:
        """Keep what is there in both languages; half a training or validation split is refused."""
        source, target = self._languages
        complete: dict[str, dict[Variant, tuple[Path, Path]]] = {}
        for (name, variant), sides in found.items():
            if source in sides and target in sides:
                complete.setdefault(name, {})[variant] = (sides[source], sides[target])
        for (name, _), sides in found.items():
            if name in complete:
                continue
            here = next(iter(sides.values()))
            missing = target if source in sides else source
            half = f"{here.name} has no partner in language {missing!r}"
            if not _TEST.fullmatch(name):
                raise DataError(f"{self._root}: {half}; both files of a split must be there.")
            self.notes.append(f"{half} and is left aside")
        return complete

    def _training(self, names: list[str]) -> str | None:
        if len(names) > 1 and "train" not in names:
            raise DataError(
                f"{self._root} holds several training sets ({', '.join(sorted(names))}); keep one "
                "of them, or call one 'train'."
            )
        others = sorted(name for name in names if name != "train") if len(names) > 1 else []
        if others:
            self.notes.append(f"training sets left aside: {', '.join(others)}")
        return "train" if "train" in names else next(iter(names), None)

    def _choose(
        self, complete: dict[str, dict[Variant, tuple[Path, Path]]], variant: str | None
    ) -> dict[str, tuple[Path, Path]]:
        """Pick one form of each split: the training text's, or the one most like it."""
        wanted: Variant = tuple(variant.split(".")) if variant else ()
        if variant is None and self.training is not None:
            wanted = max(complete[self.training], key=lambda form: (len(form), form))
        if variant is not None and self.training and wanted not in complete[self.training]:
            forms = ", ".join(sorted(map(_name, complete[self.training])))
            raise DataError(
                f"{self._root} has no training text of the variant {variant!r}; found: {forms}."
            )
        chosen: dict[str, tuple[Path, Path]] = {}
        for name, forms in complete.items():
            best = max(forms, key=lambda form: (_likeness(form, wanted), form))
            chosen[name] = forms[best]
            if len(forms) > 1 and name in (self.training, self.validation, *self.tests):
                others = ", ".join(sorted(_name(form) for form in forms if form != best))
                self.notes.append(f"{name}: {_name(best)} is read, not {others}")
        return chosen


def holds_text(root: Path) -> bool:
    """Tell whether a folder has files that are named as splits of parallel text."""
    return any(_parse(path.name) for path in root.iterdir())


def _parse(file_name: str) -> tuple[str, Variant, str] | None:
    """Split a file name into split, variant and language; None if it is none of ours."""
    *stem, language = file_name.removesuffix(".gz").split(".")
    stem = [part for part in stem if not _PAIR.fullmatch(part)]
    if not stem or language in _OTHER_ENDS or not _LANGUAGE.fullmatch(language):
        return None
    if not any(kind.fullmatch(stem[0]) for kind in (_TRAINING, _VALIDATION, _TEST)):
        return None
    return stem[0], tuple(stem[1:]), language


def _name(variant: Variant) -> str:
    return ".".join(variant) or "plain"


def _likeness(form: Variant, wanted: Variant) -> int:
    return len(set(form) & set(wanted)) - len(set(form) - set(wanted))


def _list_files(
    root: Path, languages: tuple[str, str]
) -> dict[tuple[str, Variant], dict[str, Path]]:
    """Sort the files of a folder by split, variant and language.

    Raises:
        DataError: no folder, or no file of one of the languages.
    """
    if not root.is_dir():
        raise DataError(
            f"{root} is not a folder; expected one with files such as train.{languages[0]} and "
            f"train.{languages[1]}."
        )
    found: dict[tuple[str, Variant], dict[str, Path]] = {}
    seen: set[str] = set()
    for path in sorted(root.iterdir()):
        parsed = _parse(path.name)
        if parsed is None or not path.is_file():
            continue
        name, variant, language = parsed
        seen.add(language)
        if language in languages:
            # Sorted order puts train.en before train.en.gz: the plain file is taken.
            found.setdefault((name, variant), {}).setdefault(language, path)
    for language in languages:
        if language not in seen:
            raise DataError(
                f"{root} has no text in language {language!r} (files such as train.{language}); "
                f"languages found: {', '.join(sorted(seen)) or 'none'}."
            )
    return found
