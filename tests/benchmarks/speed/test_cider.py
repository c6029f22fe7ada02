import json
import random
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import cider
from attnbench.benchmarks.speed.report import run_benchmark

WORDS = ["a", "the", "dog", "cat", "man", "runs", "sits", "red", "on", "grass", "mat", "bus"]


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    rng = random.Random(0)
    content = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 9, "height": 9} for n in range(12)],
        "annotations": [
            {"id": 10 * n + k, "image_id": n, "caption": " ".join(rng.choices(WORDS, k=8))}
            for n in range(12)
            for k in range(6)
        ],
    }
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_both_sides_score_the_same_step(
    captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs the extra java-metrics")
    path = tmp_path / "cider.json"
    cider.main(
        [f"--captions={captions}", f"--json={path}", "--images=8", "--samples=3", "--rounds=2"]
    )
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["largest_difference"] < 1e-9
    prepared, counted_in = content["rows"]
    assert prepared["target"] == cider.TARGET and prepared["ratio"] > 1
    assert counted_in["target"] is None
    assert "8 images x 3 hypotheses, up to 5 references, 12 images" in capsys.readouterr().out


def test_a_step_holds_real_captions_with_some_words_exchanged(captions: Path) -> None:
    references, words = cider.read_references(captions, 5)
    assert words == len(WORDS) and {len(texts) for texts in references} == {5}
    step = cider.make_step(references, words, images=4, samples=50)
    assert len(step.hypotheses) == len(step.images) == 200
    kept = []
    for hypothesis, image in zip(step.hypotheses, step.images.tolist(), strict=True):
        assert hypothesis[-1] == 0 and len(hypothesis) == 9
        same = [
            sum(a == b for a, b in zip(hypothesis, caption, strict=False))
            for caption in references[image]
        ]
        kept.append(max(same) / 8)
    assert 0.6 < sum(kept) / len(kept) < 0.8


def test_unfit_input_is_one_sentence(
    captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, said in (
        ([f"--captions={captions}", "--images=13"], "only 12 images"),
        ([f"--captions={captions}", "--samples=0"], "1 or more"),
        ([f"--captions={tmp_path / 'none.json'}"], "none.json"),
    ):
        assert run_benchmark(cider.main, given) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
