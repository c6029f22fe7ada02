"""Beam search against a plain loop, against all possible outputs, and against itself."""

import itertools
from typing import Any

import pytest
import torch

from attnbench.models.decoding import (
    DecodingError,
    Hypothesis,
    LengthPenalty,
    beam_search,
    greedy_search,
)
from tests.models.decoding.markov import BOS, EOS, PAD, UNK, Markov
from tests.models.decoding.reference import Options, enumerate_all, quantised, search

SYMBOLS: dict[str, Any] = {"bos": BOS, "eos": EOS, "pad": PAD, "unk": UNK}

OPTIONS = [
    Options(4, 7, penalty=LengthPenalty("power", 0.6)),
    Options(1, 5),
    Options(2, 1),
    Options(3, 6, min_length=3, unk_penalty=2.0),
    Options(5, 6, penalty=LengthPenalty("gnmt", 0.6), temperature=0.7),
    Options(4, 6, penalty=LengthPenalty("power", 0.0)),
    Options(5, 9, penalty=LengthPenalty("power", 2.0), temperature=2.0),
    Options(3, 6, unk_penalty=-3.0),
    Options(7, 4, min_length=2, penalty=LengthPenalty("power", -1.0)),
    Options(30, 3),
]


def run(model: Markov, options: Options, n_best: int, items: list[int] | None = None):
    chosen = list(range(model.items)) if items is None else items
    return beam_search(
        model,
        model.start(chosen),
        items=len(chosen),
        width=options.width,
        max_length_I=options.limit,
        min_length=options.min_length,
        length_penalty=options.penalty,
        unk_penalty=options.unk_penalty,
        temperature=options.temperature,
        n_best=n_best,
        **SYMBOLS,
    )


def plain(found: list[Hypothesis]) -> list[tuple[list[int], float]]:
    return [(list(one.tokens), one.score) for one in found]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("vocabulary", [5, 9, 300])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_a_plain_loop(options: Options, vocabulary: int, ties: bool) -> None:
    items = 7 if vocabulary < 100 else 2
    make = quantised if ties else lambda *a: Markov.random(a[0], a[1], seed=a[2])
    model = make(items, vocabulary, 11)
    for item, found in enumerate(run(model, options, options.width)):
        expected = search(model, item, options, BOS)
        assert [tokens for tokens, _ in plain(found)] == [tokens for tokens, _ in expected]
        assert [one.score for one in found] == pytest.approx([s for _, s in expected], abs=1e-6)


@pytest.mark.parametrize("penalty", [LengthPenalty("power", 1.0), LengthPenalty("gnmt", 0.6)])
def test_a_wide_beam_finds_everything(penalty: LengthPenalty) -> None:
    model = Markov.random(3, 6, seed=5)
    limit = 3  # 4 symbols besides pad and eos: 4 + 16 + 64 outputs
    for item, found in enumerate(run(model, Options(100, limit, penalty=penalty), 100)):
        expected = enumerate_all(model, item, limit, penalty, BOS)
        assert [list(one.tokens) for one in found] == [tokens for tokens, _ in expected]


@pytest.mark.parametrize("options", [o for o in OPTIONS if o.width > 1], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_stopping_early_changes_nothing(options: Options, seed: int) -> None:
    """With fewer hypotheses asked for, items may stop once those are certain."""
    for make in (Markov.random, lambda items, v, seed: quantised(items, v, seed)):
        model = make(9, 12, seed=seed)
        everything = run(model, options, options.width)
        for n_best in {1, options.width // 2}:
            assert run(model, options, n_best) == [found[:n_best] for found in everything]


def test_stopping_early_saves_work() -> None:
    """After one certain ending nothing better can come, so no second step is spent on it."""
    table = torch.full((2, 9, 8, 8), -9.0)
    table[0, :, :, EOS] = 9.0
    table[1, ..., EOS] = -99.0
    table[1, :8, :, 5] = 9.0
    model = Markov(table)
    state = model.start()
    found = beam_search(
        model, state, items=2, width=4, max_length_I=8, min_length=0, n_best=1, **SYMBOLS
    )
    assert [len(one.tokens) for (one,) in found] == [1, 9]
    assert state.rows_computed == [2, *[4] * 8]  # one row an item in the first step


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_every_hypothesis_obeys(options: Options) -> None:
    model = Markov.random(20, 11, seed=3)
    for found in run(model, options, options.width):
        assert 1 <= len(found) <= options.width
        assert len({one.tokens for one in found}) == len(found)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for one in found:
            *symbols, last = one.tokens
            assert last == EOS and EOS not in symbols and PAD not in symbols
            assert options.min_length <= len(symbols) <= options.limit
            assert len(one.positional_scores) == len(one.tokens)
            expected = options.penalty.score(sum(one.positional_scores), len(one.tokens))
            assert one.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_width_1_is_greedy(options: Options) -> None:
    model = Markov.random(30, 13, seed=8)
    one = Options(**{**options.__dict__, "width": 1})
    greedy = greedy_search(
        model,
        model.start(),
        items=model.items,
        max_length_I=one.limit,
        min_length=one.min_length,
        length_penalty=one.penalty,
        unk_penalty=one.unk_penalty,
        temperature=one.temperature,
        **SYMBOLS,
    )
    for (beam,), other in zip(run(model, one, 1), greedy, strict=True):
        assert beam.tokens == other.tokens
        assert beam.score == pytest.approx(other.score, abs=1e-5)
        assert beam.positional_scores == pytest.approx(other.positional_scores, abs=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_other_items_change_nothing(options: Options) -> None:
    model = quantised(16, 9, seed=2)
    together = run(model, options, options.width)
    assert len({found[0].tokens for found in together}) > 3
    order = torch.randperm(model.items, generator=torch.Generator().manual_seed(1)).tolist()
    shuffled = run(model, options, options.width, order)
    assert [shuffled[order.index(item)] for item in range(model.items)] == together
    for item in range(model.items):
        assert run(model, options, options.width, [item]) == [together[item]]


def test_each_item_has_its_own_limit() -> None:
    model = Markov.random(12, 9, seed=4)
    model.table_ITVV[..., EOS] -= 4  # long outputs
    limits = [1, 8, 3, 5, 2, 7, 4, 6, 1, 8, 2, 3]
    arguments = {"width": 3, "n_best": 3, "min_length": 1, **SYMBOLS}
    state = model.start()
    together = beam_search(model, state, items=12, max_length_I=torch.tensor(limits), **arguments)
    assert {len(found[0].tokens) for found in together} == {2, 3, 4, 5, 6, 7, 8, 9}
    for item, limit in enumerate(limits):
        state = model.start([item])
        assert beam_search(model, state, items=1, max_length_I=limit, **arguments) == [
            together[item]
        ]


def test_no_items() -> None:
    model = Markov.random(1, 6)
    assert run(model, Options(3, 4), 1, []) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_best": 4}, "n_best must lie between 1 and the beam width 3"),
        ({"n_best": 0}, "n_best"),
        ({"max_length_I": [4]}, "1 entries for 2 items"),
        ({"max_length_I": [4, 2], "min_length": 3}, "item 1 may have at most 2 symbols but"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"unk": None, "unk_penalty": 1.0}, "pass unk"),
    ],
)
def test_bad_arguments(change: dict, words: str) -> None:
    model = Markov.random(2, 6)
    arguments = {"items": 2, "width": 3, "max_length_I": 4, **SYMBOLS, **change}
    with pytest.raises(DecodingError, match=words) as error:
        beam_search(model, model.start(), **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("width", [1, 3])
def test_a_diverged_model_is_refused(value: float, width: int) -> None:
    model = Markov.random(2, 200)
    model.table_ITVV[1, 2, :, 7] = value
    model.table_ITVV[..., EOS] = -20
    with pytest.raises(DecodingError, match="not numbers"):
        run(model, Options(width, 5), 1)
    with pytest.raises(DecodingError, match="not numbers"):
        greedy_search(model, model.start(), items=2, max_length_I=5, **SYMBOLS)


def test_an_end_of_probability_0_is_refused() -> None:
    model = Markov.random(2, 7)
    model.table_ITVV[1, ..., EOS] = float("-inf")
    with pytest.raises(DecodingError, match="no hypothesis of item 1 can end"):
        run(model, Options(3, 4), 1)


def test_a_wider_beam_is_no_worse_without_length_penalty() -> None:
    """Not true of single items; over many it shows whether the beam does its work."""
    model = Markov.random(60, 20, seed=9)
    means = []
    for width in (1, 2, 4, 8):
        options = Options(width, 8, penalty=LengthPenalty("power", 0.0))
        means.append(sum(found[0].score for found in run(model, options, 1)) / model.items)
    assert all(later > former for former, later in itertools.pairwise(means))
