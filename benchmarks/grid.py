"""Grids: one YAML file for each published table or figure, or one of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from ..results import Published, PublishedTable
from .columns import column
from .errors import GridError, UsageError, nearest

GRIDS = Path(__file__).with_name("grids")
SHARED_PRESETS = GRIDS / "presets"

Settings = dict[str, Any]

_MOST_NODES = 100_000


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Section):
    """One row: the settings it has of its own, and its label in the paper's table.

    `published_split`: the split that the table's numbers of this row are of, where not the grid's.
    """

    row: str = Field(min_length=1)
    set: Settings = Field(default_factory=dict)
    published: str | None = None
    published_split: str | None = None
    reference: bool = False


class PublishedIn(_Section):
    """Where the paper's numbers stand, and which measured metric each of them is set beside.

    `needs` are settings that a run must be given beside the preset to be the published one.
    """

    paper: str
    table: str
    dataset_split: str
    metrics: dict[str, str] = Field(default_factory=dict)
    preset: str = "paper"
    needs: tuple[str, ...] = ()


class Grid(_Section):
    """A grid as its file has it.

    A cell's settings are, from weak to strong: the preset of the file `presets_from` (shared by
    the grids of a task), `base`, the grid's own preset, the row.
    """

    grid: str = Field(min_length=1)
    title: str = ""
    task: str
    published: PublishedIn | None = None
    default_dataset: str = "demo"
    metrics: tuple[str, ...] = ()
    base: Settings = Field(default_factory=dict)
    rows: tuple[Row, ...] = Field(min_length=1)
    presets_from: str | None = None
    presets: dict[str, Settings] = Field(default_factory=dict)

    _file: Path = PrivateAttr(default=Path())
    _shared: dict[str, Settings] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> Path:
        """The file it was read from."""
        return self._file

    @property
    def preset_names(self) -> list[str]:
        """Names of the presets, the shared ones first."""
        return list(dict.fromkeys([*self._shared, *self.presets]))

    @property
    def runnable(self) -> tuple[Row, ...]:
        """The rows that can be run: all but the paper's own reference rows."""
        return tuple(row for row in self.rows if not row.reference)

    def published_place(self, row: Row) -> tuple[str, str, str] | None:
        """Paper, table and split that the numbers of a row stand in."""
        source = self.published
        if source is None:
            return None
        return source.paper, source.table, row.published_split or source.dataset_split

    def sections(self, row: Row, preset: str) -> dict[str, Settings]:
        """The settings of one row by the place they stand in, from weak to strong."""
        if preset not in self.preset_names:
            known = ", ".join(self.preset_names)
            raise GridError(f"{self.file} has no preset {preset!r}; it has {known}")
        return {
            f"preset {preset} of {self.presets_from}.yaml": self._shared.get(preset, {}),
            "base": self.base,
            f"presets.{preset}": self.presets.get(preset, {}),
            f"row {row.row!r}": row.set,
        }

    def dataset(self, preset: str) -> str:
        """The data set of a preset, where none is chosen."""
        merged: Settings = {"dataset": self.default_dataset}
        for settings in self.sections(self.runnable[0], preset).values():
            merged |= settings
        return str(merged["dataset"])


def shipped_grids() -> dict[str, Path]:
    """The grids that come with the package: name -> file, sorted."""
    files = [path for path in GRIDS.rglob("*.yaml") if path.parent != SHARED_PRESETS]
    return {file.relative_to(GRIDS).with_suffix("").as_posix(): file for file in sorted(files)}


def find_grid(name: str) -> Path:
    """The file of a shipped grid, or `name` itself where that is a file. Raises GridError."""
    shipped = shipped_grids()
    if name in shipped:
        return shipped[name]
    path = Path(name)
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise GridError(f"can't read {name}: {(error.strerror or str(error)).lower()}") from None
    if path.suffix in (".yaml", ".yml"):
        raise GridError(f"there is no file {name}; give the path of a grid, or a name that "
                        "`attnbench list grids` shows")  # fmt: skip
    hint = nearest(name, shipped, otherwise="; `attnbench list grids` shows them all")
    raise GridError(f"no grid is called {name!r}{hint}")


def load_grid(name: str) -> Grid:
    """Read and check a grid by name or path.

    Raises:
        GridError: one sentence with the file and the key at fault. Settings are checked where the
            task that they belong to is known, in `cell.make_cells`.
    """
    file = find_grid(name)
    values = read_yaml(file)
    try:
        grid = Grid.model_validate(values)
    except ValidationError as error:
        raise GridError(f"{file}: {_first_problem(error, values)}") from None
    grid._file = file
    if grid.presets_from is not None:
        grid._shared = shared_presets(grid.presets_from, file)
    if not grid.preset_names:
        raise GridError(f"{file}: there is no preset; give presets or presets_from")
    _check_rows(grid)
    _check_metrics(grid)
    _check_published(grid)
    return grid


def choose_rows(grid: Grid, names: Sequence[str]) -> tuple[Row, ...]:
    """The rows called `names` in the grid's order; all that can be run where none is named.

    Raises UsageError.
    """
    by_name = {row.row: row for row in grid.runnable}
    for name in names:
        if name in by_name:
            continue
        if any(row.row == name for row in grid.rows):
            raise UsageError(
                f"row {name!r} of {grid.grid} is a number of the paper, nothing to run"
            )
        hint = nearest(name, by_name, otherwise=f"; it has {', '.join(by_name)}")
        raise UsageError(f"{grid.grid} has no row {name!r}{hint}")
    return tuple(row for row in grid.runnable if not names or row.row in names)


def shared_presets(name: str, wanted_by: Path | str) -> dict[str, Settings]:
    """The presets that the grids of a task share, by the name of their file."""
    known = {path.stem: path for path in sorted(SHARED_PRESETS.glob("*.yaml"))}
    if name not in known:
        hint = nearest(name, known, otherwise=f"; known are {', '.join(known)}")
        raise GridError(f"{wanted_by}: presets_from: no presets are called {name!r}{hint}")
    presets = read_yaml(known[name])
    for preset, settings in presets.items():
        if not isinstance(settings, dict):
            raise GridError(f"{known[name]}: {preset} must be settings, key: value")
    return presets


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping. Raises GridError, also where a key stands twice."""
    try:
        text = file.read_text(encoding="utf-8")
        _check_nodes(yaml.compose(text, Loader=yaml.SafeLoader), file)
        values = yaml.safe_load(text)
    except GridError:
        raise
    except OSError as error:
        raise GridError(f"can't read {file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise GridError(f"{file} isn't UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise GridError(f"{file} isn't YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise GridError(f"{file} is nested too deeply for a grid") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # what the constructors of numbers and dates raise
        raise GridError(f"{file} holds a number or date that isn't one: {error}") from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise GridError(f"{file} must hold keys such as grid:, task: and rows:")
    return values


def _check_nodes(root: yaml.Node | None, file: Path) -> None:
    """Refuse what YAML would load in silence, or never finish loading.

    Of two equal keys it keeps the last, so a row would lose a setting; and a few aliases of
    aliases stand for any number of values.
    """
    waiting = [root] if root is not None else []
    number = 0
    while waiting:
        node = waiting.pop()
        number += 1
        if number > _MOST_NODES:
            raise GridError(f"{file} holds more than {_MOST_NODES:,} values, counting what "
                            "its aliases stand for")  # fmt: skip
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys([key for key, _ in node.value], file)
            waiting += [value for _, value in node.value]


def _check_keys(keys: Sequence[yaml.Node], file: Path) -> None:
    seen: set[str] = set()
    for key in keys:
        place = f"{file}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise GridError(f"{place}: a key must be one word, not a list or a mapping")
        if key.value in seen:
            raise GridError(f"{place}: the key {key.value!r} stands twice; keep one")
        seen.add(key.value)


def _first_problem(error: ValidationError, values: Mapping[str, Any]) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    place, last = problem["loc"], str(problem["loc"][-1])
    words = ".".join(str(part) for part in place)
    if problem["type"] == "extra_forbidden":
        model = Row if place[0] == "rows" else PublishedIn if place[0] == "published" else Grid
        hint = nearest(last, model.model_fields, otherwise="; remove it")
        return f"the key {words} isn't known{hint}"
    if problem["type"] == "string_type":
        return f"{words} is {problem['input']!r}, not text; put it in quotes"
    if problem["type"] == "missing":
        return f"the key {words} is missing"
    return f"{words}: {problem['msg']}"


def _check_rows(grid: Grid) -> None:
    seen: set[str] = set()
    for row in grid.rows:
        if row.row in seen:
            raise GridError(f"{grid.file}: two rows are called {row.row!r}; rename one")
        seen.add(row.row)
    if not grid.runnable:
        raise GridError(f"{grid.file}: every row is a reference, so there is nothing to run")


def _check_metrics(grid: Grid) -> None:
    for name in grid.metrics:
        _check_metric(grid, "metrics", name)
    for name in grid.published.metrics if grid.published else ():
        _check_metric(grid, "published.metrics", name)


def _check_metric(grid: Grid, place: str, name: str) -> None:
    try:
        column(name)
    except UsageError as error:
        raise GridError(f"{grid.file}: {place}: {error}") from None


def _check_published(grid: Grid) -> None:
    """Every label that the grid names must stand in the table of published numbers."""
    source = grid.published
    if source is None:
        return
    tables = {(t.paper, t.table, t.dataset_split): t for t in Published.load().tables()}
    place = (source.paper, source.table, source.dataset_split)
    table = _table(tables, place, f"{grid.file}: published")
    for name in source.metrics.values():
        if name not in table.metrics:
            raise GridError(f"{grid.file}: published.metrics: that table has no {name!r}, it has "
                            f"{', '.join(table.metrics)}")  # fmt: skip
    for row in grid.rows:
        where = f"{grid.file}: row {row.row!r}"
        place = (source.paper, source.table, row.published_split or source.dataset_split)
        table = _table(tables, place, f"{where}: published_split")
        if row.published is not None and row.published not in table.rows:
            hint = nearest(row.published, table.rows)
            raise GridError(f"{where}: the published table has no row {row.published!r}{hint}")


def _table(
    tables: Mapping[tuple[str, str, str], PublishedTable], place: tuple[str, str, str], where: str
) -> PublishedTable:
    if place not in tables:
        known = ["/".join(key) for key in tables]
        hint = nearest("/".join(place), known, otherwise="")
        raise GridError(f"{where}: no numbers of {'/'.join(place)}{hint}")
    return tables[place]
