"""The folder of run records: OUT/<grid>/<dataset>.<preset>/<row>/seed<k>/record.json."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar, get_args

from .atomic import exclusive, storage_errors, write_atomically
from .errors import StoreError
from .naming import slug
from .record import RunRecord

Only = Literal["missing", "failed", "all"]

RECORD_NAME = "record.json"
_LARGEST_RECORD = 64 * 2**20


class CellLike(Protocol):
    """What places a run in the store; a `RunRecord` is one, a grid's cell is another."""

    @property
    def grid(self) -> str:
        """Name of the grid, parts joined by `/`."""
        ...

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        ...

    @property
    def preset(self) -> str:
        """Name of the preset."""
        ...

    @property
    def row(self) -> str:
        """The row's label."""
        ...

    @property
    def seed(self) -> int:
        """Seed of this run."""
        ...

    @property
    def config_hash(self) -> str:
        """`config_hash` of the settings, seed left out."""
        ...


Item = TypeVar("Item")
Cell = TypeVar("Cell", bound=CellLike)


class Found(list[Item], Generic[Item]):
    """A list, and in `warnings` one sentence for everything that was passed over."""

    def __init__(self, items: Iterable[Item] = (), warnings: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.warnings = list(warnings)


class Store:
    """Reads and writes the records under one output folder. Safe with many processes at once."""

    def __init__(self, out: Path | str) -> None:
        self.out = Path(out)

    def folder(self, grid: str, dataset: str, preset: str, row: str, seed: int) -> Path:
        """The folder of one run: its record, and its checkpoints and logs beside it."""
        return self._grid_folder(grid, dataset, preset) / slug(row) / f"seed{seed}"

    def path(self, cell: CellLike) -> Path:
        """Where the record of `cell` lies or will lie."""
        folder = self.folder(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
        return folder / RECORD_NAME

    def write(self, record: RunRecord, *, replace: bool = False) -> Path:
        """Store `record` and return its path.

        A run that is done is never overwritten unless `replace`: that raises StoreError. Failed,
        diverged and refused runs make room for a newer one; a file that can't be read is set
        aside under another name. StoreError also where the disk is full or not writable.
        """
        path = self.path(record)
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(path.parent):
                self._make_room(path, record, replace)
                write_atomically(path, record.to_json())
        return path

    def read(self, grid: str, dataset: str, preset: str, row: str, seed: int) -> RunRecord | None:
        """One record, or None where there is none. StoreError where it can't be read."""
        path = self.folder(grid, dataset, preset, row, seed) / RECORD_NAME
        return self._load(path) if os.path.lexists(path) else None

    def records(
        self, grid: str | None = None, dataset: str | None = None, preset: str | None = None
    ) -> Found[RunRecord]:
        """The records of a grid, data set and preset (None: any), sorted by path.

        A file that is broken, foreign or in another run's folder is passed over and named in
        `.warnings`; nothing in the tree makes this fail.
        """
        found: Found[RunRecord] = Found()
        for path in self._record_paths(grid, dataset, preset, found.warnings):
            try:
                record = self._load(path)
            except StoreError as error:
                found.warnings.append(str(error))
                continue
            wanted = (grid, dataset, preset)
            own = (record.grid, record.dataset, record.preset)
            if all(want in (None, have) for want, have in zip(wanted, own, strict=True)):
                found.append(record)
        return found

    def wanted(self, cells: Iterable[Cell], only: Only = "missing") -> Found[Cell]:
        """The cells that are to be run, in order.

        missing: no record, or none that can be read, or one that failed with other settings or
        was refused and isn't now (`cell.refusal`). failed: failed or diverged. all: every cell.
        `.warnings` names runs that are done with other settings; they are left as they are.
        """
        if only not in get_args(Only):
            raise ValueError(f"only is missing, failed or all, not {only!r}")
        chosen: Found[Cell] = Found()
        for cell in cells:
            try:
                record = self.read(cell.grid, cell.dataset, cell.preset, cell.row, cell.seed)
            except StoreError as error:
                chosen.warnings.append(str(error))
                record = None
            if only == "all" or _selects(only, cell, record):
                chosen.append(cell)
            elif record and record.status == "done" and record.config_hash != cell.config_hash:
                chosen.warnings.append(
                    f"row {cell.row} seed {cell.seed} is done with other settings "
                    f"({record.config_hash}, now {cell.config_hash}) and was left as it is; "
                    "--only all runs it again, another --out keeps both"
                )
        return chosen

    def _grid_folder(self, grid: str, dataset: str, preset: str) -> Path:
        parts = [slug(part) for part in grid.split("/")]
        return self.out.joinpath(*parts, f"{slug(dataset)}.{slug(preset, dots=False)}")

    def _record_paths(
        self, grid: str | None, dataset: str | None, preset: str | None, warnings: list[str]
    ) -> Iterator[Path]:
        def passed_over(error: OSError) -> None:
            if os.path.lexists(top):
                warnings.append(f"{error.filename} was passed over: {error.strerror}")

        top = self.out
        if grid and dataset and preset:
            top = self._grid_folder(grid, dataset, preset)
        elif grid:
            top = top.joinpath(*(slug(part) for part in grid.split("/")))
        for folder, subfolders, files in os.walk(top, onerror=passed_over):
            subfolders.sort()
            if RECORD_NAME in files:
                yield Path(folder, RECORD_NAME)

    def _load(self, path: Path) -> RunRecord:
        """The record at `path`, which must be the run that belongs there."""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise StoreError("it isn't a regular file")
            if status.st_size > _LARGEST_RECORD:
                raise StoreError(f"it has {status.st_size} bytes, too many for a record")
            record = RunRecord.from_json(path.read_bytes())
        except StoreError as error:
            raise StoreError(f"{path} was passed over: {error}") from None
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise StoreError(f"{path} was passed over: {cause}") from error
        if self.path(record) != path:
            raise StoreError(
                f"{path} was passed over: it is the record of {record.grid}, "
                f"{record.dataset}.{record.preset}, row {record.row}, seed {record.seed}, "
                "which belongs in another folder"
            )
        return record

    def _make_room(self, path: Path, record: RunRecord, replace: bool) -> None:
        """Refuse to overwrite a run that is done; set aside what isn't a readable record."""
        if not os.path.lexists(path):
            return
        try:
            old = self._load(path)
        except StoreError:
            aside = path.with_name(f"record.unreadable-{secrets.token_hex(4)}.json")
            os.replace(path, aside)
            return
        if old.status == "done" and not replace:
            raise StoreError(
                f"row {record.row} seed {record.seed} is done already and {path} was kept; "
                "use --only all to run it again"
            )


def _selects(only: Only, cell: CellLike, record: RunRecord | None) -> bool:
    """Whether `cell`, whose record is `record`, is wanted under missing or failed."""
    if only == "failed":
        return record is not None and record.status in ("failed", "diverged")
    if record is None:
        return True
    if record.status == "done":
        return False
    if record.status == "refused" and not getattr(cell, "refusal", None):
        return True
    return record.config_hash != cell.config_hash
