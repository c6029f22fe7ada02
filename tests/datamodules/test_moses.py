import pytest

from attnbench.datamodules.moses import TextStyle, detect_style, detokenize, tokenize

PAIRS = [
    (
        "en",
        "The cat, the dog's friend, isn't here.",
        "The cat , the dog &apos;s friend , isn &apos;t here .",
    ),
    ("en", '"Rock & roll"?', "&quot; Rock &amp; roll &quot; ?"),
    (
        "de",
        "Das Haus (alt) ist rot; der Hund nicht.",
        "Das Haus ( alt ) ist rot ; der Hund nicht .",
    ),
    ("en", "a well-known man", "a well-known man"),
]


@pytest.mark.parametrize("language, raw, tokens", PAIRS)
def test_raw_text_and_moses_tokens(language, raw, tokens):
    assert tokenize(raw, language) == tokens
    assert detokenize(tokens, language) == raw


def test_split_hyphens_are_joined():
    assert detokenize("a well @-@ known man", "en") == "a well-known man"


def test_a_language_without_its_own_rules_still_works():
    assert tokenize("Kato, hundo.", "eo") == "Kato , hundo ."


@pytest.mark.parametrize(
    "lines, kind",
    [
        (["A dog , a cat .", "It &apos;s old ."], "moses"),
        (["&quot; It &apos;s old &quot; ."], "moses"),
        (["A dog, a cat.", "It's old."], "raw"),
        (["R&amp;D is good, they say.", "Yes."], "raw"),
        (["well @-@ known", "no punctuation"], "moses"),
        (["no punctuation", "at all"], "raw"),
        ([], "raw"),
    ],
)
def test_style_is_told_by_content(lines, kind):
    style = detect_style(lines)
    assert style.kind == kind
    assert "HTML escapes" in style.why


def test_each_style_gives_both_forms():
    moses, raw = TextStyle("moses", ""), TextStyle("raw", "")
    assert moses.plain("It &apos;s old .", "en") == raw.plain("It's old.", "en") == "It's old."
    assert moses.tokens("It &apos;s old .", "en") == raw.tokens("It's old.", "en")
