"""`attnbench predict`: the task's result file of a finished run, from its stored weights."""

from __future__ import annotations

from pathlib import Path

from ..results import write_atomically
from .finished import load_run
from .grid import Settings
from .runlog import away_from_the_terminal


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
        out: the file; default `predictions.SPLIT.json` or `.txt` in the run's folder, with the
            phase in its name where one is given.
        settings: stronger than the record's, e.g. where features lie or a beam width.

    Returns:
        The file and the number of items in it.

    Raises:
        UsageError, StoreError, ConfigError, DataError: as `load_run` does.
    """
    finished = load_run(run, root=root, phase=phase, settings=settings)
    with away_from_the_terminal(lambda line: None):
        said = finished.module.predictions(finished.data, split)
    name, text = said.file()
    parts = [Path(name).stem, split, *([phase] if phase and finished.earlier else [])]
    path = out or finished.folder / f"{'.'.join(parts)}{Path(name).suffix}"
    write_atomically(path, text.encode("utf-8", "replace"))
    return path, said.items
