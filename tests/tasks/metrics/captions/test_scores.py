import warnings

import pytest

from attnbench.tasks.metrics.captions import CaptionScoreError, CaptionScoreWarning, caption_scores

FIVE = ["a dog runs on grass", "the dog is running", "a dog", "dogs run", "a running dog"]


def test_perfect_captions_reach_the_top_of_the_papers_scale() -> None:
    references = [["a dog runs on grass"] * 5, ["two cats sit quietly here"] * 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores, signatures = caption_scores([texts[0] for texts in references], references)
    assert scores.pop("meteor") is None and scores.pop("spice") is None
    assert scores == pytest.approx(
        {"cider_d": 1000, "cider": 1000, "rouge_l": 100} | {f"bleu{n}": 100 for n in range(1, 5)},
        abs=1e-5,
    )
    assert set(signatures) == {*scores, "meteor", "spice"}
    assert (
        signatures["bleu4"] == "tok:ptb|case:lc|images:2|refs:5|n:1-4|level:corpus|length:closest"
    )
    assert "df:evaluated references" in signatures["cider_d"]
    assert signatures["meteor"].startswith("not asked for")


def test_captions_that_are_hardly_meant_are_counted() -> None:
    hypotheses = ["", "!", "dog", "a dog runs", "the dog"]
    references = [FIVE, FIVE, FIVE[:4], [*FIVE, "one more"], ["...", *FIVE[1:]]]
    with pytest.warns(CaptionScoreWarning) as caught:
        _, signatures = caption_scores(hypotheses, references)
    (message,) = [str(warning.message) for warning in caught]
    assert message == (
        "among 5 scored captions: 2 empty hypotheses, which score 0; 1 hypotheses of one word; "
        "2 images with more or fewer than 5 references; 1 references without a word"
    )
    assert caught[0].filename == __file__
    assert "refs:4-6" in signatures["bleu1"]


def test_one_image_gets_a_warning_and_zero() -> None:
    with pytest.warns(CaptionScoreWarning, match="evaluate more images or give the corpus"):
        scores, _ = caption_scores(["a dog runs on grass"], [FIVE])
    assert scores["cider_d"] == scores["cider"] == 0
    assert scores["bleu4"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("hypotheses", "references", "said"),
    [
        ([], [], "no caption to score"),
        (["a"], [["a"], ["b"]], "1 hypotheses but references of 2 images"),
        (["a", "b"], [["a"], []], r"image number 1 \(from 0\) has no reference"),
        (["a"], [["..."]], "every reference caption is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore::attnbench.tasks.metrics.captions.CaptionScoreWarning")
def test_what_cannot_be_scored_is_refused(
    hypotheses: list[str], references: list[list[str]], said: str
) -> None:
    with pytest.raises(CaptionScoreError, match=said):
        caption_scores(hypotheses, references)


@pytest.mark.filterwarnings("ignore::attnbench.tasks.metrics.captions.CaptionScoreWarning")
def test_all_empty_hypotheses_score_zero() -> None:
    scores, _ = caption_scores(["", "."], [FIVE, ["two cats"]])
    for name, score in scores.items():
        assert score is None if name in ("meteor", "spice") else score == pytest.approx(0, abs=0.01)
