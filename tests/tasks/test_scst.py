"""Self-critical training: what is rewarded, against what, and that it raises the reward."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnbench.datamodules.caption_batch import CaptionBatch
from attnbench.models.captioner import Captioner, CaptionerConfig
from attnbench.tasks.captioning_config import CaptioningConfig
from attnbench.tasks.errors import ConfigError
from attnbench.tasks.metrics.captions.cider import CiderDScorer
from attnbench.tasks.metrics.captions.frequencies import DocumentFrequencies
from attnbench.tasks.scst import END, Rewards, image_of, self_critical_loss
from attnbench.tasks.settings import resolve

IMAGES, WORDS, REGIONS, FEATURES = 6, 12, 3, 8

# Two captions an image, with words of their own.
REFERENCES = [[[1, 2 + i, 8, 9], [1, 2 + i, 10]] for i in range(IMAGES)]


def settings(**more: Any) -> CaptioningConfig:
    """Settings of a tiny self-critical phase."""
    tiny = {"dim": 16, "heads": 2, "max_words": 6, "samples": 4, "scst_steps": 1, **more}
    return resolve(CaptioningConfig, tiny)


def a_batch() -> CaptionBatch:
    """All images at once; each has features of its own."""
    generator = torch.Generator().manual_seed(0)
    size = (IMAGES, 2, 5)
    output_BCT = torch.zeros(size, dtype=torch.long)
    for image, captions in enumerate(REFERENCES):
        for place, ids in enumerate(captions):
            output_BCT[image, place, : len(ids)] = torch.tensor(ids)
    return CaptionBatch(
        features_BNF=torch.randn(IMAGES, REGIONS, FEATURES, generator=generator),
        valid_BN=torch.ones(IMAGES, REGIONS, dtype=torch.bool),
        boxes_BN4=None,
        size_B2=torch.ones(IMAGES, 2),
        input_BCT=torch.nn.functional.pad(output_BCT[..., :-1], (1, 0)),
        output_BCT=output_BCT,
        token_valid_BCT=torch.ones(size, dtype=torch.bool),
        index_B=torch.arange(IMAGES),
        references=REFERENCES,
    )


def a_model(dropout: float = 0.0) -> Captioner:
    """A model with random weights."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "dim": 16,
        "ffn_dim": 32,
        "heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    return Captioner(
        CaptionerConfig(
            symbols=WORDS, feature_dim=FEATURES, dropout=dropout, feature_dropout=dropout, **sizes
        )
    )


def the_rewards() -> Rewards:
    """CIDEr-D with the frequencies of the references themselves."""
    scorer = CiderDScorer(DocumentFrequencies.count(REFERENCES, END))
    return Rewards(scorer, scorer.prepare(REFERENCES))


def rewards_of(*captions: list[int]) -> list[float]:
    return the_rewards().submit(captions, np.zeros(len(captions), int)).result().tolist()


def test_a_caption_that_never_ends_scores_less_than_one_that_does() -> None:
    ended, cut, empty = rewards_of([*REFERENCES[0][0], END], REFERENCES[0][0], [END])
    assert ended > cut > empty == pytest.approx(0, abs=1)


@pytest.mark.parametrize("baseline", ["greedy", "mean"])
def test_training_raises_the_reward(baseline: str) -> None:
    model, batch, rewards = a_model(), a_batch(), the_rewards()
    config = settings(baseline=baseline, samples=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rewarded: list[float] = []
    for step in range(60):
        optimizer.zero_grad()
        result = self_critical_loss(model, batch, rewards, config, seed=step)
        result.loss.backward()
        optimizer.step()
        rewarded.append(result.reward)
    first, last = np.mean(rewarded[:5]), np.mean(rewarded[-5:])
    assert last > 2 * first and last > 1


def test_the_loss_is_what_the_definition_says() -> None:
    """Token by token, with a forced end left out, against both baselines."""
    batch, rewards = a_batch(), the_rewards()
    for baseline in ("greedy", "mean"):
        model, config = a_model(), settings(baseline=baseline, max_words=3)
        step = self_critical_loss(model, batch, rewards, config, seed=5)
        again = self_critical_loss(model, batch, rewards, config, seed=5)
        assert torch.equal(step.loss, again.loss)
        expected = _naive_loss(model, batch, rewards, config, seed=5)
        assert float(step.loss.detach()) == pytest.approx(expected, abs=1e-5)
        assert step.advantage == pytest.approx(step.reward - step.baseline)


def _naive_loss(
    model: Captioner, batch: CaptionBatch, rewards: Rewards, config: CaptioningConfig, seed: int
) -> float:
    from attnbench.tasks import scst

    model.eval()
    with torch.no_grad():
        drawn = scst._draw(model, batch, config, seed)  # the random part, seeded
        captions = drawn.captions()
        greedy = scst._greedy(model, batch, config)
    total, tokens = 0.0, 0
    for image in range(IMAGES):
        own = captions[image * config.samples : (image + 1) * config.samples]
        scores = rewards.submit(own, np.full(len(own), image)).result()
        alone = rewards.submit([greedy[image]], np.array([image])).result()[0]
        for number, said in enumerate(own):
            others = [s for place, s in enumerate(scores) if place != number]
            base = alone if config.baseline == "greedy" else float(np.mean(others))
            state = model.start(**{k: v[image : image + 1] if isinstance(v, torch.Tensor) else v
                                   for k, v in image_of(batch).items()})  # fmt: skip
            last = END
            for position, word in enumerate(said):
                with torch.no_grad():
                    logits_V = model.step(torch.tensor([last]), state)[0]
                if position == 0:
                    logits_V[END] = -torch.inf
                total -= (scores[number] - base) * float(logits_V.log_softmax(-1)[word])
                tokens += 1
                last = word
    return total / tokens


def test_the_model_comes_back_in_its_mode_and_samples_have_no_dropout() -> None:
    batch, rewards = a_batch(), the_rewards()
    model = a_model(dropout=0.5).train()
    losses = []
    for dropout in (False, False, True):
        torch.manual_seed(len(losses))
        step = self_critical_loss(model, batch, rewards, settings(scst_dropout=dropout), seed=1)
        losses.append(float(step.loss.detach()))
        assert all(module.training for module in model.modules())
    assert losses[0] == losses[1] != losses[2]


class Training:
    """What rewards ask of the data."""

    vocabulary = range(WORDS)

    def train_references(self) -> list[list[list[int]]]:
        return REFERENCES


def write_counts(path: Path, *, with_end: bool) -> Path:
    """Write self-critical's pickle of n-gram counts of the references."""
    counted = DocumentFrequencies.count(REFERENCES, END if with_end else None)
    ngrams = {tuple(map(str, ngram)): float(counted[ngram]) for ngram in counted}
    path.write_bytes(pickle.dumps({"document_frequency": ngrams, "ref_len": float(IMAGES)}))
    return path


def test_counts_of_a_file_give_the_rewards_of_counted_ones(tmp_path: Path) -> None:
    data: Any = Training()
    path = write_counts(tmp_path / "idxs.p", with_end=True)
    rewards = [
        Rewards.of(settings(document_frequencies=file), data)
        .submit([[1, 2, 8, END], [1, 3]], np.array([0, 1]))
        .result()
        for file in (None, path)
    ]
    assert rewards[0].tolist() == rewards[1].tolist() and rewards[0].min() > 0


def test_counts_without_the_end_and_other_files_are_refused(tmp_path: Path) -> None:
    data: Any = Training()
    endless = write_counts(tmp_path / "idxs.p", with_end=False)
    with pytest.raises(ConfigError, match="doesn't count the end"):
        Rewards.of(settings(document_frequencies=endless), data)
    page = tmp_path / "page.p"
    page.write_text("<html>moved</html>")
    with pytest.raises(ConfigError, match=r"page\.p"):
        Rewards.of(settings(document_frequencies=page), data)
    data.vocabulary = range(10)
    whole = write_counts(tmp_path / "whole.p", with_end=True)
    with pytest.raises(ConfigError, match="a word of id 10, but the vocabulary ends at 9"):
        Rewards.of(settings(document_frequencies=whole), data)


def test_the_mean_of_others_needs_others() -> None:
    with pytest.raises(ConfigError, match="samples=2 or more"):
        settings(baseline="mean", samples=1)
    settings(baseline="greedy", samples=1)
