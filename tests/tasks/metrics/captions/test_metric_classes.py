"""The torchmetrics classes: batches, resetting, several processes, and what they refuse."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn
from torchmetrics import MetricCollection

from attnbench.tasks.metrics.captions import (
    CaptionBleu,
    CaptionScoreError,
    CaptionScoreWarning,
    Cider,
    CiderD,
    RougeL,
    caption_scores,
)

HYPOTHESES = ["A dog runs.", "Two na\u00efve cats sit on a mat", "", "a red\tcar\nparks", "a"]
REFERENCES = [
    ["A dog runs on grass", "the dog is running"],
    ["Two cats sit on a mat!", "cats", "two animals on the mat"],
    ["a man walks"],
    ["A red car parks.", "a car \u2013 parked"],
    ["a bus", "..."],
]
WHOLE = {"cider_d", "cider", "rouge_l", "bleu1", "bleu2", "bleu3", "bleu4"}


def collection() -> MetricCollection:
    return MetricCollection(
        {"bleu": CaptionBleu(), "cider_d": CiderD(), "cider": Cider(), "rouge_l": RougeL()}
    )


def expected() -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptionScoreWarning)
        scores, _ = caption_scores(HYPOTHESES, REFERENCES)
    return {name: score / 100 for name, score in scores.items() if score is not None}


def check(found: dict[str, torch.Tensor]) -> None:
    assert set(found) == set(expected()) == WHOLE
    for name, score in expected().items():
        assert found[name].item() == pytest.approx(score, abs=1e-12), name


def test_batches_give_the_scores_of_the_whole() -> None:
    metrics = collection()
    for _ in range(2):
        for start in (0, 2, 4):
            metrics.update(HYPOTHESES[start : start + 2], REFERENCES[start : start + 2])
        metrics.update([], [])
        check(metrics.compute())
        metrics.reset()


def test_the_state_survives_saving(tmp_path: Path) -> None:
    metrics = collection()
    metrics.persistent(True)
    metrics.update(HYPOTHESES[:3], REFERENCES[:3])
    torch.save(metrics.state_dict(), tmp_path / "state.pt")
    other = collection()
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    other.update(HYPOTHESES[3:], REFERENCES[3:])
    check(other.compute())


# How images are spread over two processes: unevenly, and with one that has none.
SPREAD = [[slice(0, 4), slice(4, 5)], [slice(0, 5), slice(5, 5)]]


def _one_process(rank: int, folder: str) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    for number, parts in enumerate(SPREAD):
        metrics = collection()
        if HYPOTHESES[parts[rank]]:
            metrics.update(HYPOTHESES[parts[rank]], REFERENCES[parts[rank]])
        found = {name: float(score) for name, score in metrics.compute().items()}
        torch.save(found, f"{folder}/{rank}.{number}.pt")
    distributed.destroy_process_group()


def test_processes_together_give_the_scores_of_the_whole(tmp_path: Path) -> None:
    spawn(_one_process, (str(tmp_path),), nprocs=2)
    files = sorted(tmp_path.glob("*.pt"))
    assert len(files) == 2 * len(SPREAD)
    for file in files:
        found = torch.load(file, weights_only=True)
        assert found == pytest.approx(expected(), abs=1e-12), file.name


def test_one_image_has_no_cider_unless_there_is_a_corpus() -> None:
    metric = CiderD()
    metric.update(["a dog runs"], [["a dog runs"]])
    with pytest.warns(CaptionScoreWarning, match="CIDEr of one image is 0"):
        assert metric.compute() == 0
    metric = CiderD(corpus=[["a dog runs"], ["a cat"], ["the bus"]])
    metric.update(["a dog runs"], [["A dog runs."]])
    # Three words have no 4-gram: three quarters of 10.
    assert metric.compute() == pytest.approx(7.5)


def test_unfit_input_is_refused_and_changes_nothing() -> None:
    metrics = collection()
    metrics.update(HYPOTHESES, REFERENCES)
    with pytest.raises(CaptionScoreError, match="2 hypotheses but references of 1 images"):
        metrics.update(["a", "b"], [["a"]])
    with pytest.raises(CaptionScoreError, match=r"image number 1 \(from 0\) has no reference"):
        metrics.update(["a", "b"], [["a"], []])
    with pytest.raises(CaptionScoreError, match="image number 0 .* are one string"):
        metrics.update(["a"], ["a dog"])
    with pytest.raises(CaptionScoreError, match="not as one string"):
        metrics.update("a", [["a"]])
    check(metrics.compute())


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_nothing_to_score_is_said() -> None:
    for metric in (Cider(), CiderD(), RougeL()):
        with pytest.raises(CaptionScoreError, match="no caption was scored yet"):
            metric.compute()
