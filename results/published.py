"""The papers' own numbers, each with how sure its reading is."""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .errors import StoreError

FILE = Path(__file__).with_name("published.csv")

COLUMNS = ("paper", "table", "dataset_split", "row", "metric", "value", "confidence")

PAPERS = {
    "ngsan": "Normalized and Geometry-Aware Self-Attention Network for Image Captioning "
    "(Guo et al., CVPR 2020, arXiv 2003.08897)",
    "show_attend_tell": "Show, Attend and Tell (Xu et al., ICML 2015, arXiv 1502.03044)",
    "spatial_attention": "An Empirical Study of Spatial Attention Mechanisms in Deep Networks "
    "(Zhu et al., ICCV 2019, arXiv 1904.05873)",
    "mult": "Multimodal Transformer for Unaligned Multimodal Language Sequences "
    "(Tsai et al., ACL 2019, arXiv 1906.00295)",
}

MARKS = {"paper": "", "second_source": "†", "second_source_part": "‡", "recalled": "§"}

MARK_MEANINGS = {
    "second_source": "published value seen quoted elsewhere, not in the paper itself",
    "second_source_part": "published value of a row of which only some values were seen quoted",
    "recalled": "published value from memory, not confirmed",
}


@dataclass(frozen=True)
class PublishedValue:
    """A number of a paper. `confidence` is one of the keys of `MARKS`."""

    value: float
    confidence: str

    @property
    def mark(self) -> str:
        """The footnote sign that follows the value in a table; empty if read in the paper."""
        return MARKS[self.confidence]


@dataclass(frozen=True)
class PublishedTable:
    """One table of a paper on one data split: its row labels and metric names, in order."""

    paper: str
    table: str
    dataset_split: str
    rows: tuple[str, ...]
    metrics: tuple[str, ...]


Key = tuple[str, str, str, str, str]


class Published:
    """Look-ups in the papers' numbers. `Published.load()` reads the file that ships with us."""

    def __init__(self, values: dict[Key, PublishedValue]) -> None:
        self._values = values

    @classmethod
    def load(cls, path: Path = FILE) -> Self:
        """Read a CSV with the columns `COLUMNS`. Raises StoreError with the line at fault."""
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                if tuple(reader.fieldnames or ()) != COLUMNS:
                    raise StoreError(f"{path}: the columns must be {', '.join(COLUMNS)}")
                return cls(_read_values(path, reader))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"can't read the published numbers in {path}: {error}") from error

    def value(
        self, paper: str, table: str, dataset_split: str, row: str, metric: str
    ) -> PublishedValue | None:
        """The published number, or None where the paper (or our reading of it) has none."""
        return self._values.get((paper, table, dataset_split, row, metric))

    def row(
        self, paper: str, table: str, dataset_split: str, row: str
    ) -> dict[str, PublishedValue]:
        """All published numbers of one row, by metric name."""
        place = (paper, table, dataset_split, row)
        return {key[4]: value for key, value in self._values.items() if key[:4] == place}

    def tables(self) -> list[PublishedTable]:
        """Every (paper, table, data split), in the order of the file."""
        rows: dict[tuple[str, str, str], dict[str, None]] = {}
        metrics: dict[tuple[str, str, str], dict[str, None]] = {}
        for paper, table, split, row, metric in self._values:
            rows.setdefault((paper, table, split), {})[row] = None
            metrics.setdefault((paper, table, split), {})[metric] = None
        return [
            PublishedTable(*place, rows=tuple(rows[place]), metrics=tuple(metrics[place]))
            for place in rows
        ]


def _read_values(path: Path, reader: Iterable[dict[str, str]]) -> dict[Key, PublishedValue]:
    values: dict[Key, PublishedValue] = {}
    for line, fields in enumerate(reader, start=2):
        if None in fields or None in fields.values():
            raise StoreError(f"{path}, line {line}: expected {len(COLUMNS)} values")
        key = tuple(fields[column] for column in COLUMNS[:5])
        try:
            number = float(fields["value"])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise StoreError(f"{path}, line {line}: {fields['value']!r} isn't a number")
        if fields["confidence"] not in MARKS:
            raise StoreError(
                f"{path}, line {line}: unknown confidence {fields['confidence']!r}, "
                f"known are {', '.join(MARKS)}"
            )
        if key in values:
            raise StoreError(f"{path}, line {line}: a second value for {', '.join(key)}")
        values[key] = PublishedValue(number, fields["confidence"])  # type: ignore[index]
    return values
