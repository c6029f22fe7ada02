"""Every format says the same, and every letter of a name survives it."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from attnbench.results import (
    FORMATS,
    MetricSpec,
    Published,
    PublishedSource,
    PublishedValue,
    ResultTable,
    RowSpec,
    RunRecord,
    Store,
)
from attnbench.results.latex import escape as latex_escape
from attnbench.results.latex import label as latex_label
from attnbench.results.layout import count, duration, signed
from attnbench.results.markdown import escape as markdown_escape
from tests.results.samples import GRID, make_record, make_spec

ODD = r"w/o_x | 5% & <b> + \x *a* $1$ #2 {y} ~ ^ [z] `q` &amp; http://a.b"
ROWS = (ODD, "*[1]", "1111", "0100", "=1+1", "0000")


class Cells(HTMLParser):
    """The texts of all cells, and which of them are bold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.bold: list[str] = []
        self._inside = False
        self._strong = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True
        self._strong = self._strong or tag == "strong"

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")
        self._strong = self._strong and tag != "strong"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data
        if self._strong:
            self.bold.append(data)


def markdown_to_html(text: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(text)


def latex_to_text(text: str) -> str:
    """What LaTeX prints for the output of `latex_escape`, which uses few of its commands."""
    commands = {
        "textbackslash": "\\",
        "textasciitilde": "~",
        "textasciicircum": "^",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
        "ldots": "…",
    }
    symbols = {
        r"$\pm$": "±",
        r"$^{\dagger}$": "†",
        r"$^{\ddagger}$": "‡",
        r"$^{\S}$": "§",
        r"{\char34}": '"',
    }
    pattern = re.compile(
        r"(?P<symbol>\$\\pm\$|\$\^\{\\\w+\}\$|\{\\char34\})|\\(?P<command>[a-z]+)\{\}"
        r"|\\(?P<letter>[&%$#_{}])|(?P<nothing>\{\})|\{(?P<braced>[\[\]*`])\}|(?P<dash>--)"
        r"|(?P<plain>[^\\{}$&%#_^~<>|\[\]*`\"])"
    )
    place, parts = 0, list[str]()
    while place < len(text):
        match = pattern.match(text, place)
        assert match, f"not printable as it stands: {text[place:]!r}"
        kind, what = match.lastgroup, match[match.lastgroup or 0]
        parts.append(
            {
                "symbol": symbols,
                "command": commands,
                "dash": {"--": "–"},
                "nothing": {"{}": ""},
            }.get(kind or "", {}).get(what, what)
        )
        place = match.end()
    return "".join(parts)


@pytest.fixture
def table(tmp_path: Path) -> ResultTable:
    """Rows with odd names, all kinds of status, from a real store."""
    store = Store(tmp_path)
    records: list[RunRecord] = [
        make_record(ODD, 0, metrics={"bleu": 20.0}),
        make_record(ODD, 1, metrics={"bleu": 21.5}),
        make_record("*[1]", 0, metrics={"bleu": 3.25}),
        make_record("1111", 0, status="failed", reason="a | b\n<c> & _d_ 100%", metrics={}),
        make_record("0100", 0, status="refused", reason="leaks", metrics={}),
        make_record("=1+1", 0, metrics={"bleu": 4.0}),
    ]
    for record in records:
        store.write(record)
    rows = [RowSpec(name, name) for name in ROWS]
    spec = make_spec(*rows, title="A & B <title> | 100%")
    return ResultTable.build(spec, store.records(GRID, "demo", "smoke"))


def test_every_format_ends_with_a_newline_and_another_is_refused(table: ResultTable) -> None:
    for name in FORMATS:
        assert table.render(name).endswith("\n")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="known are md, csv, latex, html, json"):
        table.render("xlsx")  # type: ignore[arg-type]


def test_json_has_the_shape_that_others_read(table: ResultTable) -> None:
    parsed = json.loads(table.render("json"), parse_constant=pytest.fail)
    assert (parsed["grid"], parsed["dataset"], parsed["preset"]) == (GRID, "demo", "smoke")
    assert [row["row"] for row in parsed["rows"]] == list(ROWS)
    first, _, failed, refused, _, missing = parsed["rows"]
    assert (first["status"], first["n"], first["seeds"]) == ("done", 2, [0, 1])
    assert first["metrics"]["bleu"]["mean"] == 20.75
    assert first["metrics"]["bleu"]["std"] == pytest.approx(1.0606601717798212)
    assert first["metrics"]["bleu"]["published"] is None
    assert (failed["status"], failed["reason"]) == (
        "failed",
        "a | b <c> & _d_ 100%; seed 1 not run",
    )
    assert failed["metrics"]["bleu"]["published"] == 27.7
    assert failed["metrics"]["bleu"]["mean"] is None
    assert (refused["status"], refused["reason"]) == ("refused", "leaks")
    assert (missing["status"], missing["n"], missing["seeds"]) == ("missing", 0, [])
    assert {"commands", "versions", "device", "wall_time"} <= parsed["how"].keys()


def test_csv_has_one_value_a_column(table: ResultTable) -> None:
    lines = list(csv.DictReader(io.StringIO(table.render("csv")), strict=True))
    assert [line["row"] for line in lines] == list(ROWS)
    assert all(None not in line and None not in line.values() for line in lines)
    assert float(lines[0]["bleu_mean"]) == 20.75
    assert lines[0]["seeds"] == "0 1"
    assert lines[2]["bleu_mean"] == "" and lines[2]["bleu_published"] == "27.7"
    assert lines[2]["status"] == "failed" and "a | b" in lines[2]["reason"]
    assert int(lines[0]["macs"]) == 2_700_000_000


@pytest.mark.parametrize("format", ["html", "md"])
def test_html_and_markdown_show_every_name_and_reason(table: ResultTable, format: str) -> None:
    text = table.render("html") if format == "html" else markdown_to_html(table.render("md"))
    cells = Cells(text)
    head, *rows = cells.rows
    assert head[:3] == ["row", "BLEU", "published"] and head[-1] == "note"
    assert [row[0] for row in rows] == list(ROWS)
    assert rows[0][1] == "20.75 ± 1.06" and rows[1][1] == "3.25"
    assert rows[2][1:3] == ["failed", "27.70"]
    assert rows[2][-1] == "failed: a | b <c> & _d_ 100%; seed 1 not run"
    assert rows[3][1] == "n/a" and rows[3][-1] == "n/a: leaks"
    assert rows[5][-1] == "not run"
    assert rows[1][head.index("n")] == "1 of 2"
    assert cells.bold == ["20.75 ± 1.06"]
    assert {len(row) for row in cells.rows} == {len(head)}


def test_latex_has_its_rules_columns_and_names(table: ResultTable) -> None:
    text = table.render("latex")
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    lines = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in body]
    columns = re.search(r"begin{tabular}{([lr]+)}", text)
    assert columns and {len(line) for line in lines} == {len(columns[1])}
    assert [latex_to_text(line[0]) for line in lines] == list(ROWS)
    assert lines[0][1] == r"\textbf{20.75 $\pm$ 1.06}"
    assert text.count("{") == text.count("}")


def test_latex_has_a_label_and_notes_behind_letters(table: ResultTable) -> None:
    text = table.render("latex")
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    last = [line.removesuffix(r" \\").rpartition(" & ")[2] for line in body]
    below = text.split("\\end{tabular}\n")[1].split("\\end{table}")[0].splitlines()
    said = {}
    for line in below:
        if match := re.fullmatch(r"(\$\^\{[a-z]+\}\$) (.*)\\par", line):
            said[match[1]] = latex_to_text(match[2])
    assert [said.get(letter, "") for letter in last] == [row.note for row in table.rows]
    assert len(said) == len({row.note for row in table.rows if row.note}) > 2
    assert text.count(r"\label{tab:spatial-attention-nmt-self.demo}") == 1
    assert text.index(r"\caption{") < text.index(r"\label{")
    printed, comments = text.split("\\end{table}\n")
    assert len(printed) < 2500 and "CPU, 2 cores" not in printed
    assert comments and all(line.startswith("% ") for line in comments.splitlines())


def test_a_label_takes_any_name() -> None:
    assert latex_label("own-a b_%{c}.demo") == "tab:own-a-b-c-.demo"


def published_table(**changes: str) -> ResultTable:
    rows = [RowSpec("1111", "1111"), RowSpec("1011", "no such row")]
    return ResultTable.build(make_spec(*rows, **changes), [make_record("1111", 0, **changes)])


@pytest.mark.parametrize(
    ("changes", "comparable"),
    [
        ({}, "no"),
        ({"dataset": "wmt14"}, "no"),
        ({"preset": "paper"}, "no"),
        ({"dataset": "wmt14", "preset": "paper"}, "yes"),
    ],
)
def test_csv_and_json_say_whether_published_numbers_are_of_the_same_setting(
    changes: dict[str, str], comparable: str
) -> None:
    table = published_table(**changes)
    with_published, without = csv.DictReader(io.StringIO(table.render("csv")))
    assert with_published["published_comparable"] == comparable
    assert with_published["published_source"] == (
        "spatial_attention table2 wmt14-en-de-newstest2014, preset paper"
    )
    assert without["bleu_published"] == without["published_source"] == ""
    assert without["published_comparable"] == ""
    how = json.loads(table.render("json"))["how"]
    assert how["published_comparable"] is (comparable == "yes")
    assert ("another setting" in table.render("md")) is (comparable == "no")


def test_settings_beside_the_grids_make_another_setting() -> None:
    spec = make_spec(RowSpec("1111", "1111"), dataset="wmt14", preset="paper")
    spec = replace(spec, settings=("max_steps=10",))
    table = ResultTable.build(spec, [])
    assert "with the preset paper and max\\_steps=10, another setting" in table.render("md")
    (line,) = csv.DictReader(io.StringIO(table.render("csv")))
    assert line["published_comparable"] == "no"


@pytest.mark.parametrize(
    ("settings", "comparable", "said"),
    [
        (("weights=resnet50.pth",), "yes", ""),
        ((), "no", "with the preset paper and no weights, another setting"),
        (("weights=a.pth", "flip=true"), "no", "and weights=a.pth and flip=true, another setting"),
    ],
)
def test_first_weights_that_the_published_runs_had_are_no_other_setting(
    settings: tuple[str, ...], comparable: str, said: str
) -> None:
    spec = make_spec(RowSpec("1111", "1111"), dataset="wmt14", preset="paper")
    assert spec.published is not None
    published = replace(spec.published, needs=("weights",))
    table = ResultTable.build(replace(spec, settings=settings, published=published), [])
    (line,) = csv.DictReader(io.StringIO(table.render("csv")))
    assert line["published_comparable"] == comparable
    assert said in table.render("md")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex isn't installed")
def test_latex_compiles(table: ResultTable, tmp_path: Path) -> None:
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "page.tex").write_text(
        page + table.render("latex") + "\\ref{tab:a}\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def test_values_not_read_in_the_paper_are_marked_in_every_format() -> None:
    spec = make_spec(
        RowSpec("hard", "SAT hard (their impl.)"),
        RowSpec("known", "Hard-Attention"),
        metrics=(MetricSpec("bleu", "BLEU-1", "BLEU-1"),),
        published=PublishedSource("some", "table1", "flickr8k"),
    )
    place = ("some", "table1", "flickr8k")
    published = Published(
        {
            (*place, "SAT hard (their impl.)", "BLEU-1"): PublishedValue(66.0, "recalled"),
            (*place, "Hard-Attention", "BLEU-1"): PublishedValue(67.0, "paper"),
        }
    )
    table = ResultTable.build(spec, [], published)
    assert "66.00§ |" in table.render("md") and "§ published value from memory" in table.render(
        "md"
    )
    assert "66.00§</td>" in table.render("html")
    assert r"66.00$^{\S}$ &" in table.render("latex")
    rows = json.loads(table.render("json"))["rows"]
    assert [r["metrics"]["bleu"]["confidence"] for r in rows] == ["recalled", "paper"]
    lines = list(csv.DictReader(io.StringIO(table.render("csv"))))
    assert [line["bleu_confidence"] for line in lines] == ["recalled", "paper"]
    assert "67.00 |" in table.render("md")


def test_how_stands_under_the_table(table: ResultTable) -> None:
    for name in ("md", "html", "latex"):
        text = table.render(name)  # type: ignore[arg-type]
        for words in ("CPU, 2 cores", "3.11.9", "0" * 40, "tok:13a", "example.org/demo", "64"):
            assert words in text, (name, words)
        assert "DIR" in text


letters = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=15)


@given(letters)
@example("a\\|b")
@example("\\")
@example("|")
@example("&lt;")
@example("__a__")
@example("1.")
@example("~~a~~")
@example("<!--")
def test_markdown_shows_any_text_in_a_cell(text: str) -> None:
    page = f"| a | b |\n| --- | --- |\n| {markdown_escape(text)} | x |\n"
    assert Cells(markdown_to_html(page)).rows[1] == [text, "x"]


@given(letters)
@example("--only")
@example("----")
@example("''a,,")
@example("\\{}$")
@example('"')
def test_latex_prints_any_text(text: str) -> None:
    escaped = latex_escape(text)
    for together in ("--", "''", ",,", "\\\\"):
        assert together not in escaped.replace("–", "")
    assert latex_to_text(escaped) == text


@pytest.mark.parametrize(
    ("number", "words"),
    [(None, "–"), (0, "0"), (999, "999"), (1234, "1.23 k"), (61_234_567, "61.2 M")]
    + [(2_700_000_000, "2.70 G"), (999_999, "1.00 M"), (999_400, "999 k"), (5 * 10**15, "5.00 P")],
)
def test_counts_in_words(number: int | None, words: str) -> None:
    assert count(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.04, "0.0 s"), (59.94, "59.9 s"), (59.99, "1 min 00 s"), (60, "1 min 00 s")]
    + [(200, "3 min 20 s"), (3599.7, "1 h 00 min"), (7384, "2 h 03 min")],
)
def test_times_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_signs() -> None:
    assert [signed(x, 2) for x in (0.004, -0.004, 0.5, -17.6)] == [
        "0.00",
        "0.00",
        "+0.50",
        "-17.60",
    ]
