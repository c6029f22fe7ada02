"""What every variant returns: shapes, weights, padding, rows without keys, refusals."""

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import AttentionMask, Sequence1D, SiteError, traits_of
from attnbench.models.attention.kernels import Path, force_path
from tests.contract.cases import (
    DIM,
    HEADS,
    SPECS,
    attended,
    elements,
    made,
    padding,
    place,
    self_masks,
    that_can,
    that_lack,
)


def assert_weights_mean_what_the_traits_say(
    spec: str, weights: Tensor | None, queries: int, keys: int
) -> None:
    kind = traits_of(spec).weights
    if kind == "none":
        assert weights is None
        return
    assert weights is not None
    assert (weights.shape[0], weights.shape[2]) == (2, queries)
    total = weights.sum(-1)
    # A query whose range holds padding only reads nothing; every other reads a distribution.
    torch.testing.assert_close(total, (total > 0.5).double())
    assert (weights >= 0).all() and (total[:, :, 0] > 0.5).all()
    if kind == "dense":
        assert weights.shape == (2, HEADS, queries, keys)


@pytest.mark.trait("weights", "causal")
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("length", [1, 2, 63, 111])
def test_self_attention_keeps_the_shape(spec: str, length: int) -> None:
    module, x = made(spec), elements(2, length)
    for mask in (None, *self_masks(spec, padding(length, max(1, length // 2)))):
        where = place(spec, x, mask) or Sequence1D(length, length)
        output = module(x, geometry=where, mask=mask, need_weights=True)
        assert output.context_BQD.shape == (2, length, DIM)
        assert torch.isfinite(output.context_BQD).all()
        assert output.state is None
        assert_weights_mean_what_the_traits_say(spec, output.weights, length, length)
        bare = attended(module, spec, x, mask)
        assert bare.weights is None
        torch.testing.assert_close(bare.context_BQD, output.context_BQD)


@pytest.mark.trait("cross", "weights")
@pytest.mark.parametrize("spec", that_can("cross"))
@pytest.mark.parametrize("queries, keys", [(63, 111), (111, 63), (1, 5), (5, 1)])
def test_a_memory_of_another_length(spec: str, queries: int, keys: int) -> None:
    module, x, memory = made(spec), elements(2, queries), elements(2, keys)
    mask = AttentionMask(padding(keys, max(1, keys // 2)), padding(queries, queries))
    output = module(x, memory, geometry=Sequence1D(queries, keys), mask=mask, need_weights=True)
    assert output.context_BQD.shape == (2, queries, DIM)
    assert torch.isfinite(output.context_BQD).all()
    assert_weights_mean_what_the_traits_say(spec, output.weights, queries, keys)


@pytest.mark.parametrize("spec", SPECS)
def test_an_item_does_not_notice_its_padding_or_its_neighbours(spec: str) -> None:
    module, x = made(spec), elements(3, 9)
    lengths = (9, 5, 1)
    for mask in self_masks(spec, padding(*lengths)):
        together = attended(module, spec, x, mask).context_BQD
        for item, length in enumerate(lengths):
            bare = AttentionMask(causal=mask.causal)
            part = x[item : item + 1, :length]
            alone = attended(module, spec, part, bare, first=item).context_BQD
            torch.testing.assert_close(together[item : item + 1, :length], alone)


@pytest.mark.trait("cross")
@pytest.mark.parametrize("spec", that_can("cross"))
def test_a_memory_does_not_notice_its_padding(spec: str) -> None:
    module, x, memory = made(spec), elements(2, 4), elements(2, 9)
    valid = padding(9, 5)
    together = module(x, memory, mask=AttentionMask(valid, padding(4, 4))).context_BQD
    for item, length in enumerate((9, 5)):
        part = slice(item, item + 1)
        alone = module(x[part], memory[part, :length]).context_BQD
        torch.testing.assert_close(together[part], alone)


@pytest.mark.parametrize("spec", SPECS)
def test_padding_never_changes_a_valid_output_or_gets_a_gradient(spec: str) -> None:
    """In training mode too, where batch statistics are taken."""
    module = made(spec).train()
    valid = padding(9, 5, 1)
    x = elements(3, 9)
    other = torch.where(valid[..., None], x.detach(), 1e3 * torch.randn(3, 9, DIM).double())
    for mask in self_masks(spec, valid):
        y = attended(module, spec, x, mask).context_BQD[valid]
        torch.testing.assert_close(attended(module, spec, other, mask).context_BQD[valid], y)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        assert (gradient[~valid] == 0).all() and (gradient[valid] != 0).any()


@pytest.mark.parametrize("spec", SPECS)
def test_an_item_without_any_element(spec: str) -> None:
    """Finite values that depend on no input, finite gradients."""
    module = made(spec).train()
    x = elements(2, 5)
    for mask in self_masks(spec, padding(0, 5)):
        context = attended(module, spec, x, mask).context_BQD
        assert torch.isfinite(context).all()
        wanted = [x, *module.parameters()]
        gradients = torch.autograd.grad(context.square().sum(), wanted, allow_unused=True)
        assert all(torch.isfinite(g).all() for g in gradients if g is not None)
        assert gradients[0] is not None and (gradients[0][0] == 0).all()
        torch.testing.assert_close(context[0], context[0, :1].expand(5, -1))


@pytest.mark.trait("cross")
@pytest.mark.parametrize("spec", that_can("cross"))
def test_a_memory_without_any_element(spec: str) -> None:
    module = made(spec).train()
    x, memory = elements(2, 3), elements(2, 5)
    mask = AttentionMask(padding(0, 5), padding(3, 3))
    output = module(x, memory, mask=mask, need_weights=True)
    context = output.context_BQD
    assert output.weights is not None and (output.weights[0] == 0).all()
    torch.testing.assert_close(context[0], context[0, :1].expand(3, -1))
    wanted = [x, memory, *module.parameters()]
    gradients = torch.autograd.grad(context.square().sum(), wanted, allow_unused=True)
    assert all(torch.isfinite(g).all() for g in gradients if g is not None)
    assert gradients[1] is not None and (gradients[1][0] == 0).all()
    alone = module.eval()(x[1:], memory[1:]).context_BQD
    torch.testing.assert_close(module(x, memory, mask=mask).context_BQD[1:], alone)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("path", ["explicit", "mask", "fold"])
def test_every_path_gives_the_same(spec: str, path: Path) -> None:
    module, x = made(spec), elements(2, 63)
    for mask in self_masks(spec, padding(63, 40)):
        expected = attended(module, spec, x, mask).context_BQD
        with force_path(path):
            torch.testing.assert_close(attended(module, spec, x, mask).context_BQD, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_the_memory_layout_of_the_input_does_not_matter(spec: str) -> None:
    module, x = made(spec), elements(2, 7)
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert not strided.is_contiguous()
    y = attended(module, spec, x).context_BQD
    torch.testing.assert_close(attended(module, spec, strided).context_BQD, y)


@pytest.mark.trait("cross")
@pytest.mark.parametrize("spec", that_lack("cross"))
def test_a_memory_is_refused_and_not_ignored(spec: str) -> None:
    module = made(spec)
    x = elements(2, 3)
    with pytest.raises(SiteError):
        module(x, elements(2, 5), geometry=place(spec, x))
    with pytest.raises(SiteError):
        module.begin(elements(2, 5))


@pytest.mark.trait("causal")
@pytest.mark.parametrize("spec", that_lack("causal"))
def test_a_causal_mask_is_refused_and_not_ignored(spec: str) -> None:
    with pytest.raises(SiteError):
        attended(made(spec), spec, elements(2, 3), AttentionMask(causal=True))


@pytest.mark.trait("incremental")
@pytest.mark.parametrize("spec", that_lack("incremental"))
def test_decoding_is_refused_and_not_wrong(spec: str) -> None:
    with pytest.raises(SiteError):
        made(spec).begin()


def test_no_attention_is_zero() -> None:
    module, x = made("none"), elements(2, 5)
    assert not list(module.parameters())
    assert (module(x, elements(2, 7)).context_BQD == 0).all()
    assert module(x, state=module.begin()).context_BQD.shape == x.shape
    assert module.begin().nbytes == 0
