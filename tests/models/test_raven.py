"""RAVEN: the shift of a word against a loop, its bound, sub-networks of one step."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench.models.raven import OneStepLSTM, limited
from attnbench.models.streams import Streams
from tests.models.sentiment_streams import ALIGNED, DIMS, built, streams

BETA = 0.4


def shifted_word(model: Any, word_F: Tensor, said: dict[str, Tensor | None]) -> Tensor:
    """The paper's equations for one word; None: nothing was sampled during it."""
    shift_F = model.bias.clone()
    for name, x_F in said.items():
        weight, bias = model.subnetworks[name].gates.weight, model.subnetworks[name].gates.bias
        hidden = len(bias) // 3
        state_H = torch.zeros(hidden, dtype=word_F.dtype)
        if x_F is not None:
            enter, made, leave = (weight @ x_F + bias).split(hidden)
            state_H = torch.sigmoid(leave) * torch.tanh(torch.sigmoid(enter) * torch.tanh(made))
        gate = torch.sigmoid(
            model.gates[name].weight[0] @ torch.cat([state_H, word_F]) + model.gates[name].bias[0]
        )
        shift_F = shift_F + gate * (model.shifts[name].weight @ state_H)
    alpha = (BETA * word_F.norm() / shift_F.norm()).clamp_max(1)
    return word_F + alpha * shift_F


def test_predictions_equal_a_loop_over_words() -> None:
    model: Any = built("raven", raven_beta=BETA)
    batch = streams({**ALIGNED, "audio": (5, 2, 0, 4)})
    batch = Streams(
        batch.features,
        {**batch.valid, "vision": batch.valid["vision"] & (torch.arange(5) != 1)},
        batch.read_at,
    )
    for item, number in enumerate(ALIGNED["text"]):
        words: list[Tensor] = []
        for step in range(number):
            said = {
                name: batch.features[name][item, step] if batch.valid[name][item, step] else None
                for name in ("audio", "vision")
            }
            words.append(shifted_word(model, batch.features["text"][item, step], said))
        state_H = model.lstm(torch.stack(words)[None])[0][0, -1]
        expected = model.head(state_H[None])[0]
        torch.testing.assert_close(model(batch).prediction_BO[item], expected)


def test_a_sub_network_is_an_lstm_that_makes_one_step() -> None:
    torch.manual_seed(0)
    ours: Any = OneStepLSTM(5, 4)
    lstm: Any = nn.LSTM(5, 4, batch_first=True)
    with torch.no_grad():
        kept = [lstm.weight_ih_l0[:4], lstm.weight_ih_l0[8:12], lstm.weight_ih_l0[12:]]
        ours.gates.weight.copy_(torch.cat(kept))
        bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
        ours.gates.bias.copy_(torch.cat([bias[:4], bias[8:12], bias[12:]]))
    x_BTF = torch.randn(3, 6, 5)
    expected = lstm(x_BTF.reshape(18, 1, 5))[0].view(3, 6, 4)
    torch.testing.assert_close(ours(x_BTF), expected)


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
def test_a_shift_is_at_most_beta_words_long_and_keeps_its_direction(beta: float) -> None:
    torch.manual_seed(1)
    shift, words = 3 * torch.randn(50, 6).double(), torch.randn(50, 6).double()
    scaled = limited(shift, words, beta)
    most = beta * words.norm(dim=-1)
    assert (scaled.norm(dim=-1) <= most + 1e-9).all()
    short = shift.norm(dim=-1) <= most
    assert torch.equal(scaled[short], shift[short])
    if beta:
        cosine = nn.functional.cosine_similarity(scaled, shift)
        torch.testing.assert_close(cosine, torch.ones_like(cosine))


def test_zero_words_and_zero_shifts_have_finite_gradients() -> None:
    shift = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [1e-30, 0.0]], requires_grad=True)
    words = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    scaled = limited(shift, words, 1.0)
    scaled.sum().backward()
    assert torch.equal(scaled[:3], torch.zeros(3, 2))
    for tensor in (shift, words):
        assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_text_alone_is_an_lstm_over_words() -> None:
    model: Any = built("raven", modalities=("text",))
    batch = streams({"text": (4,)})
    expected = model.head(model.lstm(batch.features["text"])[0][:, -1])
    torch.testing.assert_close(model(batch).prediction_BO, expected)
    assert {name.split(".")[0] for name in model.state_dict()} == {"lstm", "head"}
    assert model.lstm.input_size == DIMS["text"]
