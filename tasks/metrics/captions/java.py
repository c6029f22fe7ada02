"""METEOR and SPICE by their Java programs, which the extra ``java-metrics`` brings.

Nothing is downloaded: what isn't there is a reason, which tables show. Each program runs as a
process of its own that is ended when its time is up.
"""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

LIMIT_S = 1800.0

NO_JAVA = "no Java"
NO_PACKAGE = "pycocoevalcap isn't installed; install attnbench[java-metrics]"

_METEOR = ("meteor-1.5.jar", "data/paraphrase-en.gz")
_SPICE = (
    "spice-1.0.jar", "lib/stanford-corenlp-3.6.0.jar", "lib/stanford-corenlp-3.6.0-models.jar"
)  # fmt: skip


class JavaUnavailableError(Exception):
    """Java, a program of the extra, or its answer isn't there; the message is the reason."""


def meteor(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], limit_s: float = LIMIT_S
) -> float:
    """METEOR 1.5 of the whole set, 0 to 1 (Denkowski and Lavie, 2014).

    Args:
        hypotheses, references: tokenised captions, tokens joined by spaces.
        limit_s: seconds after which the program is ended.

    Raises:
        JavaUnavailableError: with the reason.
    """
    java, folder = find_java(), _folder("meteor", _METEOR)
    command = [java, "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", _METEOR[0], "-", "-", "-stdio"]
    ended = threading.Event()
    with tempfile.TemporaryFile() as errors:
        try:
            with subprocess.Popen(
                [*command, "-l", "en", "-norm"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
            ) as process:
                timer = threading.Timer(limit_s, lambda: (ended.set(), process.kill()))
                timer.start()
                try:
                    return _converse(process, hypotheses, references)
                finally:
                    timer.cancel()
                    process.kill()
        except (OSError, ValueError):
            reason = _late(limit_s) if ended.is_set() else _failure(errors)
            raise JavaUnavailableError(reason) from None


def _converse(
    process: subprocess.Popen[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Ask for the statistics of each image, then for the score of all; ValueError if it's mute."""
    asked, answered = process.stdin, process.stdout
    assert asked is not None and answered is not None

    def ask(*parts: str) -> None:
        asked.write(" ||| ".join(parts) + "\n")
        asked.flush()

    statistics = []
    for hypothesis, captions in zip(hypotheses, references, strict=True):
        ask("SCORE", *map(_one_field, captions), _one_field(hypothesis))
        statistics.append(_answer(answered))
    ask("EVAL", *statistics)
    for _ in statistics:
        _answer(answered)
    return float(_answer(answered))


def _answer(stream: IO[str]) -> str:
    line = stream.readline().strip()
    if not line:
        raise ValueError("no answer")
    return line


def _one_field(text: str) -> str:
    """Text without what separates fields and lines."""
    return " ".join(text.replace("|||", " ").split())


def spice(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], limit_s: float = LIMIT_S
) -> float:
    """SPICE 1.0 of the whole set, 0 to 1 (Anderson et al., 2016): the mean F score.

    An image for which it isn't defined (no proposition on either side) is left out of the mean.
    Arguments and errors as for `meteor`.
    """
    java, folder = find_java(), _folder("spice", _SPICE)
    with tempfile.TemporaryDirectory() as name:
        given, found = Path(name, "in.json"), Path(name, "out.json")
        rows = [
            {"image_id": number, "test": _one_field(hypothesis), "refs": [*map(_one_field, refs)]}
            for number, (hypothesis, refs) in enumerate(zip(hypotheses, references, strict=True))
        ]
        given.write_text(json.dumps(rows), encoding="utf-8")
        command = [java, "-Dfile.encoding=UTF-8", "-Xmx8G", "-jar", _SPICE[0], str(given)]
        with Path(name, "errors").open("w+b") as errors:
            try:
                subprocess.run(
                    [*command, "-out", str(found), "-silent"],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    timeout=limit_s,
                    check=True,
                )
                scores = [
                    float(row["scores"]["All"]["f"])
                    for row in json.loads(found.read_text(encoding="utf-8"))
                ]
            except subprocess.TimeoutExpired:
                raise JavaUnavailableError(_late(limit_s)) from None
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError, TypeError):
                raise JavaUnavailableError(_failure(errors)) from None
    defined = [score for score in scores if not math.isnan(score)]
    if not defined:
        raise JavaUnavailableError("SPICE is defined for no image")
    return sum(defined) / len(defined)


def find_java() -> str:
    """The path of a Java that runs. Raises JavaUnavailableError with ``no Java``."""
    java = shutil.which("java")
    if java is None:
        raise JavaUnavailableError(NO_JAVA)
    try:
        subprocess.run([java, "-version"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        raise JavaUnavailableError(f"{NO_JAVA} (java -version fails)") from None
    return java


def _folder(name: str, needed: Sequence[str]) -> Path:
    """Where the extra has the program's files."""
    try:
        package = importlib.util.find_spec(f"pycocoevalcap.{name}")
    except ImportError:
        package = None
    places = list(package.submodule_search_locations or []) if package else []
    if not places:
        raise JavaUnavailableError(NO_PACKAGE)
    folder = Path(places[0])
    missing = [file for file in needed if not (folder / file).is_file()]
    if missing:
        raise JavaUnavailableError(f"pycocoevalcap lacks {Path(missing[0]).name}")
    return folder


def _late(limit_s: float) -> str:
    return f"not done within {limit_s:g} s"


def _failure(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in lines if line.strip()), "it gave no answer")
    return f"Java failed: {said[:200]}"
