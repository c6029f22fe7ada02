"""MCTN: translation and back against a loop, text alone at test time, what the losses count."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench.models.mctn import CyclicTranslation, Seq2Seq, translation_loss
from attnbench.models.stream_layers import Packed
from attnbench.models.streams import Streams
from tests.models.sentiment_streams import ALIGNED, DIMS, built, small, streams


def decoded(level: Any, joint_TH: Tensor, enter: nn.Module, leave: nn.Module) -> Tensor:
    """A translation of one item without padding, step by step."""
    state, made = torch.tanh(level.start(joint_TH[-1])), []
    memory = torch.zeros_like(state)
    fed = torch.zeros(level.cell.input_size - len(state)).double()
    for _ in range(len(joint_TH)):
        scores = [
            level.score(torch.tanh(level.key(other) + level.query(state))) for other in joint_TH
        ]
        context = (torch.cat(scores).softmax(0)[:, None] * joint_TH).sum(0)
        state, memory = level.cell(torch.cat([fed, context])[None], (state[None], memory[None]))
        state, memory = state[0], memory[0]
        made.append(leave(torch.cat([state, context])))
        fed = enter(made[-1])
    return torch.stack(made)


def test_losses_and_predictions_equal_a_loop() -> None:
    """Text to vision and back by one model, then on to audio by another."""
    model: Any = built("mctn").train()
    batch = streams(ALIGNED)
    output = model(batch)
    errors: dict[str, list[Tensor]] = {"vision": [], "audio": [], "text": []}
    for item, number in enumerate(ALIGNED["text"]):
        real = {name: batch.features[name][item, :number] for name in DIMS}
        first, second = model.levels
        joint = first.encoder(model.enter["text"](real["text"])[None])[0][0]
        vision = decoded(first, joint, model.enter["vision"], model.leave["vision"])
        again = first.encoder(model.enter["vision"](vision)[None])[0][0]
        text = decoded(first, again, model.enter["text"], model.leave["text"])
        deeper = second.encoder(joint[None])[0][0]
        audio = decoded(second, deeper, model.enter["audio"], model.leave["audio"])
        for name, made in (("vision", vision), ("audio", audio), ("text", text)):
            errors[name].append((made - real[name]).square())
        expected = model.head(model.predict(deeper[None])[0][:, -1])[0]
        torch.testing.assert_close(output.prediction_BO[item], expected)
    error = {name: torch.cat(squares).mean() for name, squares in errors.items()}
    for name in DIMS:
        real_NF = batch.features[name][batch.valid[name]]
        error[name] = error[name] / max(1.0, real_NF.square().mean().item())
    torch.testing.assert_close(output.losses["translation"], error["vision"] + error["audio"])
    torch.testing.assert_close(output.losses["cycle"], error["text"])


def test_text_alone_is_read_at_test_time() -> None:
    """And training predicts the same, steps of other modalities beyond the text included."""
    model = built("mctn")
    full = streams({**ALIGNED, "audio": (5, 5, 5, 5)})
    text = Streams(*({"text": part["text"]} for part in (full.features, full.valid, full.read_at)))
    expected = model(text).prediction_BO
    assert torch.equal(model(full).prediction_BO, expected)
    torch.testing.assert_close(model.train()(full).prediction_BO, expected)


def test_two_modalities_have_one_level() -> None:
    model = CyclicTranslation(small(modalities=("text", "audio")), 8).double().train()
    output = model(streams({"text": (3, 1), "audio": (3, 1)}))
    assert len(model.levels) == 1
    assert output.losses["translation"] > 0 and output.losses["cycle"] > 0


def test_only_the_first_translation_goes_back() -> None:
    model: Any = built("mctn").train()
    losses = model(streams(ALIGNED)).losses
    parameters = list(model.levels[1].parameters())
    grads = torch.autograd.grad(losses["cycle"], parameters, retain_graph=True, allow_unused=True)
    assert all(grad is None for grad in grads)
    grads = torch.autograd.grad(losses["translation"], parameters)
    assert all(grad.abs().sum() > 0 for grad in grads)


@pytest.mark.parametrize(("scale", "expected"), [(0.5, 0.25), (1.0, 1.0), (300.0, 1.0)])
def test_features_in_large_units_do_not_drown_the_task(scale: float, expected: float) -> None:
    """Nothing but zeros costs the mean square of small features, and 1 of large ones."""
    x = scale * torch.ones(2, 3, 4)
    valid = torch.tensor([[True, True, False], [False, False, False]])
    target = Packed(x * valid[..., None], valid, torch.tensor([1, -1]))
    assert translation_loss(torch.zeros_like(x), target).item() == pytest.approx(expected)


def test_a_target_without_steps_costs_nothing() -> None:
    made = torch.ones(2, 3, 4, requires_grad=True)
    nothing = Packed(torch.zeros(2, 3, 4), torch.zeros(2, 3).bool(), torch.tensor([-1, -1]))
    loss = translation_loss(made, nothing)
    loss.backward()
    assert loss.item() == 0
    assert made.grad is not None and not made.grad.any()


def test_a_translation_is_learnt() -> None:
    """The target is the text turned around in time: attention must look elsewhere."""
    torch.manual_seed(0)
    model = Seq2Seq(3, 3, 24)
    enter, leave = nn.Linear(3, 3), nn.Linear(48, 3)
    source = torch.randn(8, 4, 3)
    valid, end = torch.ones(8, 4).bool(), torch.full((8,), 3)
    text, target = Packed(source, valid, end), Packed(source.flip(1), valid, end)
    parameters = [*model.parameters(), *enter.parameters(), *leave.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses: list[float] = []
    for _ in range(120):
        loss = translation_loss(model.decode(model.encode(source), text, enter, leave), target)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.1 * losses[0]
