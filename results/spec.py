"""What a table is to show: its rows, its metrics and the published numbers beside them."""

from dataclasses import dataclass, field

from .present import PresentSettings


@dataclass(frozen=True)
class MetricSpec:
    """One metric column.

    `name` is a key of `RunRecord.metrics`, or one of the record's fields parameters, macs and
    macs_executed. `published` is its name in published.csv, where it has one. The measured value
    is multiplied by `scale` (100 for a fraction shown in percent, 1e-9 for MACs shown as GFLOPs)
    and shown with `decimals`. `higher_is_better` None: no best value is marked.
    """

    name: str
    published: str | None = None
    label: str = ""
    decimals: int = 2
    scale: float = 1.0
    higher_is_better: bool | None = True
    meaning: str = ""

    @property
    def title(self) -> str:
        """The column's heading."""
        return self.label or self.name


@dataclass(frozen=True)
class RowSpec:
    """One row. `published` is the paper's label of it; `reference` rows are never run here.

    `published_split` is the data split of its published numbers, where it isn't the table's.
    With `present`, runs of other settings don't count: their seeds are to be run again.
    """

    row: str
    published: str | None = None
    reference: bool = False
    present: PresentSettings | None = None
    published_split: str | None = None


@dataclass(frozen=True)
class PublishedSource:
    """Where the published numbers of a table stand.

    `dataset` and `preset` name the run that they can be compared with; a table of any other run
    says under it that the difference isn't a measure of reproduction. `needs` are settings that
    such a run is given beside its preset, as a file of first weights.
    """

    paper: str
    table: str
    dataset_split: str
    dataset: str | None = None
    preset: str = "paper"
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """A whole table.

    `seeds` are the seeds that every row should have; empty: all that any row has. `commands` are
    the shell commands that make the table again, `data_source` the public address of the data.
    Without `rows`, every row that has a record is shown. `settings` are the `key=value` words
    given beside the grid's own that can change a result.
    """

    grid: str
    dataset: str
    preset: str
    metrics: tuple[MetricSpec, ...]
    rows: tuple[RowSpec, ...] = ()
    title: str = ""
    published: PublishedSource | None = None
    seeds: tuple[int, ...] = ()
    commands: tuple[str, ...] = field(default=())
    data_source: str = ""
    settings: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool | None:
        """Whether these runs are the published setting; None where nothing published is shown."""
        source = self.published
        if source is None:
            return None
        same_data = source.dataset in (None, self.dataset)
        return same_data and source.preset == self.preset and self.given == set(source.needs)

    @property
    def given(self) -> set[str]:
        """Names of the settings given beside the grid's own."""
        return {word.partition("=")[0] for word in self.settings}
