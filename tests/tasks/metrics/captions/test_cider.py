import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnbench.tasks.metrics.captions import (
    CaptionScoreError,
    CiderDScorer,
    CiderScorer,
    DocumentFrequencies,
)
from attnbench.tasks.metrics.captions.ngrams import MAX_ID

from . import slow

# Few words, so that captions share n-grams; 0 is one of them.
CAPTION = st.lists(st.sampled_from([0, 1, 2, 3, MAX_ID]), max_size=9)
IMAGE = st.tuples(CAPTION, st.lists(CAPTION, min_size=1, max_size=4))
KINDS = pytest.mark.parametrize(("scorer", "d"), [(CiderScorer, False), (CiderDScorer, True)])


@KINDS
@settings(max_examples=150)
@given(images=st.lists(IMAGE, min_size=1, max_size=6), more=st.lists(IMAGE, max_size=3))
def test_scores_follow_the_definition(
    scorer: type[CiderScorer], d: bool, images: list, more: list
) -> None:
    hypotheses, references = [list(part) for part in zip(*images, strict=True)]
    assume(any(caption for captions in references for caption in captions))
    counted = references + [captions for _, captions in more]
    measure = scorer(DocumentFrequencies.count(counted))
    found = measure.score(hypotheses, measure.prepare(references))
    np.testing.assert_allclose(
        found, slow.cider_scores(hypotheses, references, d, counted), atol=1e-12
    )


@KINDS
def test_frequencies_of_other_captions_serve_too(scorer: type[CiderScorer], d: bool) -> None:
    counted = [[[1, 2, 3, 9]], [[2, 3, 4]], [[5]]]
    references = [[[1, 2, 3], [1, 7]], [[2, 3, 8, 8]]]
    hypotheses = [[1, 2, 3, 7], [9, 8, 8, 2, 3, 6]]
    measure = scorer(DocumentFrequencies.count(counted))
    found = measure.score(hypotheses, measure.prepare(references))
    np.testing.assert_allclose(found, slow.cider_scores(hypotheses, references, d, counted))


def test_several_hypotheses_an_image_in_any_order() -> None:
    rng = np.random.default_rng(0)
    # More pairs than are scored at once, and images with different numbers of references.
    references = [
        [rng.integers(0, 12, rng.integers(1, 12)).tolist() for _ in range(rng.integers(1, 9))]
        for _ in range(40)
    ]
    index = rng.integers(0, 40, 1500)
    hypotheses = [rng.integers(0, 13, rng.integers(0, 12)).tolist() for _ in index]
    measure = CiderDScorer(DocumentFrequencies.count(references))
    found = measure.score(hypotheses, measure.prepare(references), index)
    frequencies = slow.document_frequencies(references)
    expected = [
        slow.cider(hypothesis, references[image], frequencies, 40, d=True)
        for hypothesis, image in zip(hypotheses, index, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    alone = measure.prepare([references[index[7]]])
    assert measure.score([hypotheses[7]], alone, [0]) == pytest.approx(expected[7])


def test_the_end_is_added_to_references_only() -> None:
    references = [[[1, 2, 3]], [[1, 4], [4, 0]]]
    closed = [[[1, 2, 3, 0]], [[1, 4, 0], [4, 0]]]
    frequencies = DocumentFrequencies.count(references, end=0)
    assert frequencies == DocumentFrequencies.count(closed, end=0)
    assert frequencies[(0,)] == 2 and frequencies[(3, 0)] == 1
    measure = CiderDScorer(frequencies)
    prepared = measure.prepare(references)
    finished, cut_off = measure.score([[1, 2, 3, 0], [1, 2, 3]], prepared, [0, 0])
    plain = slow.document_frequencies(closed)
    assert finished == pytest.approx(slow.cider([1, 2, 3, 0], closed[0], plain, 2, d=True))
    assert cut_off == pytest.approx(slow.cider([1, 2, 3], closed[0], plain, 2, d=True))
    assert cut_off < finished == pytest.approx(10)


def test_empty_hypotheses_score_zero() -> None:
    measure = CiderDScorer(DocumentFrequencies.count([[[1, 2]], [[3]]]))
    prepared = measure.prepare([[[1, 2]], [[3]]])
    np.testing.assert_array_equal(measure.score([[], [99]], prepared), [0.0, 0.0])
    assert len(measure.score([], prepared, [])) == 0
    assert len(prepared) == 2


def test_what_cannot_be_scored_is_refused_with_its_place() -> None:
    measure = CiderDScorer(DocumentFrequencies.count([[[1, 2]], [[3]]]))
    prepared = measure.prepare([[[1, 2]], [[3]]])
    with pytest.raises(CaptionScoreError, match="image number 1 .* has no reference"):
        measure.prepare([[[1]], []])
    with pytest.raises(CaptionScoreError, match="1 hypotheses need as many image numbers, not 2"):
        measure.score([[1]], prepared)
    with pytest.raises(CaptionScoreError, match="from 0 to 1, not 2"):
        measure.score([[1]], prepared, [2])
    with pytest.raises(CaptionScoreError, match="from 0 to 1, not -1"):
        measure.score([[1]], prepared, [-1])
    with pytest.raises(CaptionScoreError, match=f"from 0 to {MAX_ID}, not {MAX_ID + 1}"):
        measure.score([[MAX_ID + 1]], prepared, [0])
    with pytest.raises(CaptionScoreError, match="not -1"):
        measure.prepare([[[-1]]])
    with pytest.raises(CaptionScoreError, match="every reference caption is empty"):
        measure.prepare([[[]]])
