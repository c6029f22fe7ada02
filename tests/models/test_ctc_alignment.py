"""Alignment by CTC: the loss against every path, the pooling against a loop, what can't be done."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.models.ctc_alignment import CTCAligner, alignment_weights, ctc_loss
from attnbench.models.stream_layers import Packed, pack_stream
from attnbench.models.streams import Streams
from tests.models.sentiment_streams import DIMS, built, streams

LENGTHS = {"text": (3, 1, 2, 0), "audio": (4, 5, 1, 3)}


def aligned(seed: int = 0, **options: Any) -> tuple[Packed, Packed, Tensor]:
    """Text, audio and the log-probabilities of an aligner whose parameters are large."""
    batch = streams(LENGTHS, **options)
    text, audio = pack_stream(batch, "text"), pack_stream(batch, "audio")
    torch.manual_seed(seed)
    aligner = CTCAligner(DIMS["audio"], 7, 6, 2).double()
    with torch.no_grad():
        for parameter in aligner.parameters():
            parameter.add_(torch.randn_like(parameter))
    return text, audio, aligner(audio, text)


def collapse(path: tuple[int, ...]) -> list[int]:
    """What a path of symbols says: repeats joined, blanks left out."""
    return [symbol for symbol, _ in itertools.groupby(path) if symbol]


def test_probabilities_are_over_the_blank_and_the_text_of_an_item() -> None:
    text, audio, log_BTS = aligned()
    assert log_BTS.shape == (4, 5, 4)
    torch.testing.assert_close(log_BTS.exp().sum(-1), torch.ones(4, 5).double())
    for item, number in enumerate(LENGTHS["text"]):
        assert not log_BTS[item, :, number + 1 :].exp().any()


def test_loss_is_minus_the_log_of_all_paths_that_say_the_text() -> None:
    """By enumeration; in nats a text step, summed over the items that can be aligned."""
    text, audio, log_BTS = aligned()
    loss, items = ctc_loss(log_BTS, audio, text)
    expected, number = 0.0, 0
    for item, (words, steps) in enumerate(zip(LENGTHS["text"], LENGTHS["audio"], strict=True)):
        if not words or steps < words:
            continue
        total = 0.0
        for path in itertools.product(range(words + 1), repeat=steps):
            if collapse(path) == list(range(1, words + 1)):
                total += math.exp(sum(log_BTS[item, t, s].item() for t, s in enumerate(path)))
        expected, number = expected - math.log(total) / words, number + 1
    assert number == items.item() == 2
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_pooling_equals_a_loop() -> None:
    """Weights of a text step over the source: probability over its sum, the blank left out."""
    text, audio, log_BTS = aligned()
    pooled = alignment_weights(log_BTS, audio, text) @ audio.x_BTF
    for item, (words, steps) in enumerate(zip(LENGTHS["text"], LENGTHS["audio"], strict=True)):
        for word in range(3):
            expected = torch.zeros(DIMS["audio"]).double()
            if word < words:
                mass = log_BTS[item, :steps, word + 1].exp()
                for step in range(steps):
                    expected += mass[step] / mass.sum() * audio.x_BTF[item, step]
            torch.testing.assert_close(pooled[item, word], expected)


def test_weights_survive_probabilities_that_underflow() -> None:
    """A word that no step takes still gets a mean of the source, not a division by zero."""
    text, audio, log_BTS = aligned()
    low = log_BTS.detach().clone()
    low[0, :, 1] = torch.tensor([-3000.0, -3000.0, -3001.0, -3002.0, -5.0])
    weights = alignment_weights(low, audio, text)[0, 0]
    assert weights.sum().item() == pytest.approx(1) and weights[4] == 0
    assert weights[0] == weights[1] == pytest.approx(weights[2].item() * math.e)


def test_the_streams_are_on_the_steps_of_the_text() -> None:
    model: Any = built("ef-lstm", alignment_by="ctc")
    batch = streams({"text": (3, 1, 0), "audio": (4, 0, 3), "vision": (2, 6, 1)})
    found, losses, weights = model.align(batch)
    for name in DIMS:
        assert found.features[name].shape == (3, 3, DIMS[name])
    assert found.valid["audio"].sum(1).tolist() == [3, 0, 0]
    assert found.valid["vision"].sum(1).tolist() == [3, 1, 0]
    assert found.read_at["audio"].tolist() == [2, -1, -1]
    assert not found.features["audio"][1:].any()
    assert torch.equal(found.features["text"], batch.features["text"])
    output = model(batch, need_weights=True)
    assert set(output.weights) == {"text from audio", "text from vision"}
    rows = output.weights["text from audio"][0]
    assert rows.shape == (3, 1, 3, 4)
    torch.testing.assert_close(rows[0].sum(-1), torch.ones(1, 3).double())
    assert not rows[1:].any()


def test_items_that_cannot_be_aligned_leave_the_loss_as_it_is() -> None:
    """A source shorter than the text, no text, no source: neither inf nor a share of the mean."""
    model = built("ef-lstm", alignment_by="ctc").train()
    good = {"text": (3, 2), "audio": (4, 2), "vision": (3, 6)}
    bad = {"text": (4, 0, 2), "audio": (3, 2, 0), "vision": (2, 1, 1)}
    joined = {name: good[name] + bad[name] for name in good}
    alone = model(streams(good)).losses["ctc"]
    together = model(streams(joined)).losses["ctc"]
    assert alone > 0
    torch.testing.assert_close(together, alone)
    none = model(streams(bad)).losses["ctc"]
    assert none.item() == 0


def test_a_text_longer_than_announced_is_refused() -> None:
    """Padding doesn't count."""
    model = built("raven", alignment_by="ctc", text_steps=3)
    lengths = {"text": (3, 1), "audio": (9, 2), "vision": (5, 3)}
    padded = streams(lengths, extra=4, side="left")
    torch.testing.assert_close(model(padded).prediction_BO, model(streams(lengths)).prediction_BO)
    with pytest.raises(ValueError, match=r"text of 4 steps.* built for 3: set text_steps"):
        model(streams({"text": (4,), "audio": (9,), "vision": (5,)}))


def test_an_alignment_is_learnt() -> None:
    """Audio says which word it belongs to, two or three steps a word: CTC finds out by itself."""
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(0)
    words, items = 4, 16
    steps = torch.randint(2, 4, (items, words), generator=generator)
    length = int(steps.sum(1).max())
    codes = torch.randn(words, DIMS["audio"], generator=generator)
    audio, mask = torch.zeros(items, length, DIMS["audio"]), torch.zeros(items, length).bool()
    for item in range(items):
        said = codes.repeat_interleave(steps[item], 0)
        audio[item, : len(said)], mask[item, : len(said)] = said, True
    batch = Streams(
        {"text": torch.zeros(items, words, 1), "audio": audio},
        {"text": torch.ones(items, words).bool(), "audio": mask},
        {"text": torch.full((items,), words - 1), "audio": mask.sum(1) - 1},
    )
    text, source = pack_stream(batch, "text"), pack_stream(batch, "audio")
    aligner = CTCAligner(DIMS["audio"], words, 16, 1)
    optimizer = torch.optim.Adam(aligner.parameters(), lr=0.03)
    losses: list[float] = []
    for _ in range(80):
        loss, number = ctc_loss(aligner(source, text), source, text)
        losses.append(loss.item() / number.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.05 < 1 < losses[0]
    pooled = alignment_weights(aligner(source, text), source, text) @ source.x_BTF
    torch.testing.assert_close(pooled, codes.expand(items, -1, -1), rtol=0, atol=0.1)
