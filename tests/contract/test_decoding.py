"""Causality, and decoding step by step: the same numbers as one pass over the whole sequence."""

import pytest
import torch

from attnbench.models.attention import AttentionMask, Sequence1D
from tests.contract.cases import elements, made, padding, that_can

CAUSAL = AttentionMask(causal=True)
DECODERS = that_can("causal", "incremental")
READERS = that_can("cross", "incremental")


@pytest.mark.trait("causal")
@pytest.mark.parametrize("spec", that_can("causal"))
@pytest.mark.parametrize("length", [2, 7, 63])
def test_the_future_changes_nothing(spec: str, length: int) -> None:
    module, x = made(spec).train(), elements(2, length)
    now = length // 2
    y = module(x, mask=CAUSAL).context_BQD[:, :now]
    other = torch.cat([x[:, :now], 100 * torch.randn_like(x[:, now:])], 1)
    torch.testing.assert_close(module(other, mask=CAUSAL).context_BQD[:, :now], y)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert (gradient[:, now:] == 0).all()


@pytest.mark.trait("causal")
@pytest.mark.parametrize("spec", that_can("causal"))
def test_the_past_does_change_something(spec: str) -> None:
    module, x = made(spec), elements(1, 3)
    (gradient,) = torch.autograd.grad(module(x, mask=CAUSAL).context_BQD[:, 2].sum(), x)
    assert (gradient[:, 1:] != 0).any(-1).all()


@pytest.mark.trait("causal", "incremental")
@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["no mask", "causal mask"])
@pytest.mark.parametrize("spec", DECODERS)
def test_step_by_step_equals_the_whole_pass(spec: str, mask: AttentionMask | None) -> None:
    module, x = made(spec), elements(2, 19)
    full = module(x, mask=CAUSAL).context_BQD
    state = module.begin()
    for t in range(19):
        output = module(x[:, t : t + 1], state=state, mask=mask)
        torch.testing.assert_close(output.context_BQD, full[:, t : t + 1])
        assert output.state is state


@pytest.mark.trait("causal", "incremental")
@pytest.mark.parametrize("spec", DECODERS)
def test_a_geometry_for_the_step_changes_nothing(spec: str) -> None:
    module, x = made(spec), elements(2, 5)
    full = module(x, mask=CAUSAL).context_BQD
    state = module.begin()
    for t in range(5):
        where = Sequence1D(1, t + 1, query_start=t)
        step = module(x[:, t : t + 1], geometry=where, state=state).context_BQD
        torch.testing.assert_close(step, full[:, t : t + 1])


@pytest.mark.trait("causal", "incremental")
@pytest.mark.parametrize("spec", DECODERS)
def test_several_positions_in_one_step(spec: str) -> None:
    """E.g. a prompt, then its continuation."""
    module, x = made(spec), elements(2, 11)
    full = module(x, mask=CAUSAL).context_BQD
    state = module.begin()
    steps = [module(part, state=state).context_BQD for part in x.split([4, 1, 6], 1)]
    torch.testing.assert_close(torch.cat(steps, 1), full)


@pytest.mark.trait("causal", "incremental")
@pytest.mark.parametrize("spec", DECODERS)
def test_rows_are_reordered_repeated_and_dropped(spec: str) -> None:
    """As a beam search does; the state follows each row's own past."""
    module = made(spec)
    history = elements(3, 0)
    state = module.begin()
    for index in ([0, 1, 2], [2, 0, 0, 1], [3, 1, 1, 0, 2], [4], [0, 0]):
        for _ in range(2):
            new = elements(len(history), 1)
            history = torch.cat([history, new], 1)
            step = module(new, state=state).context_BQD
            full = module(history, mask=CAUSAL).context_BQD
            torch.testing.assert_close(step, full[:, -1:])
        rows = torch.tensor(index).clamp(max=len(history) - 1)
        history = history[rows]
        state.select(rows)


@pytest.mark.trait("incremental")
@pytest.mark.parametrize("spec", DECODERS)
def test_the_state_says_how_much_it_holds(spec: str) -> None:
    module = made(spec)
    state = module.begin()
    assert state.nbytes == 0
    module(elements(2, 1), state=state)
    module(elements(2, 1), state=state)
    held = state.nbytes
    assert held == sum(tensor.numel() * 8 for tensor in state.tensors()) > 0
    state.select(torch.tensor([0]))
    assert 0 < state.nbytes < held


@pytest.mark.trait("cross", "incremental")
@pytest.mark.parametrize("spec", READERS)
def test_a_memory_is_read_once(spec: str) -> None:
    """Its state, made once an item, gives what the whole pass gives."""
    module, x, memory = made(spec), elements(2, 6), elements(2, 9)
    mask = AttentionMask(padding(9, 4))
    full = module(x, memory, mask=mask).context_BQD
    state = module.begin(memory, mask)
    held = state.nbytes
    for t in range(6):
        where = Sequence1D(1, 9, query_start=t)
        step = module(x[:, t : t + 1], geometry=where, mask=mask, state=state).context_BQD
        torch.testing.assert_close(step, full[:, t : t + 1])
    whole = module(x, geometry=Sequence1D(6, 9), mask=mask, state=state).context_BQD
    torch.testing.assert_close(whole, full)
    assert state.nbytes >= held > 0


@pytest.mark.trait("cross", "incremental")
@pytest.mark.parametrize("spec", READERS)
def test_the_beams_of_an_item_share_its_memory(spec: str) -> None:
    """4 beams are 4 queries at one position; nothing of the memory is repeated."""
    module, beams, memory = made(spec), elements(2, 4, 6), elements(2, 9)
    valid = padding(9, 4)
    state = module.begin(memory, AttentionMask(valid))
    assert state.nbytes <= 2 * memory.nbytes
    for t in range(6):
        where = Sequence1D(4, 9, query_start=t, query_step=0)
        step = module(
            beams[:, :, t], geometry=where, mask=AttentionMask(valid), state=state
        ).context_BQD
        for beam in range(4):
            full = module(beams[:, beam], memory, mask=AttentionMask(valid)).context_BQD
            torch.testing.assert_close(step[:, beam], full[:, t])


@pytest.mark.trait("cross", "incremental")
@pytest.mark.parametrize("spec", READERS)
def test_items_are_dropped_from_the_memory(spec: str) -> None:
    module, x, memory = made(spec), elements(3, 1), elements(3, 9)
    valid = padding(9, 4, 7)
    state = module.begin(memory, AttentionMask(valid))
    keep = torch.tensor([2, 0])
    state.select(keep)
    step = module(x[keep], mask=AttentionMask(valid[keep]), state=state).context_BQD
    full = module(x, memory, mask=AttentionMask(valid)).context_BQD
    torch.testing.assert_close(step, full[keep])
