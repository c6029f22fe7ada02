"""What every data card has: the facts, tables and remarks that describe a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


def counted(counts: Mapping[str, Mapping[str, int]], what: str = "") -> list[str]:
    """Say how many items of each split there are by reason: `train: 3 {what}reason`."""
    return [
        f"{split}: {number:,} {what}{reason}"
        for split, reasons in counts.items()
        for reason, number in reasons.items()
    ]


class Card(BaseModel):
    """All that must be equal for two results to be comparable, and what explains the rest.

    Attributes:
        dataset: name of the data set.
        title: what it is.
        format: layout found on disk.
        files: hashes, by what they are made from.
        notes: remarks and counted warnings.
    """

    model_config = ConfigDict(extra="forbid")

    dataset: str
    title: str
    format: str
    files: dict[str, str]
    notes: list[str]

    def facts(self) -> Mapping[str, str]:
        """What to say below name and format, by heading."""
        return {}

    def tables(self) -> Sequence[Table]:
        """Tables of splits and whatever else is counted."""
        return ()

    def changes(self) -> Sequence[str]:
        """A sentence for each kind of item that was left out or changed."""
        return ()

    def __rich__(self) -> Group:
        """Render for `rich.print`."""
        top = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        names = {"data set": f"{self.dataset}: {self.title}", "format": self.format}
        for name, value in {**names, **self.facts()}.items():
            top.add_row(Text(name, style="bold"), Text(value))
        hashes = [f"sha256 {digest}  {name}" for name, digest in self.files.items()]
        return Group(top, *self.tables(), *map(Text, [*self.changes(), *self.notes, *hashes]))

    def render(self, width: int = 100) -> str:
        """Render as plain text."""
        console = Console(width=width, no_color=True, force_terminal=False, legacy_windows=False)
        with console.capture() as capture:
            console.print(self)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
