import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnbench.tasks.metrics.captions import CiderDScorer, CiderScorer, DocumentFrequencies
from attnbench.tasks.metrics.captions.bleu import bleu, bleu_counts
from attnbench.tasks.metrics.captions.rouge import rouge_l
from attnbench.tasks.metrics.captions.text import cider_of_tokens
from tests.shared import golden_dir

SCORERS = {"CIDEr_D": CiderDScorer, "CIDEr": CiderScorer}
TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    files = sorted((golden_dir() / "metrics").glob("captions_*.json"))
    assert files
    return [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]


def check(case: dict[str, Any], scores: dict[str, Any]) -> None:
    ids = scores["ids"]
    given = [case["hypotheses"][number].split() for number in ids]
    truth = [[text.split() for text in case["references"][number]] for number in ids]
    whole = bleu(bleu_counts(given, truth))
    single = [
        bleu(bleu_counts([one], [captions])) for one, captions in zip(given, truth, strict=True)
    ]
    rouge = [rouge_l(one, captions) for one, captions in zip(given, truth, strict=True)]
    for n in range(1, 5):
        close(scores[f"BLEU{n}"], whole[n - 1], [one[n - 1] for one in single])
    close(scores["ROUGE_L"], float(np.mean(rouge)), rouge)
    for name, scorer in SCORERS.items():
        found = cider_of_tokens(scorer, given, truth)
        close(scores[name], float(found.mean()), found.tolist())


def close(expected: dict[str, Any], corpus: float, single: list[float]) -> None:
    assert corpus == pytest.approx(expected["corpus"], abs=TOLERANCE)
    assert single == pytest.approx(expected["per_image"], abs=TOLERANCE)


def test_all_images(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        check(case, case["scores"])
        check(case, case["scores_without_empty_hypotheses"])


@pytest.mark.filterwarnings("ignore:CIDEr of one image is 0")
def test_single_images(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        for scores in case["single_image_scores"].values():
            check(case, scores)


def test_given_document_frequencies(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        words: dict[str, int] = {}

        def encode(text: str, words: dict[str, int] = words) -> list[int]:
            return [words.setdefault(word, len(words)) for word in text.split()]

        part = case["first10_with_document_frequency_of_all"]
        counts = {tuple(encode(t)): n for t, n in case["document_frequency_of_all"].items()}
        frequencies = DocumentFrequencies.from_counts(counts, part["number_of_documents"])
        everyone = [[encode(text) for text in captions] for captions in case["references"].values()]
        assert frequencies == DocumentFrequencies.count(everyone)

        references = [[encode(text) for text in case["references"][i]] for i in part["ids"]]
        hypotheses = [encode(case["hypotheses"][number]) for number in part["ids"]]
        for name, scorer in SCORERS.items():
            measure = scorer(frequencies)
            found = measure.score(hypotheses, measure.prepare(references))
            close(part[name], float(found.mean()), found.tolist())

        own = case["first10_with_own_document_frequency"]
        measure = CiderDScorer(DocumentFrequencies.count(references))
        found = measure.score(hypotheses, measure.prepare(references))
        close(own["CIDEr_D"], float(found.mean()), found.tolist())


def test_rewards(cases: list[dict[str, Any]]) -> None:
    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split()]

    for case in cases:
        style = case["reward_style"]
        places = {number: place for place, number in enumerate(style["reference_ids"])}
        closed = [list(map(numbers, captions)) for captions in style["reference_ids"].values()]
        # As the data module gives them: without the end.
        opened = [[caption[:-1] for caption in captions] for captions in closed]
        assert all(caption[-1] == 0 for captions in closed for caption in captions)
        measure = CiderDScorer(DocumentFrequencies.count(opened, end=0))
        assert measure.frequencies.documents == style["number_of_documents"]
        found = measure.score(
            [numbers(row["hypothesis_ids"]) for row in style["rows"]],
            measure.prepare(opened),
            [places[row["image_id"]] for row in style["rows"]],
        )
        expected = [row["CIDEr_D"] for row in style["rows"]]
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)
        assert found.mean() == pytest.approx(style["mean"])
