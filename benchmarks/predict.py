"""`attnbench predict`: the task's result file, or files, of a finished run from its weights."""

from __future__ import annotations

from pathlib import Path

from ..results import write_atomically
from .finished import FinishedRun, load_run
from .folders import check_folder, write_folder
from .grid import Settings
from .runlog import away_from_the_terminal
from .training import device_of


def write_predictions(
    run: Path,
    *,
    split: str = "test",
    root: Path | None = None,
    phase: str | None = None,
    out: Path | None = None,
    settings: Settings | None = None,
) -> tuple[Path, int]:
    """Let a finished run's model speak about a split; nothing is trained.

    Args:
        run: the run's folder, or its record.
        split: of the run's data set.
        root: folder of the data set.
        phase: take the weights of this earlier phase of training.
        out: the file or folder; default `predictions.SPLIT.json` or `.txt` in the run's folder, or
            the folder `predictions.SPLIT` where the task has one file an item, with the phase in
            its name where one is given. An existing folder is replaced if it holds nothing else
            than files of these names.
        settings: stronger than the record's, e.g. where features lie or a beam width.

    Returns:
        The file or folder and the number of items in it.

    Raises:
        UsageError, StoreError, ConfigError, DataError: as `load_run` does; UsageError also where
            something else lies at `out`.
    """
    finished = load_run(run, root=root, phase=phase, settings=settings)
    finished.module.to(device_of(finished.module.config))
    mark = ".".join([split, *([phase] if phase and finished.earlier else [])])
    with away_from_the_terminal(lambda line: None):
        files = finished.module.prediction_files(finished.data, split)
        if files is None:
            return _write_file(finished, split, out, mark)
        path = out or finished.folder / f"predictions.{mark}"
        check_folder(path, files.names)  # before the work
        return path, write_folder(path, zip(files.names, files.contents, strict=True))


def _write_file(finished: FinishedRun, split: str, out: Path | None, mark: str) -> tuple[Path, int]:
    said = finished.module.predictions(finished.data, split)
    name, text = said.file()
    path = out or finished.folder / f"{Path(name).stem}.{mark}{Path(name).suffix}"
    write_atomically(path, text.encode("utf-8", "replace"))
    return path, said.items
