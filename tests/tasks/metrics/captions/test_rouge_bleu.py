import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.tasks.metrics.captions.bleu import bleu, bleu_counts
from attnbench.tasks.metrics.captions.rouge import lcs_length, rouge_l

from . import slow

WORDS = st.lists(st.sampled_from("abcd"), max_size=10)


@settings(max_examples=200)
@given(one=WORDS, other=WORDS)
def test_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    expected = slow.lcs_by_trying(one, other)
    assert lcs_length(one, other) == lcs_length(other, one) == slow.lcs(one, other) == expected


@given(hypothesis=WORDS, references=st.lists(WORDS, min_size=1, max_size=4))
def test_rouge_follows_the_definition(hypothesis: list[str], references: list[list[str]]) -> None:
    assert rouge_l(hypothesis, references) == pytest.approx(slow.rouge_l(hypothesis, references))


def test_precision_and_recall_may_come_from_different_references() -> None:
    references = [["a", "b", "c", "d", "e", "f"], ["a"]]
    assert rouge_l(["a", "x"], references) == pytest.approx(2.44 * 0.5 / (1 + 1.44 * 0.5))
    assert rouge_l([], references) == rouge_l([], [[]]) == rouge_l(["z"], references) == 0


LONG = st.lists(st.sampled_from("abcd"), min_size=4, max_size=10)


@given(images=st.lists(st.tuples(LONG, st.lists(LONG, min_size=1, max_size=4)), min_size=1))
def test_bleu_follows_the_definition(images: list) -> None:
    hypotheses, references = zip(*images, strict=True)
    found = bleu(bleu_counts(hypotheses, references))
    for ours, expected in zip(found, slow.bleu(hypotheses, references), strict=True):
        # The reference tool adds a tiny number, which shows where nothing matches.
        assert ours == pytest.approx(expected, rel=1e-7, abs=1e-3 if expected == 0 else 0)


def test_the_shorter_of_two_references_as_close_sets_the_length() -> None:
    counts = bleu_counts([list("abcd")], [[list("abcde"), list("abc")]])
    assert counts[-2:].tolist() == [4, 3]


def test_a_set_of_empty_hypotheses_gives_zero_and_no_error() -> None:
    assert bleu(bleu_counts([[]], [[["a", "b"]]])) == pytest.approx([0, 0, 0, 0], abs=1e-4)
