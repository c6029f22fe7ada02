"""Tables: the arithmetic, and everything that must not be averaged over silently."""

import statistics
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.results import (
    MetricSpec,
    PresentSettings,
    Published,
    PublishedSource,
    ResultTable,
    RowSpec,
    Store,
    TableRow,
)
from tests.results.samples import GRID, START, make_record, make_spec


def only_row(table: ResultTable, name: str) -> TableRow:
    (row,) = [row for row in table.rows if row.row == name]
    return row


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6))
def test_mean_and_deviation_are_those_of_the_runs(values: list[float]) -> None:
    records = [make_record(seed=seed, metrics={"bleu": v}) for seed, v in enumerate(values)]
    row = only_row(ResultTable.build(make_spec("1111"), records), "1111")
    cell = row.metrics["bleu"]
    assert cell.mean == pytest.approx(statistics.fmean(values))
    assert cell.std == pytest.approx(statistics.stdev(values))
    assert cell.difference == pytest.approx(statistics.fmean(values) - 27.7)
    assert (row.status, row.n, row.seeds) == ("done", len(values), tuple(range(len(values))))


def test_one_run_has_no_deviation() -> None:
    row = only_row(ResultTable.build(make_spec("1111"), [make_record()]), "1111")
    assert (row.metrics["bleu"].mean, row.metrics["bleu"].std, row.n) == (20.0, None, 1)


def test_rows_from_the_store_stand_in_the_grid_order(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for row in ("1111", "w/o", "0010"):
        store.write(make_record(row))
    spec = make_spec("w/o", "1111", "0100", "0010")
    table = ResultTable.build(spec, store.records(GRID, "demo", "smoke"))
    assert [row.row for row in table.rows] == ["w/o", "1111", "0100", "0010"]
    assert [row.status for row in table.rows] == ["done", "done", "missing", "done"]
    assert only_row(table, "0100").note == "not run"


def test_failed_and_refused_rows_say_why_and_have_no_mean() -> None:
    records = [
        make_record("1111", status="failed", reason="out of\n  memory", metrics={"bleu": 99.0}),
        make_record("0100", status="diverged", reason="loss is nan at step 7", metrics={}),
        make_record("w/o", status="refused", reason="leaks the future", metrics={}),
    ]
    table = ResultTable.build(make_spec("1111", "0100", "w/o"), records)
    assert only_row(table, "1111").note == "failed: out of memory"
    assert only_row(table, "0100").note == "diverged: loss is nan at step 7"
    assert only_row(table, "w/o").note == "n/a: leaks the future"
    assert all(row.metrics["bleu"].mean is None and row.n == 0 for row in table.rows)


def test_a_failed_seed_is_counted_and_not_averaged() -> None:
    records = [
        make_record(seed=0),
        make_record(seed=1, status="failed", reason="killed", metrics={"bleu": 90.0}),
        make_record(seed=2),
    ]
    row = only_row(ResultTable.build(make_spec("1111"), records), "1111")
    assert (row.status, row.n, row.expected, row.seeds) == ("partial", 2, 3, (0, 2))
    assert row.metrics["bleu"].mean == 21.0
    assert row.note == "seed 1 failed: killed"


def test_missing_seeds_are_counted_by_what_other_rows_have_or_by_the_spec() -> None:
    records = [make_record("w/o", 0), make_record("w/o", 1), make_record("1111", 0)]
    table = ResultTable.build(make_spec("w/o", "1111"), records)
    assert [(row.n, row.expected) for row in table.rows] == [(2, 2), (1, 2)]
    assert only_row(table, "1111").note == "seed 1 not run"
    wanted = ResultTable.build(make_spec("w/o", "1111", seeds=(0, 1, 2)), records)
    assert only_row(wanted, "w/o").note == "seed 2 not run"
    assert only_row(wanted, "1111").note == "seeds 1, 2 not run"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"max_steps": 200}}, "max_steps=200"),
        ({"items": 32}, "32 items"),
        ({"data": {"fingerprint": {"train": "bb"}}}, "data "),
    ],
)
def test_other_settings_or_data_are_never_averaged(change: dict, words: str) -> None:
    records = [make_record(seed=0), make_record(seed=1), make_record(seed=2, **change)]
    table = ResultTable.build(make_spec("1111"), records)
    assert [(row.row, row.n, row.seeds) for row in table.rows] == [
        ("1111", 2, (0, 1)),
        ("1111", 1, (2,)),
    ]
    assert table.rows[0].metrics["bleu"].mean == 20.5
    assert table.rows[1].metrics["bleu"].mean == 22.0
    assert words in table.rows[1].note
    assert len({row.label for row in table.rows}) == 2
    assert "different settings" in " ".join(table.notes)


def test_the_seed_and_the_data_root_are_no_setting() -> None:
    records = [make_record(seed=0), make_record(seed=1)]
    assert records[0].config != records[1].config
    table = ResultTable.build(make_spec("1111"), records)
    assert len(table.rows) == 1
    assert table.how["settings_varied"] == []


def test_a_metric_that_some_seeds_lack_has_its_own_count() -> None:
    records = [
        make_record(seed=0, metrics={"bleu": 20.0, "chrf": 50.0}),
        make_record(seed=1, metrics={"bleu": 30.0, "chrf": float("nan")}),
    ]
    records.append(make_record("0100", metrics={"bleu": 20.0, "chrf": 50.0, "ppl": 4.0}))
    metrics = (MetricSpec("bleu"), MetricSpec("chrf"), MetricSpec("ppl"))
    table = ResultTable.build(make_spec("1111", "0100", metrics=metrics), records)
    cells = only_row(table, "1111").metrics
    assert (cells["bleu"].mean, cells["bleu"].n) == (25.0, 2)
    assert (cells["chrf"].mean, cells["chrf"].n) == (50.0, 1)
    assert (cells["ppl"].mean, cells["ppl"].n) == (None, 0)
    note = only_row(table, "1111").note
    assert "chrf: seed 1: the value was nan" in note
    assert note.endswith("; ppl: not measured")
    assert "50.00 (n 1)" in table.render("md")


def test_what_no_run_has_is_said_once() -> None:
    notes = {"meteor": "no Java"}
    records = [
        make_record(row, seed=seed, metrics={"bleu": 20.0, "meteor": None}, notes=notes)
        for row in ("1111", "0100")
        for seed in (0, 1)
    ]
    metrics = (MetricSpec("bleu"), MetricSpec("meteor"), MetricSpec("of_another_data_set"))
    table = ResultTable.build(make_spec("1111", "0100", metrics=metrics), records)
    assert [row.note for row in table.rows] == ["", ""]
    assert list(table.notes) == ["meteor is n/a: no Java"]


def test_a_metric_that_only_the_paper_has_keeps_its_heading() -> None:
    spec = make_spec("1111", metrics=(MetricSpec("chrf"), MetricSpec("bleu", published="BLEU")))
    table = ResultTable.build(spec, [make_record(metrics={"chrf": 50.0})])
    assert "| chrf | bleu | published |" in table.render("md")


def test_best_is_marked_by_what_is_shown() -> None:
    values = {"w/o": 3.0, "1111": 20.001, "0100": 20.004}
    records = [make_record(row, metrics={"bleu": v, "ppl": v}) for row, v in values.items()]
    metrics = (
        MetricSpec("bleu"),
        MetricSpec("ppl", higher_is_better=False),
        MetricSpec("parameters", higher_is_better=None),
    )
    table = ResultTable.build(make_spec(*values, metrics=metrics), records)
    best = {m.name: [r.row for r in table.rows if r.metrics[m.name].best] for m in metrics}
    assert best == {"bleu": ["1111", "0100"], "ppl": ["w/o"], "parameters": []}


def test_scale_brings_values_to_the_published_unit() -> None:
    metric = MetricSpec("macs", "GFLOPs", "GFLOPs", decimals=1, scale=1e-9)
    table = ResultTable.build(make_spec("1111", metrics=(metric,)), [make_record()])
    cell = only_row(table, "1111").metrics["macs"]
    assert cell.mean == pytest.approx(2.7)
    assert cell.difference == pytest.approx(0.0)


def test_reference_rows_show_the_paper_alone() -> None:
    big = "Transformer-Big (Vaswani)"
    spec = make_spec(
        RowSpec("terms", "Transformer-Base"),
        RowSpec(big, big, reference=True),
        published=PublishedSource("ngsan", "table8", "wmt14-en-de-newstest2014"),
    )
    row = only_row(ResultTable.build(spec, [make_record("terms")]), big)
    assert (row.status, row.n, row.metrics["bleu"].mean) == ("reference", 0, None)
    value = row.metrics["bleu"].published
    assert value and value.value == 28.4


def test_what_is_left_out_is_said() -> None:
    records = [
        make_record(metrics={"bleu": 1.0}, finished=START),
        make_record(metrics={"bleu": 2.0}, finished=START + timedelta(hours=1)),
        make_record(dataset="wmt14"),
        make_record("renamed"),
    ]
    table = ResultTable.build(make_spec("1111"), records)
    row = only_row(table, "1111")
    assert (row.n, row.metrics["bleu"].mean) == (1, 2.0)
    notes = " ".join(table.notes)
    assert "1 runs of another grid" in notes
    assert "renamed" in notes
    assert "1 older runs" in notes


def test_warnings_of_the_store_become_notes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(make_record(seed=0))
    store.write(make_record(seed=1)).write_text("{")
    table = ResultTable.build(make_spec("1111"), store.records(GRID, "demo", "smoke"))
    assert any("seed1" in note for note in table.notes)
    assert only_row(table, "1111").n == 1


def test_how_says_how() -> None:
    records = [make_record(seed=0), make_record("w/o", 1, git_dirty=True, device="Some GPU")]
    how = ResultTable.build(make_spec("1111", "w/o"), records).how
    assert how["commands"] == [f"attnbench run {GRID} --preset smoke --root DIR --out DIR"]
    assert how["wall_time"] == 120.0
    assert how["device"] == "CPU, 2 cores; Some GPU"
    assert how["versions"] == {"python": "3.11.9"}
    assert how["data"]["items"] == [64]
    assert how["data"]["source"] == "https://example.org/demo"
    assert how["git"] == ["0" * 40, "0" * 40 + " with uncommitted changes"]
    assert how["signatures"] == {"bleu": "nrefs:1|tok:13a"}
    assert how["settings_varied"] == ["encoder_self"]
    assert "13a" in how["glossary"]["BLEU"]
    assert "another setting" in how["published"]


def test_the_published_setting_is_not_called_another() -> None:
    spec = make_spec("1111", dataset="wmt14", preset="paper")
    assert "another setting" not in ResultTable.build(spec, []).how["published"]


def test_without_published_numbers_nothing_is_compared() -> None:
    table = ResultTable.build(make_spec("1111", published=None), [make_record()], Published({}))
    assert table.rows[0].metrics["bleu"].published is None
    assert "diff" not in table.render("md")


def test_save_writes_the_files_of_the_repository(tmp_path: Path) -> None:
    table = ResultTable.build(make_spec("1111"), [make_record()])
    paths = table.save(tmp_path / "tables")
    assert [path.name for path in paths] == [
        "spatial-attention-nmt-self.demo.json",
        "spatial-attention-nmt-self.demo.md",
    ]
    assert paths[0].read_text(encoding="utf-8") == table.render("json")
    assert paths[1].read_text(encoding="utf-8") == table.render("md")
    assert len(list((tmp_path / "tables").iterdir())) == 2


def test_runs_of_other_settings_than_the_row_has_now_do_not_count() -> None:
    now = make_record(seed=0)
    old = make_record(seed=1, settings={"max_steps": 50}, metrics={"bleu": 90.0}, items=3)
    present = PresentSettings(now.config_hash, {"max_steps": 100, "encoder_self": "terms(1111)"})
    spec = make_spec(RowSpec("1111", "1111", present=present))
    table = ResultTable.build(spec, [now, old])
    (row,) = table.rows
    assert (row.n, row.expected, row.seeds, row.metrics["bleu"].mean) == (1, 2, (0,), 20.0)
    assert "seed 1: the settings of this row have changed since (max_steps was 50, is 100)" in (
        row.note
    )
    assert table.how["seeds"] == [0] and table.how["runs"] == {"done": 1}
    (row,) = ResultTable.build(spec, [old]).rows
    assert (row.status, row.n, row.metrics["bleu"].mean) == ("missing", 0, None)
    assert row.note.startswith("the settings of this row have changed since")
