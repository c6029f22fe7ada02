"""Every variant as a module: gradients, order of keys, devices, precision, state dicts."""

import copy
import io

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import (
    Attention,
    AttentionMask,
    Boxes,
    Grid2D,
    Sequence1D,
    SiteError,
    build_attention,
    traits_of,
)
from tests.contract.cases import (
    DIM,
    HEADS,
    SPECS,
    attended,
    boxes_of,
    elements,
    in_boxes,
    made,
    padding,
    place,
    self_masks,
    that_can,
)

BAGS = [spec for spec in that_can("cross") if not traits_of(spec).geometry]
BOXED = [spec for spec in SPECS if in_boxes(spec)]
PLACED = [spec for spec in SPECS if spec not in BAGS]


def without_effect(name: str, spec: str) -> bool:
    """Biases that the formula itself makes void.

    A constant on all keys adds the same to every score of a query, and softmax takes it out
    again; a constant on all queries leaves a norm over the elements as it was.
    """
    if name.endswith("key_proj.bias"):
        return True
    normed = spec.startswith(("nsa", "ngsa")) and "layer" not in spec
    return name.endswith("query_proj.bias") and normed


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
            context = attended(module, spec, elements(2, 9), mask).context_BQD
            loss = (context * torch.randn_like(context)).sum()
            assert_gradients_reach_every_parameter(module, spec, loss)


@pytest.mark.trait("cross")
@pytest.mark.parametrize("spec", that_can("cross"))
def test_gradients_reach_every_parameter_and_the_memory(spec: str) -> None:
    module, x, memory = made(spec).train(), elements(2, 5), elements(2, 9)
    context = module(x, memory).context_BQD
    assert_gradients_reach_every_parameter(
        module, spec, (context * torch.randn_like(context)).sum()
    )
    assert memory.grad is not None and (memory.grad != 0).any(-1)[:, :5].all()


@pytest.mark.trait("geometry")
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


@pytest.mark.trait("geometry", "cross")
@pytest.mark.parametrize("spec", PLACED)
def test_the_order_of_the_elements_matters_with_positions(spec: str) -> None:
    module, x = made(spec), elements(1, 9)
    moved = torch.randperm(9)
    y = attended(module, spec, x).context_BQD
    assert not torch.allclose(attended(module, spec, x[:, moved]).context_BQD, y[:, moved])


@pytest.mark.trait("geometry")
@pytest.mark.parametrize("spec", [spec for spec in BOXED if "+deformable" not in spec])
def test_regions_and_their_boxes_may_come_in_any_order(spec: str) -> None:
    module, x, boxes = made(spec), elements(2, 9), boxes_of(elements(2, 9))
    valid, moved = padding(9, 5), torch.randperm(9)
    y = module(x, geometry=Boxes(boxes, valid), mask=AttentionMask(valid)).context_BQD
    turned = valid[:, moved]
    permuted = module(
        x[:, moved], geometry=Boxes(boxes[:, moved], turned), mask=AttentionMask(turned)
    ).context_BQD
    torch.testing.assert_close(permuted[turned], y[:, moved][turned])


@pytest.mark.trait("geometry")
@pytest.mark.parametrize("spec", BOXED)
def test_boxes_may_be_moved_and_scaled_but_not_left_out(spec: str) -> None:
    """Pixels or fractions of the image, and any origin."""
    module, x, boxes = made(spec), elements(2, 9), boxes_of(elements(2, 9))
    y = module(x, geometry=Boxes(boxes)).context_BQD
    for other in (boxes * 640, boxes + 3, boxes * 0.01 - 7):
        torch.testing.assert_close(module(x, geometry=Boxes(other)).context_BQD, y)
    stretched = boxes.clone()
    stretched[:, 0, 2] += 5
    assert not torch.allclose(module(x, geometry=Boxes(stretched)).context_BQD, y)
    for nothing in (None, Sequence1D(9, 9)):
        with pytest.raises(SiteError, match="needs the boxes of the regions"):
            module(x, geometry=nothing)


@pytest.mark.parametrize("spec", BOXED)
def test_broken_boxes_give_finite_values(spec: str) -> None:
    """Without width or height, turned round, all in one place, anything in the padding."""
    module, x, valid = made(spec).train(), elements(2, 6), padding(6, 4)
    boxes = boxes_of(x).clone()
    boxes[0, 1, 2:] = boxes[0, 1, :2]
    boxes[0, 2, 2] = boxes[0, 2, 0]
    boxes[0, 3] = boxes[0, 3, [2, 3, 0, 1]]
    boxes[1, :4] = torch.tensor([3.0, 4, 3, 4])
    boxes[1, 4:] = torch.nan
    y = module(x, geometry=Boxes(boxes, valid), mask=AttentionMask(valid)).context_BQD
    wanted = [x, *module.parameters()]
    gradients = torch.autograd.grad(y[valid].square().sum(), wanted)
    assert torch.isfinite(y).all() and all(torch.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("spec", BOXED)
def test_the_cells_of_a_grid_are_boxes(spec: str) -> None:
    module, x, grid = made(spec), elements(2, 6), Grid2D(2, 3)
    cells = [[c, r, c + 1, r + 1] for r in range(2) for c in range(3)]
    boxes = Boxes(torch.tensor([cells, cells], dtype=torch.float32))
    y = module(x, geometry=boxes).context_BQD
    torch.testing.assert_close(module(x, geometry=grid).context_BQD, y)


@pytest.mark.parametrize("spec", SPECS)
def test_the_meta_device(spec: str) -> None:
    """Shapes without memory, for counting costs."""
    with torch.device("meta"):
        module = build_attention(spec, dim=DIM, heads=HEADS)
        x, valid = torch.empty(2, 9, DIM), torch.ones(2, 9, dtype=torch.bool)
    for mask in self_masks(spec, valid):
        where = place(spec, x, mask) or Sequence1D(9, 9)
        context = module(x, geometry=where, mask=mask).context_BQD
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
            low = attended(module, spec, x, mask).context_BQD
        low.float().square().mean().backward()
        full = attended(module, spec, x, mask).context_BQD
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
    assert attended(module, spec, x).context_BQD.dtype == torch.bfloat16


@pytest.mark.parametrize("spec", SPECS)
def test_saved_and_loaded(spec: str) -> None:
    module, x = made(spec), elements(2, 7)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = build_attention(spec, dim=DIM, heads=HEADS).double().eval()
    y = attended(module, spec, x).context_BQD
    assert not torch.equal(attended(other, spec, x).context_BQD, y)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(attended(other, spec, x).context_BQD, y)
    assert torch.equal(attended(copy.deepcopy(module), spec, x).context_BQD, y)


@pytest.mark.parametrize("spec", SPECS)
def test_dropout_is_off_outside_of_training(spec: str) -> None:
    module, x = made(spec, dropout=0.5), elements(2, 7)
    without = build_attention(spec, dim=DIM, heads=HEADS).double().eval()
    without.load_state_dict(module.state_dict())
    y = attended(module, spec, x).context_BQD
    assert torch.equal(attended(without, spec, x).context_BQD, y)


@pytest.mark.parametrize("spec", SPECS)
def test_the_parts_of_aux_are_scalars(spec: str) -> None:
    for name, value in attended(made(spec), spec, elements(2, 7)).aux.items():
        assert isinstance(name, str) and value.shape == () and torch.isfinite(value)
