import csv
import json
from pathlib import Path

import pytest

from attnbench.tasks.metrics.captions import ptb_tokenize
from attnbench.tasks.metrics.captions.ptb import _tokens
from tests.shared import data_dir, golden_dir


def test_every_golden_caption_is_cut_as_by_the_reference_tool() -> None:
    files = sorted((golden_dir() / "metrics").glob("ptb_tokeniser*.json"))
    assert files
    for file in files:
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
            assert " ".join(ptb_tokenize(row["raw"])) == row["tokenised"], row["raw"]


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("", ""),
        (" \t\n", ""),
        ("...", ""),
        ("A man (left) waves!", "a man -lrb- left -rrb- waves"),
        ("Stop!! Why?! No?", "stop !! why ?! no"),
        ("A man - woman -- dog \u2013 cat \u2014 fish", "a man woman dog cat fish"),
        ("\u00bd of it, 1\u00bc", "1/2 of it 1 1/4"),
        ("He can't, won't and doesn't.", "he ca n't wo n't and does n't"),
        ("Don\u2019t touch the dogs\u2019 \u201cbone\u201d", "do n't touch the dogs bone"),
        ("the dogs' bowl of the '60s", "the dogs bowl of the '60s"),
        ("Mr. Lee etc. No. no. 5 Wash. wash.", "mr. lee etc. no no. 5 wash. wash"),
        ("in the U.S. at 5 p.m.", "in the u.s. at 5 p.m."),
        ("a sign with K.", "a sign with k."),
        ("by J. Smith, a K. The man", "by j. smith a k the man"),
        ("black-and-white T-shirt/jeans", "black-and-white t-shirt jeans"),
        ("x-ray 5-6 3-year-old a_b", "x-ray 5-6 3-year-old a_b"),
        ("AT&T R&amp;B m&h", "at&t r&b m & h"),
        ("$5.00 US$5 5% \u00a35", "$ 5.00 us$ 5 5 % # 5"),
        ("rock'n'roll o'clock hors d'oeuvres ma'am", "rock 'n' roll o'clock hors d'oeuvres ma'am"),
        ("smile :) now", "smile :-rrb- now"),
        ("a \U0001f600 b \u00ab c \u00bb", "a b c"),
        ("na\u00efve \u65e5\u672c", "na\u00efve \u65e5\u672c"),
        ("1 1/2 cups", "1 1/2 cups"),
    ],
)
def test_rules(raw: str, tokens: str) -> None:
    expected = tokens.replace("t-shirt jeans", "t-shirt / jeans")
    assert " ".join(ptb_tokenize(raw)) == expected


def test_the_path_by_words_equals_the_path_over_the_whole_caption() -> None:
    for caption in _real_captions()[::6]:
        assert ptb_tokenize(caption) == list(_tokens(caption)), caption


@pytest.mark.java
def test_real_captions_are_cut_as_by_java() -> None:
    tool = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer").PTBTokenizer()
    captions = _real_captions()
    # The line between keeps one caption's first word from deciding about the last one's "K.".
    given = {n: [{"caption": text}, {"caption": "x"}] for n, text in enumerate(captions)}
    expected = tool.tokenize(given)
    different = [
        (caption, expected[number][0])
        for number, caption in enumerate(captions)
        if " ".join(ptb_tokenize(caption)) != " ".join(expected[number][0].split())
    ]
    assert different == []


def _real_captions() -> list[str]:
    folder = data_dir() / "captioning"
    content = json.loads(_text(folder / "coco_val2017/annotations/captions_val2017.json"))
    captions = [row["caption"] for row in content["annotations"]]
    rows = list(csv.reader(_text(folder / "flickr8k_1000/captions.txt").splitlines()))[1:]
    captions += [row[-1] for row in rows]
    return [caption.replace("\n", " ").replace("\r", " ") for caption in captions]


def _text(path: Path) -> str:
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path.read_text(encoding="utf-8")
