"""Which items train, which validate and which test; whole videos held out where that is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import DataError
from .sentiment_config import HELD_OUT, SentimentDataConfig
from .sentiment_store import SentimentStore, StoredPart

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Split:
    """Items of one part of the files.

    Attributes:
        part: name of the part.
        rows: which of its items, in its order.
    """

    part: str
    rows: np.ndarray


@dataclass(frozen=True)
class Splits:
    """Who does what.

    Attributes:
        found: of ``train``, ``val`` and ``test`` those that there are.
        parts: part of the files that each is cut from, there or not.
        notes: what is worth saying about them.
    """

    found: dict[str, Split]
    parts: dict[str, str]
    notes: list[str]

    def of(self, name: str, where: Path) -> Split:
        """Look a split up.

        Raises:
            DataError: unknown, or the files don't have its part.
        """
        if name not in self.parts:
            raise DataError(f"There is no split {name!r}; there are {', '.join(SPLITS)}.")
        if name not in self.found:
            there = sorted({split.part for split in self.found.values()}, key=SPLITS.index)
            raise DataError(
                f"{where} has no part {self.parts[name]}, which {name} needs (only "
                f"{', '.join(there) or 'others'}); add its file, or choose parts with train_part, "
                "val_part and test_part."
            )
        return self.found[name]


def make_splits(config: SentimentDataConfig, store: SentimentStore) -> Splits:
    """Give each split its items, up to the configured numbers.

    Raises:
        DataError: a part in two roles, items that occur in two splits, or too few videos to hold
            some out.
    """
    held_out, notes = _validation(config, store)
    parts: dict[str, str] = {
        "train": config.train_part,
        "val": config.train_part if held_out else config.val_part,
        "test": config.test_part,
    }
    _check_roles(parts, held_out)
    rows = {name: np.arange(len(part)) for name, part in store.parts.items()}
    found: dict[str, Split] = {}
    if config.train_part in store.parts:
        train = rows[config.train_part]
        if held_out:
            kept, val = hold_out(config, store.parts[config.train_part])
            found["train"], found["val"] = (Split(config.train_part, some) for some in (kept, val))
            notes.append(_held_out_note(config, store.parts[config.train_part], val))
        else:
            found["train"] = Split(config.train_part, train)
    if not held_out and config.val_part in store.parts:
        found["val"] = Split(config.val_part, rows[config.val_part])
    if config.test_part in store.parts:
        found["test"] = Split(config.test_part, rows[config.test_part])
    notes += [*_check_items(store, found), *_shared_videos(store, found)]
    limits = {"train": config.train_items, "val": config.eval_items, "test": config.eval_items}
    cut = {name: Split(s.part, s.rows[: limits[name]]) for name, s in found.items()}
    return Splits({name: cut[name] for name in SPLITS if name in cut}, parts, notes)


def hold_out(config: SentimentDataConfig, part: StoredPart) -> tuple[np.ndarray, np.ndarray]:
    """Cut a part into training and held-out items, by whole videos drawn with ``split_seed``.

    Raises:
        DataError: fewer than two videos.
    """
    groups = sorted(set(part.groups))
    if len(groups) < 2:
        raise DataError(
            f"Part {config.train_part} has one video only, so none can be held out for validation; "
            "set val_part to a part of the files."
        )
    number = min(max(1, round(config.hold_out * len(groups))), len(groups) - 1)
    drawn = np.random.default_rng(config.split_seed).permutation(len(groups))[:number]
    chosen = {groups[place] for place in drawn}
    held_N = np.array([group in chosen for group in part.groups])
    return np.flatnonzero(~held_N), np.flatnonzero(held_N)


def _validation(config: SentimentDataConfig, store: SentimentStore) -> tuple[bool, list[str]]:
    """Tell whether validation is held out, and why where nobody asked for it."""
    if config.val_part == HELD_OUT:
        return True, []
    if config.val_part == "val" and "val" not in store.parts:
        return True, ["the files have no part val: some of the training videos are held out for it"]
    return False, []


def _check_roles(parts: dict[str, str], held_out: bool) -> None:
    for name, other in (("train", "test"), ("train", "val"), ("val", "test")):
        if parts[name] == parts[other] and not (held_out and "val" in (name, other)):
            way_out = ", or val_part=held-out" * ("val" in (name, other))
            raise DataError(
                f"{name}_part and {other}_part are both {parts[name]}, so its items would have two "
                f"roles; choose different parts{way_out}."
            )


def _check_items(store: SentimentStore, found: dict[str, Split]) -> list[str]:
    """Refuse an item that two splits have; the same name for different items is only told."""
    seen: dict[str, tuple[str, StoredPart, int]] = {}
    again = 0
    for name, split in found.items():
        part = store.parts[split.part]
        for row in split.rows.tolist():
            other, other_part, other_row = seen.setdefault(part.ids[row], (name, part, row))
            if other == name:
                continue
            if _equal(part, row, other_part, other_row):
                raise DataError(
                    f"Item {part.ids[row]} is in {other} and in {name}; remove it from one of the "
                    "files, or choose other parts."
                )
            again += 1
    return [f"{again:,} ids are in several splits, for different items"] * bool(again)


def _equal(one: StoredPart, row: int, other: StoredPart, other_row: int) -> bool:
    pairs = ((one.streams[m].of(row), other.streams[m].of(other_row)) for m in one.streams)
    return all(np.array_equal(first, second) for first, second in pairs)


def _shared_videos(store: SentimentStore, found: dict[str, Split]) -> list[str]:
    groups = {
        name: {store.parts[split.part].groups[row] for row in split.rows}
        for name, split in found.items()
    }
    shared = {
        other: len(groups["train"] & groups[other])
        for other in ("val", "test")
        if "train" in groups and other in groups
    }
    return [
        f"{number:,} videos have items in train and in {other}, as the files have it"
        for other, number in shared.items()
        if number
    ]


def _held_out_note(config: SentimentDataConfig, part: StoredPart, val: np.ndarray) -> str:
    videos = len({part.groups[row] for row in val})
    return (
        f"val: {len(val):,} items of {videos:,} videos (of {len(set(part.groups)):,}) held out of "
        f"part {config.train_part}, split_seed {config.split_seed}"
    )
