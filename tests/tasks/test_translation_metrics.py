"""Scores equal the reference tools' values; names say what was scored."""

import json

import pytest

from attnbench.tasks.metrics.translation import split_compounds, translation_scores
from tests.shared import golden_dir


def _golden_cases():
    return sorted((golden_dir() / "metrics").glob("bleu_translation*.json"))


@pytest.mark.parametrize("path", _golden_cases(), ids=lambda path: path.stem)
def test_scores_equal_the_reference_tools(path):
    case = json.loads(path.read_text(encoding="utf-8"))
    scores, signatures = translation_scores(
        case["hypotheses_detokenised"],
        case["references_detokenised"],
        case["hypotheses_tokenised"],
        case["references_tokenised"],
    )
    assert scores["bleu"] == pytest.approx(case["sacrebleu_13a_detokenised"]["score"], abs=1e-9)
    assert scores["bleu_tok"] == pytest.approx(case["tokenised_bleu"]["score"], abs=1e-9)
    split = case["tokenised_bleu_after_compound_split"]["score"]
    assert scores["bleu_tok_split"] == pytest.approx(split, abs=1e-9)
    assert "tok:13a" in signatures["bleu"]
    assert "tok:none" in signatures["bleu_tok"]


@pytest.mark.parametrize("path", _golden_cases(), ids=lambda path: path.stem)
def test_compound_split_equals_the_reference_script(path):
    case = json.loads(path.read_text(encoding="utf-8"))
    for side in ("hypotheses", "references"):
        split = [split_compounds(line) for line in case[f"{side}_tokenised"]]
        assert split == case[f"{side}_compound_split"]


def test_overlapping_single_letters_are_split_once():
    assert split_compounds("x-y-z und Ost-West") == (
        "x ##AT##-##AT## y-z und Ost ##AT##-##AT## West"
    )


def test_a_missing_translation_is_refused():
    with pytest.raises(ValueError, match="every line"):
        translation_scores(["a"], ["a", "b"], ["a"], ["a", "b"])


def test_an_empty_hypothesis_scores_without_an_error():
    scores, _ = translation_scores(["", "ein Haus"], ["da", "ein Haus"], ["", "x"], ["y", "x"])
    assert 0 <= scores["bleu"] <= 100
