"""A fairseq-preprocessed folder of Multi30k, and fairseq's commands in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...datamodules.translation import TranslationData
from ...datamodules.translation_config import TranslationDataConfig
from ..errors import UsageError

SPLITS = {"train": "train", "valid": "val", "test": "test"}
"""fairseq's name of a split: ours."""
LANGUAGES = ("en", "de")


def need_fairseq() -> None:
    """Refuse where the extra is missing.

    Raises:
        UsageError: fairseq can't be imported.
    """
    if importlib.util.find_spec("fairseq") is None:
        raise UsageError(
            "this benchmark compares with fairseq, which is not installed: "
            "run `make fairseq` or pip install 'attnbench[fairseq]'"
        )


@contextmanager
def scratch_folder(path: Path | None) -> Iterator[Path]:
    """The folder for what is prepared: kept if named, else a temporary one."""
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
        yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="attnbench-speed-") as folder:
        yield Path(folder)


def binarised(root: Path | None, scratch: Path, vocabulary_size: int) -> Path:
    """The folder that ``fairseq-preprocess`` makes of Multi30k; an earlier one is used again.

    The text is cut into subwords by our own learned BPE, so that both sides see equal pieces.

    Raises:
        UsageError: no root given, or ``fairseq-preprocess`` failed.
        DataError: the root can't be read.
    """
    if root is None:
        raise UsageError(
            "--root is missing: give a folder with Multi30k's train.en, train.de, val.en, val.de, "
            "test_2016_flickr.en and test_2016_flickr.de (plain or .gz; "
            "from https://github.com/multi30k/dataset)"
        )
    done = scratch / f"multi30k.{vocabulary_size}"
    if done.is_dir():
        return done
    work = Path(tempfile.mkdtemp(dir=scratch, prefix="making-"))
    try:
        config = TranslationDataConfig.model_validate(
            {"dataset": "multi30k", "root": root, "vocabulary_size": vocabulary_size}
        )
        _write_pieces(TranslationData(config), work)
        prefixes = [f"--{split}pref={work / split}" for split in SPLITS]
        languages = [f"--source-lang={LANGUAGES[0]}", f"--target-lang={LANGUAGES[1]}"]
        run_fairseq(
            "preprocess",
            [*languages, *prefixes, "--joined-dictionary", f"--destdir={work / 'bin'}"],
        )
        os.replace(work / "bin", done)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return done


def _write_pieces(data: TranslationData, folder: Path) -> None:
    """Write the splits as text, subwords separated by spaces."""
    symbols = data.vocabulary
    for theirs, ours in SPLITS.items():
        encoded = data.encoded(ours)
        for language, store in zip(LANGUAGES, (encoded.source, encoded.target), strict=True):
            lines = (" ".join(symbols.pieces(store[row].tolist())) for row in range(len(store)))
            (folder / f"{theirs}.{language}").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )


def environment_with(threads: int) -> dict[str, str]:
    """This process's environment, with that many threads for the libraries."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONUNBUFFERED": "1"}


@contextmanager
def fairseq_process(
    command: str, arguments: Sequence[str], threads: int
) -> Iterator[subprocess.Popen[str]]:
    """``fairseq-<command>`` as a process, its output (both streams) as text."""
    line = [sys.executable, "-W", "ignore", "-m", f"fairseq_cli.{command}", *arguments]
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment_with(threads),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def run_fairseq(command: str, arguments: Sequence[str], threads: int = 1) -> list[str]:
    """Run a fairseq command to its end; the lines it wrote.

    Raises:
        UsageError: it failed; the sentence holds its last line.
    """
    with fairseq_process(command, arguments, threads) as process:
        assert process.stdout is not None
        lines = [line.rstrip("\n") for line in process.stdout]
        code = process.wait()
    check_exit(command, code, lines)
    return lines


def check_exit(command: str, code: int, lines: Sequence[str]) -> None:
    """Turn a failure of fairseq into one sentence.

    Raises:
        UsageError: the exit code is not 0.
    """
    if code:
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        raise UsageError(f"fairseq-{command} failed with exit code {code}; it said: {said}")
