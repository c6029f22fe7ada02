"""`attnbench doctor` names every extra, there or not, and Java."""

import importlib.util
import json
import stat
import tomllib
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from tests.test_architecture import ROOT


def findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    assert main(["doctor", "--out", str(tmp_path), "--json"]) == 0
    return {each["subject"]: each for each in json.loads(capsys.readouterr().out)}


def test_every_extra_is_there_or_said_how_to_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for name in project["optional-dependencies"] if name != "dev"]
    found = findings(tmp_path, capsys)
    for extra in extras:
        finding = found[f"extra {extra}"]
        missing = finding["text"].endswith(f"pip install 'attnbench[{extra}]'")
        assert finding["level"] == ("note" if missing else "ok")
    assert found["extra draw"]["text"].startswith("matplotlib 3.")

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name in ("timm", "matplotlib") else real(name, *more),
    )
    found = findings(tmp_path, capsys)
    assert found["extra features"]["text"].startswith("lacks timm, only for features from raw")
    assert found["extra draw"]["text"] == (
        "not installed, only for attnbench draw: pip install 'attnbench[draw]'"
    )


def test_java_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    java = findings(tmp_path, capsys)["Java"]
    assert (java["level"], java["text"][:10]) == ("note", "none found")
    for body, level, said in (
        ("echo 'openjdk version \"21\"' >&2", "ok", 'openjdk version "21"'),
        ("exit 1", "note", "-version fails"),
    ):
        program = tools / "java"
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        java = findings(tmp_path, capsys)["Java"]
        assert java["level"] == level and said in java["text"]
