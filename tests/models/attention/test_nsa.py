"""Normalised self-attention (Guo et al., CVPR 2020) against loops, and its statistics."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from attnbench.models.attention import AttentionMask, SiteError, SpecError, build_attention
from attnbench.models.attention.nsa import NORMS, PLACES, ElementNorm, NormalisedAttention
from tests.models.attention import naive
from tests.models.attention.compare import assert_same, disturbed, padding

ALL = [
    f"nsa(norm={norm},on={on},affine={affine})"
    for norm, on, affine in itertools.product(NORMS, PLACES, ("false", "true"))
]


def nsa_module(spec: str) -> NormalisedAttention:
    module = disturbed(spec)
    assert isinstance(module, NormalisedAttention)
    return module


@pytest.mark.parametrize("spec", ALL)
def test_self_attention(spec: str) -> None:
    module = nsa_module(spec)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(5, 3)
    visible = naive.visibility(valid)
    assert_same(
        module,
        {"x": x},
        lambda: module(x, mask=AttentionMask(valid)).context_BQD * valid[..., None],
        lambda: naive.nsa(module, x, x, valid, valid, visible)[0] * valid[..., None],
    )


@pytest.mark.parametrize("spec", ALL)
def test_attention_to_another_sequence(spec: str) -> None:
    """Queries are normalised over the queries that are real, keys over the keys."""
    module = nsa_module(spec)
    x = torch.randn(2, 4, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 7, 8, dtype=torch.float64, requires_grad=True)
    valid_BQ, valid_BK = padding(3, 4), padding(7, 5)
    mask = AttentionMask(valid_BK, valid_BQ)
    visible = naive.visibility(valid_BK)
    assert_same(
        module,
        {"x": x, "memory": memory},
        lambda: module(x, memory, mask=mask).context_BQD * valid_BQ[..., None],
        lambda: naive.nsa(module, x, memory, valid_BQ, valid_BK, visible)[0] * valid_BQ[..., None],
    )


def test_the_memory_mask_is_not_taken_for_the_queries() -> None:
    module = nsa_module("nsa")
    x, memory = torch.randn(2, 5, 8).double(), torch.randn(2, 5, 8).double()
    valid = padding(2, 5)
    expected, _ = naive.nsa(
        module, x, memory, torch.ones_like(valid), valid, naive.visibility(valid)
    )
    torch.testing.assert_close(module(x, memory, mask=AttentionMask(valid))[0], expected)


def test_instance_norm_is_torchs_where_nothing_is_padded() -> None:
    x = torch.randn(3, 6, 8)
    ours, theirs = ElementNorm(8, "instance"), nn.InstanceNorm1d(8)
    torch.testing.assert_close(ours(x, None), theirs(x.transpose(1, 2)).transpose(1, 2))


def test_layer_norm_is_torchs() -> None:
    x = torch.randn(3, 6, 8)
    torch.testing.assert_close(ElementNorm(8, "layer")(x, None), nn.LayerNorm(8)(x))


def test_batch_norm_is_torchs_over_the_real_elements() -> None:
    """In training and after it, also the running statistics."""
    ours, theirs = ElementNorm(8, "batch", affine=True), nn.BatchNorm1d(8)
    valid = padding(6, 2, 4)
    for _ in range(3):
        x = 2 * torch.randn(3, 6, 8) + 1
        torch.testing.assert_close(ours(x, valid)[valid], theirs(x[valid]))
    torch.testing.assert_close(ours.running_mean_D, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance_D, theirs.running_var)
    ours.eval()
    theirs.eval()
    x = torch.randn(3, 6, 8)
    torch.testing.assert_close(ours(x, valid)[valid], theirs(x[valid]))


@pytest.mark.parametrize("norm", NORMS)
def test_padded_elements_are_zero_and_count_for_nothing(norm: str) -> None:
    module = ElementNorm(8, norm, affine=True)
    assert module.shift_D is not None
    nn.init.normal_(module.shift_D)
    x = torch.randn(2, 6, 8)
    valid = padding(6, 3)
    normed = module(x, valid)
    other = module(torch.where(valid[..., None], x, 1e4), valid)
    torch.testing.assert_close(normed, other)
    assert (normed[~valid] == 0).all()


@pytest.mark.parametrize("valid", [padding(1, 1), padding(0, 0, width=1), None])
def test_one_element_has_no_variance(valid: Tensor | None) -> None:
    """Instance norm of a sequence of one gives 0, with finite gradients."""
    x = torch.randn(2, 1, 8, requires_grad=True)
    normed = ElementNorm(8, "instance")(x, valid)
    assert (normed == 0).all()
    normed.sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_a_batch_without_real_elements_leaves_the_running_statistics() -> None:
    module = ElementNorm(8, "batch")
    before = module.running_variance_D.clone()
    assert (module(torch.randn(2, 3, 8), padding(0, 0, width=3)) == 0).all()
    torch.testing.assert_close(module.running_variance_D, before)


def test_instance_norm_adds_no_parameter() -> None:
    """As published: WMT14 gains "no extra parameters"."""

    def count(spec: str) -> int:
        module = build_attention(spec, dim=8, heads=2)
        return sum(parameter.numel() for parameter in module.parameters())

    assert count("nsa") == count("dot") == count("nsa(norm=batch)") == count("nsa(norm=layer)")
    assert count("nsa(affine=true)") == count("dot") + 16
    assert count("nsa(affine=true,on=query+key)") == count("dot") + 32


@pytest.mark.parametrize("spec", ["nsa", "nsa(norm=batch)", "nsa(on=key)"])
def test_nothing_runs_where_the_statistics_would_see_the_future(spec: str) -> None:
    module = build_attention(spec, dim=8, heads=2)
    with pytest.raises(SiteError, match="see the future"):
        module(torch.randn(2, 3, 8), mask=AttentionMask(causal=True))
    with pytest.raises(SiteError, match="see the future"):
        module.begin()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nsa(norm=group)", "norm is one of instance, batch, layer, not 'group'"),
        ("nsa(on=value)", r"on is one of query, key, query\+key, not 'value'"),
        ("nsa(affine=1)", "affine is true or false, not 1"),
        ("nsa(norm=1)", "norm is a word, not 1"),
    ],
)
def test_options_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(spec, dim=8, heads=2)
