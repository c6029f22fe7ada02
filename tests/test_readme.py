"""The README's commands are found, marked and run as tests/run_readme.py promises."""

import re
import shlex
from pathlib import Path

import pytest

from tests.run_readme import ROOT, Block, ReadmeError, blocks, main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def fenced(info: str, body: str) -> str:
    return f"Text\n\n```{info}\n{body}\n```\n\nmore text\n"


def test_the_readme_is_marked_well_and_shows_the_main_commands() -> None:
    commands = [command for block in blocks(README) for command in block.commands]
    assert {"make demo", "make test", "make check"} <= set(commands)
    assert any(command.startswith("attnbench run ") for command in commands)


def test_every_attnbench_command_of_the_readme_exists() -> None:
    from attnbench.benchmarks.cli import main as attnbench

    names = {
        command.split()[1]
        for block in blocks(README)
        for command in block.commands
        if command.startswith("attnbench ") and not command.split()[1].startswith("-")
    }
    for name in sorted(names):
        with pytest.raises(SystemExit) as stop:
            raise SystemExit(attnbench([name, "--help"]))
        assert stop.value.code in (0, None), name


def shown_commands(name: str) -> list[list[str]]:
    """The words of the README's commands `attnbench NAME …` that are run in CI."""
    commands = [c for block in blocks(README) if block.skip is None for c in block.commands]
    return [shlex.split(c)[1:] for c in commands if c.startswith(f"attnbench {name} ")]


def test_the_folders_that_the_readme_makes_are_never_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    words = [word for name in ("data", "run", "train") for c in shown_commands(name) for word in c]
    folders = {
        word
        for option, word in zip(words, words[1:], strict=False)
        if option in ("--root", "--out")
    }
    assert folders and {f"{folder}/" for folder in folders} <= set(ignored)


def test_what_the_readme_trains_learns_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attnbench.benchmarks.cli import main as attnbench

    monkeypatch.chdir(tmp_path)
    (demo,) = [c for c in shown_commands("data") if c[1] == "demo" and c[2] == "translation"]
    assert attnbench(demo) == 0
    for words in shown_commands("train"):
        assert attnbench(words) == 0
        bleu = re.search(r"^bleu (\d+\.\d+)$", capsys.readouterr().out, re.MULTILINE)
        assert bleu and float(bleu[1]) > 10


def test_blocks_are_found_with_their_line_and_reason() -> None:
    text = (
        fenced("bash", "attnbench list\n# a comment\n\nattnbench doctor")
        + fenced("python", "print(1)")
        + fenced('bash skip-ci reason="needs a cluster"', "attnbench run x --launcher slurm")
    )
    first, second = blocks(text)
    assert (first.line, first.commands) == (3, ["attnbench list", "attnbench doctor"])
    assert first.skip is None
    assert second.skip == "needs a cluster"


@pytest.mark.parametrize(
    ("info", "body", "message"),
    [
        ("bash skip-ci", "true", "unknown mark 'skip-ci'"),
        ("bash skip-ci reason=", "true", "unknown mark"),
        ("bash later", "true", "unknown mark 'later'"),
        ("sh", "true", "mark shell commands as ```bash"),
        ("console", "$ true", "mark shell commands as ```bash"),
        ("bash", "make demo\nattnbench list", "block of their own"),
    ],
)
def test_wrong_marks_are_refused(info: str, body: str, message: str) -> None:
    with pytest.raises(ReadmeError, match=message):
        blocks(fenced(info, body))


def test_only_make_blocks_run_in_the_checkout() -> None:
    assert Block(1, "# why\nmake demo\nmake test\n").in_checkout
    assert not Block(1, "attnbench list\n").in_checkout


def run(tmp_path: Path, text: str, *options: str) -> int:
    readme = tmp_path / "README.md"
    readme.write_text(text, encoding="utf-8")
    return main([*options, str(readme)])


def test_blocks_share_a_scratch_folder_that_is_not_the_checkout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = fenced("bash", "pwd\ncat > grid.yaml <<'END'\na: 1\nEND") + fenced(
        "bash", "cat grid.yaml"
    )
    assert run(tmp_path, text) == 0
    output = capfd.readouterr().out
    assert "a: 1" in output
    assert str(ROOT) not in output
    assert "2 blocks fine, 0 failed" in output


def test_a_failing_command_in_the_middle_fails_the_run_and_the_rest_still_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = fenced("bash", "false\necho not-reached-$((1 + 1))") + fenced(
        "bash", "echo after-$((1 + 1))"
    )
    assert run(tmp_path, text) == 1
    output = capfd.readouterr().out
    assert "not-reached-2" not in output
    assert "after-2" in output
    assert "1 blocks fine, 1 failed" in output


def test_skipped_and_finished_blocks_do_not_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = fenced('bash skip-ci reason="needs a cluster"', "false") + fenced("bash", "make nothing")
    assert run(tmp_path, text, "--done", "make nothing") == 0
    output = capfd.readouterr().out
    assert "needs a cluster" in output
    assert "ran before: make nothing" in output


def test_a_wrongly_marked_readme_is_reported_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, fenced("sh", "true")) == 2
    assert capfd.readouterr().err.startswith("README.md: line 3: mark shell commands")
