"""One symbol as start, end and padding, as captions have it: the searches need no other."""

from typing import Any

import pytest
import torch

from attnbench.models.decoding import beam_search, greedy_search, sample
from tests.models.decoding.markov import EOS, PAD, Markov

TWO: dict[str, Any] = {"bos": EOS, "eos": EOS, "pad": PAD}
ONE: dict[str, Any] = {"bos": EOS, "eos": EOS, "pad": None}


@pytest.fixture
def model() -> Markov:
    """A model that never says its padding, so that forbidding it changes nothing."""
    made = Markov.random(6, 9, seed=3)
    made.table_ITVV[..., PAD] = -1e9
    return made


def test_searches_give_the_same_with_and_without_a_padding_symbol(model: Markov) -> None:
    limits = [6, 3, 5, 1, 4, 6]
    every = list(range(model.items))
    for search, more in ((beam_search, {"width": 3}), (greedy_search, {})):
        with_pad, without = (
            search(model, model.start(every), items=6, max_length_I=limits, **more, **symbols)
            for symbols in (TWO, ONE)
        )
        assert with_pad == without


def test_rows_are_filled_with_the_end_symbol(model: Markov) -> None:
    drawn, padded = (
        sample(
            model,
            model.start(list(range(6))),
            items=6,
            width=4,
            seed_I=range(6),
            max_length_I=6,
            **each,
        )
        for each in (ONE, TWO)
    )
    assert torch.equal(drawn.valid_NT, padded.valid_NT)
    assert (drawn.tokens_NT[~drawn.valid_NT] == EOS).all()
    assert torch.equal(drawn.tokens_NT[drawn.valid_NT], padded.tokens_NT[drawn.valid_NT])
    assert (~drawn.valid_NT).any()
