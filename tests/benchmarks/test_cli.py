"""The command line: what it prints, how quickly, and how it refuses."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from attnbench.benchmarks.parser import COMMANDS, FORMATS, LISTS, build_parser
from attnbench.benchmarks.settings import parse_settings
from attnbench.results import FORMATS as TABLE_FORMATS
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve
from tests.benchmarks.tiny import command, write_grid

NMT_SELF = "spatial-attention/nmt-self"


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence with which a command line is refused."""
    capsys.readouterr()
    assert main(words) == 2, words
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("attnbench: ")
    return line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tabel x", "no command 'tabel'; did you mean table?"),
        ("run", "required: GRID"),
        ("list grid", "no 'grid'; did you mean grids"),
        ("list settings", "name a task that `attnbench list tasks` shows"),
        ("list settings translatoin", "did you mean translation"),
        ("list grids translation", "list grids takes no further word, found 'translation'"),
        (f"run {NMT_SELF} x=3", "'x=3' means nothing here"),
        (f"run {NMT_SELF} --frobnicate", "'--frobnicate' means nothing here"),
        (f"run {NMT_SELF} --only missin", "did you mean missing"),
        (f"run {NMT_SELF} --launcher slurm", "no 'slurm', only local"),
        (f"run {NMT_SELF} --jobs 0", "argument --jobs: '0' must be a whole number from 1 on"),
        (f"plan {NMT_SELF} --gmacs nan", "argument --gmacs: 'nan' must be a number above 0"),
        (
            f"run {NMT_SELF} --seeds -1",
            "argument --seeds: '-1' must be a whole number from 0 to 2^32 - 1",
        ),
        (f"run {NMT_SELF} --rows 111", "no row '111'; did you mean 1111"),
        (f"run {NMT_SELF} --set dropout", "'dropout' is not key=value"),
        (f"run {NMT_SELF} --set beam=1 beam=2", "beam is set twice"),
        (f"run {NMT_SELF} --set beam=[1", "isn't JSON"),
        (f"run {NMT_SELF} --data multi31k", "did you mean multi30k"),
        (f"run {NMT_SELF} --preset papr", "no preset 'papr'"),
        (f"table {NMT_SELF} --format pdf", "no 'pdf', only md, csv"),
        ("train translatoin", "did you mean translation"),
        ("train translation encoder=dot", "did you mean encoder_self"),
        ("train translation cross=none", "none can't stand at cross: without"),
        ("train translation --preset smal", "no preset 'smal'"),
        ("data demo vqa --root x", "no demo data for 'vqa'"),
        ("data check multi30k --root nowhere", "nowhere"),
        ("data check demo --root nowhere vocabulary=3", "did you mean vocabulary_size"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence_and_exit_code_2(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(line.split(), capsys)


def test_missing_data_stop_the_run_before_any_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", NMT_SELF, "--preset", "small", "--out", str(tmp_path)]
    assert "multi30k needs root" in refused(words, capsys)
    assert "nowhere does not exist" in refused([*words, "--root", "nowhere"], capsys)
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where_an_error_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nothing-like-it", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_output_folder_that_is_a_file_is_named(
    tmp_path: Path, demo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, out = write_grid(tmp_path), tmp_path / "file"
    out.write_text("")
    assert str(out) in refused(command("run", grid, out, "--root", str(demo_root)), capsys)


def test_every_command_has_help_and_an_action(capsys: pytest.CaptureFixture[str]) -> None:
    from attnbench.benchmarks import commands

    assert set(commands.COMMANDS) == set(COMMANDS)
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: attnbench {name}")
    assert main([]) == 0
    overview = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name} " not in overview] == []
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("attnbench ")
    assert FORMATS == TABLE_FORMATS
    assert build_parser().prog == "attnbench"


PROBE = """
import sys
from attnbench.benchmarks.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("loaded", sorted({"torch", "lightning", "datasets"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def loaded(*words: str) -> tuple[str, float]:
    """What heavy libraries a command loads, and the CPU seconds it took (the wall may be busy)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return process.stderr.splitlines()[-1].removeprefix("loaded "), seconds


@pytest.mark.parametrize(
    "line",
    ["--help", f"table {NMT_SELF}", f"status {NMT_SELF}", "list grids", "list datasets"],
)
def test_looking_at_results_loads_no_torch(line: str) -> None:
    assert loaded(*line.split())[0] == "[]"


def test_the_list_of_variants_is_quick_and_loads_no_lightning() -> None:
    libraries, seconds = loaded("list", "attention")
    assert libraries == "['torch']"
    assert seconds < 3 or min(loaded("list", "attention")[1] for _ in range(3)) < 3


def test_the_list_of_variants_gives_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "attention", "--json"]) == 0
    rows = {row["spec"]: row["sites"] for row in json.loads(capsys.readouterr().out)}
    assert rows["nsa"]["translation.encoder_self"] == "yes"
    assert "future" in rows["nsa"]["translation.decoder_self"]
    assert set(rows["dot"].values()) == {"yes"}


@pytest.mark.parametrize("width", [80, 70, 200])
def test_the_list_of_variants_can_be_read_on_a_narrow_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["list", "attention", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["list", "attention"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= min(width, 100)
    words = " ".join(text.split())
    for row in rows:
        assert row["summary"] in words and re.search(rf" {re.escape(row['spec'])}[, ]", words)
        for site, answer in row["sites"].items():
            assert site in words and (answer == "yes" or f") {answer}" in words)
    (nsa,) = re.findall(r" nsa, .*?; not at ([^:]*?) (?:nsa|\w+:)", words)
    assert "translation.decoder_self (" in nsa and "translation.encoder_self" not in nsa


TASK_OF = {"settings": ["translation"]}


@pytest.mark.parametrize("what", LISTS)
def test_every_list_prints_text_and_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["list", what, *TASK_OF.get(what, [])]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(rows[0].keys() == row.keys() for row in rows)
    assert main(words) == 0
    text = capsys.readouterr().out
    names = [str(next(iter(row.values()))) for row in rows]
    assert all(name in text for name in ([] if what == "settings" else names))


@pytest.mark.parametrize("task", list(TASKS))
def test_every_setting_of_a_task_is_listed_and_can_be_given_as_it_stands_there(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "settings", task, "--json"]) == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == TASKS[task].config.model_fields.keys() - {"seed"}
    assert all(row["type"] and "typing" not in row["type"] for row in rows.values())
    assert [name for name, row in rows.items() if not row["meaning"]] == []
    assert rows["accumulate"]["type"].startswith("whole number from 1")
    for site in TASKS[task].sites:
        assert rows[site]["type"] == "attention spec"
    assert main(["list", "settings", task]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    given = [line.partition("  ")[0] for line in printed.splitlines() if not line.startswith(" ")]
    assert [word.partition("=")[0] for word in given] == list(rows)
    resolve(TASKS[task].config, parse_settings(given))


def test_types_of_settings_are_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "settings", "translation", "--json"]) == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    words = {name: rows[name]["type"] for name in rows}
    assert words["dropout"] == "number from 0 below 1"
    assert words["learning_rate"] == "number above 0, or null"
    assert words["norm_first"] == "true or false"
    assert words["length_penalty"] == "power, gnmt"
    assert words["subword"] == "text or path" and words["dictionary"] == "path, or null"
    assert rows["learning_rate"]["default"] is None and rows["dropout"]["default"] == 0.1
    assert "updates" in rows["max_steps"]["meaning"]


def test_demo_data_is_written_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tmp_path / "demo")
    assert main(["data", "demo", "translation", "--root", root]) == 0
    assert main(["data", "check", "demo", "--root", root, "subword=none", "--json"]) == 0
    card = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert card["dataset"] == "demo" and card["splits"]["train"]["pairs"] > 1000
    (tmp_path / "demo" / "train.de").write_text("one line\n")
    assert "train" in refused(["data", "check", "demo", "--root", root], capsys)


def test_doctor_finds_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--out", str(tmp_path / "new")]) == 0
    assert "torch" in capsys.readouterr().out
    assert main(["doctor", "--out", "/proc/attnbench"]) == 1
    assert "can't be written" in capsys.readouterr().out


def test_a_reader_that_stops_reading_is_no_error() -> None:
    writer = f"{sys.executable} -m attnbench.benchmarks.cli list metrics"
    process = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {writer} | true"], capture_output=True, text=True
    )
    assert process.returncode == 0 and process.stderr == ""
