"""The papers' numbers: complete, unambiguous, and each with its confidence."""

from pathlib import Path

import pytest

from attnbench.results import Published, PublishedValue, StoreError

HEAD = "paper,table,dataset_split,row,metric,value,confidence\n"
NEWSTEST = ("spatial_attention", "table2", "wmt14-en-de-newstest2014")


@pytest.fixture(scope="module")
def published() -> Published:
    return Published.load()


def test_values_known_from_the_papers(published: Published) -> None:
    assert published.value(*NEWSTEST, "1111", "BLEU") == PublishedValue(27.7, "paper")
    assert published.value(*NEWSTEST, "w/o", "GFLOPs") == PublishedValue(1.7, "paper")
    assert published.value(*NEWSTEST, "1111", "METEOR") is None
    assert published.value("ngsan", "table3", "coco-karpathy-test", "query+key", "SPICE") is None


def test_lists_tables_with_their_rows_and_metrics(published: Published) -> None:
    tables = {(t.paper, t.table, t.dataset_split): t for t in published.tables()}
    assert {t.paper for t in tables.values()} == {
        "ngsan",
        "show_attend_tell",
        "spatial_attention",
        "mult",
    }
    table = tables[NEWSTEST]
    assert table.rows[:2] == ("w/o", "1111")
    assert table.metrics == ("BLEU", "GFLOPs")
    for row in table.rows:
        assert set(published.row(*NEWSTEST, row)) == {"BLEU", "GFLOPs"}


def test_only_what_was_read_in_the_paper_is_unmarked(published: Published) -> None:
    marks = {c: PublishedValue(1.0, c).mark for c in ("paper", "recalled", "second_source")}
    assert marks["paper"] == ""
    assert marks["recalled"] and marks["second_source"]
    assert marks["recalled"] != marks["second_source"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns"),
        ("paper,table\n", "columns"),
        (HEAD + "a,b,c,d,e,1\n", "line 2: expected 7 values"),
        (HEAD + "a,b,c,d,e,1,paper,more\n", "line 2: expected 7 values"),
        (HEAD + "a,b,c,d,e,1,paper\na,b,c,d,f,high,paper\n", "line 3: 'high' isn't a number"),
        (HEAD + "a,b,c,d,e,nan,paper\n", "isn't a number"),
        (HEAD + "a,b,c,d,e,1,sure\n", "unknown confidence 'sure'"),
        (HEAD + "a,b,c,d,e,1,paper\na,b,c,d,e,2,paper\n", "line 3: a second value"),
        (HEAD + 'a,b,c,d,e,1,"paper\n', "published numbers"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(text)
    with pytest.raises(StoreError, match=message) as caught:
        Published.load(path)
    assert str(path) in str(caught.value)


def test_an_absent_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.csv"):
        Published.load(tmp_path / "none.csv")
