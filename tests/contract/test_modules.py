"""Every variant as a module: gradients, order of keys, devices, precision, state dicts."""

import copy
import io

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import (
    Attention,
    AttentionMask,
    Sequence1D,
    build_attention,
    traits_of,
)
from tests.contract.cases import DIM, HEADS, SPECS, elements, made, padding, self_masks, that_can

BAGS = [spec for spec in that_can("cross") if not traits_of(spec).geometry]
PLACED = [spec for spec in SPECS if spec not in BAGS]


def without_effect(name: str, spec: str) -> bool:
    """Biases that the formula itself makes void.

    A constant on all keys adds the same to every score of a query, and softmax takes it out
    again; a constant on all queries leaves a norm over the elements as it was.
    """
    if name.endswith("key_proj.bias"):
        return True
    return name.endswith("query_proj.bias") and "nsa" in spec and "layer" not in spec


def assert_gradients_reach_every_parameter(module: Attention, spec: str, loss: Tensor) -> None:
    module.zero_grad()
    loss.backward()
    assert list(module.parameters())
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        if not without_effect(name, spec):
            assert (parameter.grad.abs() > 1e-9).any(), name


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_reach_every_parameter(spec: str) -> None:
    """Also straight after construction, where offsets are zero."""
    fresh = build_attention(spec, dim=DIM, heads=HEADS).double()
    for module in (made(spec).train(), fresh):
        for mask in self_masks(spec, padding(9, 5)):
            context = module(elements(2, 9), mask=mask).context_BQD
            loss = (context * torch.randn_like(context)).sum()
            assert_gradients_reach_every_parameter(module, spec, loss)


@pytest.mark.parametrize("spec", that_can("cross"))
def test_gradients_reach_every_parameter_and_the_memory(spec: str) -> None:
    module, x, memory = made(spec).train(), elements(2, 5), elements(2, 9)
    context = module(x, memory).context_BQD
    assert_gradients_reach_every_parameter(
        module, spec, (context * torch.randn_like(context)).sum()
    )
    assert memory.grad is not None and (memory.grad != 0).any(-1)[:, :5].all()


@pytest.mark.parametrize("spec", BAGS)
def test_the_order_of_the_elements_does_not_matter_without_positions(spec: str) -> None:
    module, x, memory = made(spec), elements(2, 6), elements(2, 9)
    valid = padding(9, 7)
    order, moved = torch.randperm(9), torch.randperm(6)
    mask, permuted = AttentionMask(valid, padding(6, 6)), AttentionMask(valid[:, order])
    context = module(x, memory, mask=mask).context_BQD
    torch.testing.assert_close(module(x, memory[:, order], mask=permuted).context_BQD, context)
    torch.testing.assert_close(
        module(x[:, moved], memory).context_BQD, module(x, memory)[0][:, moved]
    )
    torch.testing.assert_close(module(x[:, moved]).context_BQD, module(x)[0][:, moved])


@pytest.mark.parametrize("spec", PLACED)
def test_the_order_of_the_elements_matters_with_positions(spec: str) -> None:
    module, x = made(spec), elements(1, 9)
    moved = torch.randperm(9)
    assert not torch.allclose(module(x[:, moved]).context_BQD, module(x).context_BQD[:, moved])


@pytest.mark.parametrize("spec", SPECS)
def test_the_meta_device(spec: str) -> None:
    """Shapes without memory, for counting costs."""
    with torch.device("meta"):
        module = build_attention(spec, dim=DIM, heads=HEADS)
        x, valid = torch.empty(2, 9, DIM), torch.ones(2, 9, dtype=torch.bool)
    for mask in self_masks(spec, valid):
        context = module(x, geometry=Sequence1D(9, 9), mask=mask).context_BQD
        assert context.is_meta and context.shape == (2, 9, DIM)
        context.sum().backward()
    if spec in that_can("cross"):
        memory = torch.empty(2, 7, DIM, device="meta")
        assert module(x, memory).context_BQD.shape == (2, 9, DIM)


@pytest.mark.parametrize("spec", SPECS)
def test_half_precision(spec: str) -> None:
    module = made(spec).float()
    x = elements(2, 33).float().detach()
    for mask in self_masks(spec, padding(33, 20)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = module(x, mask=mask).context_BQD
        low.float().square().mean().backward()
        full = module(x, mask=mask).context_BQD
        assert (low.float() - full).abs().max() < 0.1 * full.abs().max()
    if spec in that_can("causal", "incremental"):
        state = module.begin()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for t in range(3):
                assert torch.isfinite(module(x[:, t : t + 1], state=state).context_BQD).all()


@pytest.mark.parametrize("spec", SPECS)
def test_all_of_a_module_in_half_precision(spec: str) -> None:
    module = made(spec).to(torch.bfloat16)
    x = elements(2, 9).to(torch.bfloat16)
    assert module(x).context_BQD.dtype == torch.bfloat16


@pytest.mark.parametrize("spec", SPECS)
def test_saved_and_loaded(spec: str) -> None:
    module, x = made(spec), elements(2, 7)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = build_attention(spec, dim=DIM, heads=HEADS).double().eval()
    assert not torch.equal(other(x).context_BQD, module(x).context_BQD)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x).context_BQD, module(x).context_BQD)
    assert torch.equal(copy.deepcopy(module)(x).context_BQD, module(x).context_BQD)


@pytest.mark.parametrize("spec", SPECS)
def test_dropout_is_off_outside_of_training(spec: str) -> None:
    module, x = made(spec, dropout=0.5), elements(2, 7)
    without = build_attention(spec, dim=DIM, heads=HEADS).double().eval()
    without.load_state_dict(module.state_dict())
    assert torch.equal(module(x).context_BQD, without(x).context_BQD)


@pytest.mark.parametrize("spec", SPECS)
def test_the_parts_of_aux_are_scalars(spec: str) -> None:
    for name, value in made(spec)(elements(2, 7)).aux.items():
        assert isinstance(name, str) and value.shape == () and torch.isfinite(value)
