"""Samples follow the model, depend on their own seed alone, and carry gradients."""

from typing import Any

import pytest
import torch

from attnbench.models.decoding import DecodingError, Rollout, sample
from tests.models.decoding.markov import BOS, EOS, PAD, Markov

SYMBOLS: dict[str, Any] = {"bos": BOS, "eos": EOS, "pad": PAD}


def draw(model: Markov, width: int, seeds: list[int], items: list[int] | None = None, **options):
    chosen = list(range(model.items)) if items is None else items
    options = {"max_length_I": 6, **SYMBOLS, **options}
    state = model.start(chosen)
    return sample(model, state, items=len(chosen), width=width, seed_I=seeds, **options)


def outputs(drawn: Rollout) -> list[list[int]]:
    return [
        tokens[valid].tolist()
        for tokens, valid in zip(drawn.tokens_NT, drawn.valid_NT, strict=True)
    ]


def test_frequencies_are_the_models_probabilities() -> None:
    model = Markov.random(1, 8, seed=1)
    probability = model.table_ITVV[0, 0, BOS].clone()
    probability[[PAD, EOS]] = float("-inf")  # never, and not at first
    probability = probability.softmax(-1)
    count = 20_000
    first = draw(model, count, [5], max_length_I=1).tokens_NT[:, 0]
    frequency = torch.bincount(first, minlength=8) / count
    error = (probability * (1 - probability) / count).sqrt()
    assert (frequency - probability).abs().le(5 * error).all()


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_k": 5}, {"top_p": 0.8}])
def test_samples_depend_on_their_own_seed_alone(options: dict) -> None:
    model = Markov.random(10, 9, seed=2)
    seeds = [100 + item for item in range(10)]
    limits = [6, 3, 5, 1, 4, 6, 2, 6, 5, 3]
    together = draw(model, 3, seeds, max_length_I=limits, **options)
    rows = outputs(together)
    assert len({tuple(row) for row in rows}) > 15
    order = [7, 2, 9, 0, 4]
    shuffled = draw(
        model,
        3,
        [seeds[i] for i in order],
        order,
        max_length_I=[limits[i] for i in order],
        **options,
    )
    expected = [row for item in order for row in rows[3 * item : 3 * item + 3]]
    assert outputs(shuffled) == expected
    for item in range(10):
        alone = draw(model, 3, [seeds[item]], [item], max_length_I=limits[item], **options)
        assert outputs(alone) == rows[3 * item : 3 * item + 3]
    other = draw(model, 3, [seed + 1 for seed in seeds], max_length_I=limits, **options)
    assert outputs(other) != rows


def test_rows_end_with_eos_within_their_limits() -> None:
    model = Markov.random(8, 9, seed=3)
    limits = [2, 3, 4, 5, 6, 6, 6, 6]
    drawn = draw(model, 5, list(range(8)), max_length_I=limits, min_length=2)
    for row, tokens in enumerate(outputs(drawn)):
        assert tokens[-1] == EOS and EOS not in tokens[:-1] and PAD not in tokens
        assert 2 <= len(tokens) - 1 <= limits[row // 5]
    assert (drawn.tokens_NT[~drawn.valid_NT] == PAD).all()
    assert (drawn.log_probabilities_NT[~drawn.valid_NT] == 0).all()


def test_truncation_keeps_the_best_symbols_only() -> None:
    table = torch.zeros(1, 1, 8, 8)
    table[..., 4:] = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    table[..., :4] = -30
    model = Markov(table)

    def drawn(**options) -> set[int]:
        return set(draw(model, 500, [1], max_length_I=1, **options).tokens_NT[:, 0].tolist())

    assert drawn() == {4, 5, 6, 7}
    assert drawn(top_k=2) == {4, 5}
    assert drawn(top_p=0.7) == {4, 5}  # the smallest set that reaches 0.7
    assert drawn(top_p=0.76) == {4, 5, 6}
    assert drawn(top_k=1) == drawn(top_p=1e-6) == drawn(temperature=1e-3) == {4}


@pytest.mark.parametrize("options", [{}, {"temperature": 1.3}, {"top_k": 4}, {"top_p": 0.7}])
def test_log_probabilities_are_those_of_the_distribution_drawn_from(options: dict) -> None:
    model = Markov.random(2, 7, seed=6)
    drawn = draw(model, 4000, [1, 2], max_length_I=2, **options)
    for rows in (slice(0, 4000), slice(4000, 8000)):
        tokens, logs = drawn.tokens_NT[rows], drawn.log_probabilities_NT[rows]
        for symbol in range(7):
            here = tokens[:, 0] == symbol
            if not here.any():
                continue
            assert logs[here, 0].unique().numel() == 1
            share = here.float().mean().item()
            assert share == pytest.approx(logs[here, 0][0].exp().item(), abs=0.04)


def test_gradients_are_those_of_the_chosen_log_probabilities() -> None:
    model = Markov.random(3, 6, seed=7)
    parameter = model.table_ITVV.requires_grad_()
    drawn = draw(model, 2, [1, 2, 3], max_length_I=4)
    weight = torch.randn(6)
    (drawn.log_probabilities_NT.sum(1) * weight).sum().backward()
    found = parameter.grad
    assert found is not None

    other = parameter.detach().clone().requires_grad_()
    total = torch.zeros(())
    for row, tokens in enumerate(outputs(drawn)):
        for step, (last, token) in enumerate(zip([BOS, *tokens], tokens, strict=False)):
            if step == 4:
                continue  # the end was forced
            banned = [PAD, EOS] if step == 0 else [PAD]
            logits = other[row // 2, step, last].index_fill(0, torch.tensor(banned), -torch.inf)
            total = total + weight[row] * logits.log_softmax(-1)[token]
    total.backward()
    torch.testing.assert_close(found, other.grad)
    assert found.abs().sum() > 0
    with torch.no_grad():
        assert not draw(model, 2, [1, 2, 3]).log_probabilities_NT.requires_grad


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_k": -1}, "top_k must be 0 or more"),
        ({"top_p": 0.0}, "top_p in"),
        ({"seed_I": [1]}, "1 entries for 2 items"),
        ({"temperature": 0.0}, "temperature"),
        ({"max_length_I": 0}, "at most 0 symbols"),
    ],
)
def test_bad_arguments(options: dict, words: str) -> None:
    model = Markov.random(2, 6)
    arguments = {"items": 2, "seed_I": [1, 2], "max_length_I": 3, **SYMBOLS, **options}
    with pytest.raises(DecodingError, match=words):
        sample(model, model.start(), **arguments)


def test_a_diverged_model_is_refused() -> None:
    model = Markov(torch.full((1, 1, 6, 6), float("nan")))
    with pytest.raises(DecodingError, match="not numbers"):
        draw(model, 2, [1])
