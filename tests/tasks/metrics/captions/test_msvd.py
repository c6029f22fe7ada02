"""The references of MSVD: some forty for a clip, and one system's captions."""

import numpy as np
import pytest

from attnbench.tasks.metrics.captions import CaptionScoreWarning, caption_scores, ptb_tokenize
from tests.shared import data_dir

from . import slow

Captions = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="module")
def captions() -> Captions:
    folder = data_dir() / "video_captioning/msvd_refs"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    references: dict[str, list[str]] = {}
    for line in (folder / "references.txt").read_text(encoding="utf-8").splitlines():
        clip, text = line.split("\t")
        references.setdefault(clip, []).append(text)
    hypotheses: dict[str, str] = {}
    for line in (folder / "predicted_sentences.txt").read_text(encoding="utf-8").splitlines():
        _, clip, text = line.split("\t")
        hypotheses[clip] = text
    assert len(references) == len(hypotheses) == 100
    return [hypotheses[clip] for clip in references], list(references.values())


@pytest.fixture(scope="module")
def scores(captions: Captions) -> dict[str, float | None]:
    with pytest.warns(CaptionScoreWarning, match="100 images with more or fewer than 5"):
        return caption_scores(*captions)[0]


def test_slow_references_agree(captions: Captions, scores: dict[str, float | None]) -> None:
    given = [ptb_tokenize(text) for text in captions[0]]
    truth = [[ptb_tokenize(text) for text in texts] for texts in captions[1]]
    expected = {
        "cider_d": np.mean(slow.cider_scores(given, truth, d=True)),
        "cider": np.mean(slow.cider_scores(given, truth, d=False)),
        "rouge_l": np.mean(list(map(slow.rouge_l, given, truth))),
        **{f"bleu{n}": score for n, score in enumerate(slow.bleu(given, truth), start=1)},
    }
    for name, score in expected.items():
        assert scores[name] == pytest.approx(100 * score, abs=1e-6), name


def test_the_reference_tool_agrees(captions: Captions, scores: dict[str, float | None]) -> None:
    tool = pytest.importorskip("pycocoevalcap", reason="needs the extra java-metrics")
    assert tool
    from pycocoevalcap.bleu.bleu import Bleu  # type: ignore[import-not-found]
    from pycocoevalcap.cider.cider import Cider  # type: ignore[import-not-found]
    from pycocoevalcap.rouge.rouge import Rouge  # type: ignore[import-not-found]

    given = {i: [" ".join(ptb_tokenize(text))] for i, text in enumerate(captions[0])}
    truth = {
        i: [" ".join(ptb_tokenize(text)) for text in texts] for i, texts in enumerate(captions[1])
    }
    assert scores["cider_d"] == pytest.approx(100 * Cider().compute_score(truth, given)[0])
    assert scores["rouge_l"] == pytest.approx(100 * Rouge().compute_score(truth, given)[0])
    for n, score in enumerate(Bleu(4).compute_score(truth, given, verbose=0)[0], start=1):
        assert scores[f"bleu{n}"] == pytest.approx(100 * score)
