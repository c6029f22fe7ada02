"""METEOR and SPICE: the refusals for real, and behind the marker the programs for real."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from attnbench.tasks.metrics.captions import caption_scores
from attnbench.tasks.metrics.captions.java import JavaUnavailableError, find_java, meteor, spice
from tests.shared import golden_dir

GIVEN = ["a dog runs on grass", "two cats sit on a mat"]
TRUTH = [[text] * 5 for text in GIVEN]


def test_without_java_the_scores_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    scores, signatures = caption_scores(GIVEN, TRUTH, java=True)
    assert scores["meteor"] is None and scores["spice"] is None
    assert signatures["meteor"] == signatures["spice"] == "no Java"
    assert scores["bleu4"] == pytest.approx(100)


def test_a_java_that_does_not_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnavailableError, match="no Java"):
        find_java()


def a_java(folder: Path, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called java on the path that has a version and then does something else."""
    java = folder / "java"
    java.write_text(f'#!/bin/sh\ncase "$1" in -version) exit 0;; esac\n{then}\n')
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_the_extra_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(tmp_path, "exit 0", monkeypatch)
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    for measure in (meteor, spice):
        with pytest.raises(JavaUnavailableError, match=r"install attnbench\[java-metrics\]"):
            measure(GIVEN, TRUTH)


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lay out a pycocoevalcap with empty files, so that refusals are tested without it too."""
    folder = tmp_path / "pycocoevalcap"
    for name in (
        "meteor/meteor-1.5.jar",
        "meteor/data/paraphrase-en.gz",
        "spice/spice-1.0.jar",
        "spice/lib/stanford-corenlp-3.6.0.jar",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for package in (folder, folder / "meteor", folder / "spice"):
        (package / "__init__.py").touch()
    real = forget_the_extra()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget_the_extra()
    sys.modules.update(real)


def forget_the_extra() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.split(".")[0] == "pycocoevalcap"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.mark.usefixtures("extra")
def test_a_missing_program_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path, "exit 0", monkeypatch)
    with pytest.raises(JavaUnavailableError, match=r"lacks stanford-corenlp-3\.6\.0-models\.jar"):
        spice(GIVEN, TRUTH)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("sleep 60", "not done within 1 s"),
        ("echo out of heap >&2; exit 1", "Java failed: out of heap"),
        ("cat > /dev/null", "not done within 1 s"),
        ("while read line; do echo; done", "Java failed: it gave no answer"),
    ],
)
def test_a_mute_or_failing_program_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: Path, then: str, said: str
) -> None:
    (extra / "spice/lib/stanford-corenlp-3.6.0-models.jar").touch()
    a_java(tmp_path, f"exec {then}" if then == "sleep 60" else then, monkeypatch)
    start = time.monotonic()
    with pytest.raises(JavaUnavailableError, match=said):
        meteor(GIVEN, TRUTH, limit_s=1)
    if "failed: out" in said or then == "sleep 60":
        with pytest.raises(JavaUnavailableError, match=said):
            spice(GIVEN, TRUTH, limit_s=1)
    assert time.monotonic() - start < 30


needs_tool = pytest.mark.java


@pytest.fixture
def tool() -> None:
    pytest.importorskip("pycocoevalcap", reason="needs the extra java-metrics")


@needs_tool
@pytest.mark.usefixtures("tool")
def test_meteor_equals_the_golden_values() -> None:
    files = sorted((golden_dir() / "metrics").glob("captions_*.json"))
    assert files
    for file in files:
        case = json.loads(file.read_text(encoding="utf-8"))
        ids = case["scores"]["METEOR"]["ids"]
        found = meteor(
            [case["hypotheses"][number] for number in ids],
            [case["references"][number] for number in ids],
        )
        assert found == pytest.approx(case["scores"]["METEOR"]["corpus"], abs=1e-6)


@needs_tool
@pytest.mark.usefixtures("tool")
def test_strings_that_break_the_protocol_do_not_hang_meteor() -> None:
    nasty = ["", "|||", "\n", " ||| a ||| ", "a\tb\r\nc", "a dog runs on grass"]
    truth = [["a dog runs on grass", "|||", "\n"]] * len(nasty)
    assert 0 < meteor(nasty, truth, limit_s=300) < 1


@needs_tool
@pytest.mark.usefixtures("tool")
def test_the_limit_ends_the_real_program() -> None:
    start = time.monotonic()
    with pytest.raises(JavaUnavailableError, match=r"not done within 0\.3 s"):
        meteor(GIVEN, TRUTH, limit_s=0.3)
    assert time.monotonic() - start < 60


@needs_tool
@pytest.mark.usefixtures("tool")
def test_spice_scores_or_says_why_not() -> None:
    try:
        assert spice(GIVEN, TRUTH, limit_s=600) == pytest.approx(1.0)
    except JavaUnavailableError as error:
        pytest.skip(str(error))
