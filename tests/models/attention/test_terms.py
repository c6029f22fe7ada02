"""The 16 configurations of Zhu et al. against loops, value and gradient."""

import pytest
import torch

from attnbench.models.attention import AttentionMask, NoAttention, Sequence1D, build_attention
from attnbench.models.attention.kernels import Path, force_path
from attnbench.models.attention.terms import TermsAttention
from tests.models.attention import naive
from tests.models.attention.compare import assert_same, disturbed, padding

TERMS = [f"{number:04b}" for number in range(1, 16)]
PATHS: tuple[Path, ...] = ("explicit", "mask", "fold")


def terms_module(spec: str, *, dim: int = 8, amount: float = 0.5) -> TermsAttention:
    module = disturbed(spec, dim=dim, amount=amount)
    assert isinstance(module, TermsAttention)
    return module


@pytest.mark.parametrize("reach", [0, 3])
@pytest.mark.parametrize("bits", TERMS)
def test_self_attention(bits: str, reach: int) -> None:
    module = terms_module(f"terms({bits},range={reach})")
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(5, 3)
    mask = AttentionMask(valid)
    assert_same(
        module,
        {"x": x},
        lambda: module(x, mask=mask).context_BQD,
        lambda: naive.terms(module, x, x, naive.visibility(valid, reach=reach))[0],
    )


@pytest.mark.parametrize("reach", [0, 3])
@pytest.mark.parametrize("bits", TERMS)
def test_causal_self_attention(bits: str, reach: int) -> None:
    module = terms_module(f"terms({bits},range={reach})")
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(5, 4)
    mask = AttentionMask(valid, causal=True)
    visible = naive.visibility(valid, causal=True, reach=reach)
    assert_same(
        module,
        {"x": x},
        lambda: module(x, mask=mask).context_BQD,
        lambda: naive.terms(module, x, x, visible)[0],
    )


@pytest.mark.parametrize("reach", [0, 5])
@pytest.mark.parametrize("queries, keys", [(3, 7), (6, 5)])
@pytest.mark.parametrize("bits", TERMS)
def test_encoder_decoder_attention(bits: str, queries: int, keys: int, reach: int) -> None:
    """Between source and target the relative position is key index minus query index."""
    module = terms_module(f"terms({bits},range={reach})")
    x = torch.randn(2, queries, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, keys, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(keys, keys - 2)
    mask = AttentionMask(valid)
    assert_same(
        module,
        {"x": x, "memory": memory},
        lambda: module(x, memory, mask=mask).context_BQD,
        lambda: naive.terms(module, x, memory, naive.visibility(valid, reach=reach))[0],
    )


@pytest.mark.parametrize("path", PATHS)
def test_odd_lengths(path: Path) -> None:
    module = terms_module("terms(1111)", dim=6)
    x = torch.randn(1, 21, 6, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(1, 37, 6, dtype=torch.float64, requires_grad=True)

    def fast() -> torch.Tensor:
        with force_path(path):
            return module(x, memory).context_BQD

    assert_same(module, {"x": x, "memory": memory}, fast, lambda: naive.terms(module, x, memory)[0])


@pytest.mark.parametrize(
    "options", ["scale=false", "base=1000.0", "bias=true", "base=100.0,bias=true,scale=false"]
)
def test_options(options: str) -> None:
    module = terms_module(f"terms(1111,{options})", amount=0.2)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    assert_same(
        module,
        {"x": x},
        lambda: module(x).context_BQD,
        lambda: naive.terms(module, x, x)[0],
    )
    changed = build_attention("terms(1111)", dim=8, heads=2).double()
    changed.load_state_dict(module.state_dict(), strict=False)
    assert not torch.allclose(changed(x).context_BQD, module(x).context_BQD)


@pytest.mark.parametrize("bits", TERMS)
def test_weights_are_the_distribution_of_the_formula(bits: str) -> None:
    module = terms_module(f"terms({bits})")
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    valid = padding(5, 3)
    output = module(x, mask=AttentionMask(valid), need_weights=True)
    _, weights = naive.terms(module, x, x, naive.visibility(valid))
    assert output.weights is not None
    torch.testing.assert_close(output.weights, weights)
    torch.testing.assert_close(output.weights.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64))
    torch.testing.assert_close(output.context_BQD, module(x, mask=AttentionMask(valid))[0])


def test_dot_is_e1_alone_with_biases() -> None:
    dot = terms_module("dot")
    terms = terms_module("terms(1000,bias=true)")
    terms.load_state_dict(dot.state_dict())
    x, memory = torch.randn(2, 3, 8).double(), torch.randn(2, 7, 8).double()
    torch.testing.assert_close(dot(x, memory)[0], terms(x, memory)[0])
    torch.testing.assert_close(dot(x, memory)[0], naive.terms(terms, x, memory)[0])
    # The same function as torch's own module.
    reference = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    assert dot.query_proj is not None and dot.key_proj is not None
    with torch.no_grad():
        projections = (dot.query_proj, dot.key_proj, dot.value_proj)
        reference.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        reference.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        reference.out_proj.load_state_dict(dot.out_proj.state_dict())
    torch.testing.assert_close(dot(x, memory)[0], reference(x, memory, memory)[0])


@pytest.mark.parametrize(
    ("bits", "shared"),
    [
        ("1000", {"query_proj", "key_proj"}),
        ("1010", {"query_proj", "key_proj", "content_bias_HE"}),
        ("0100", {"query_proj", "relative_proj"}),
        ("0101", {"query_proj", "relative_proj", "relative_bias_HE"}),
        ("0010", {"key_proj", "content_bias_HE"}),
        ("0001", {"relative_proj", "relative_bias_HE"}),
        (
            "1111",
            {"query_proj", "key_proj", "relative_proj", "content_bias_HE", "relative_bias_HE"},
        ),
    ],
)
def test_only_the_weights_of_the_formula_exist(bits: str, shared: set[str]) -> None:
    module = build_attention(f"terms({bits})", dim=8, heads=2)
    names = {name.partition(".")[0] for name, _ in module.named_parameters()}
    assert names == shared | {"value_proj", "out_proj"}


def test_no_terms_is_no_module() -> None:
    assert isinstance(build_attention("terms(0000)", dim=8, heads=2), NoAttention)


def test_position_only_attention_is_the_same_for_every_item() -> None:
    module = terms_module("terms(0001)")
    weights = module(torch.randn(3, 6, 8).double(), need_weights=True).weights
    assert weights is not None
    torch.testing.assert_close(weights, weights[:1].expand(3, -1, -1, -1))


def test_key_only_attention_is_the_same_for_every_query() -> None:
    module = terms_module("terms(0010)")
    output = module(torch.randn(3, 6, 8).double(), need_weights=True)
    assert output.weights is not None
    torch.testing.assert_close(output.weights, output.weights[:, :, :1].expand(-1, -1, 6, -1))
    assert output.context_BQD.shape == (3, 6, 8)


def test_relative_attention_does_not_care_where_the_sequence_starts() -> None:
    module = terms_module("terms(0101,range=3)")
    x = torch.randn(1, 9, 8).double()
    later = torch.cat([torch.randn(1, 4, 8).double(), x], 1)
    torch.testing.assert_close(module(x)[0][:, 1:-1], module(later)[0][:, 5:-1])


def test_a_geometry_of_another_batch_is_refused() -> None:
    module = build_attention("terms(0100)", dim=8, heads=2)
    with pytest.raises(ValueError, match="geometry is for 4 queries and 4 keys.*5 and 5"):
        module(torch.randn(1, 5, 8), geometry=Sequence1D(4, 4))


def test_dropout_drops_weights_in_training_only() -> None:
    module = build_attention("terms(1111)", dim=8, heads=2, dropout=0.5)
    x = torch.randn(2, 6, 8)
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("111", "four bits"),
        ("1112", "four bits"),
        ("1111,range=4", "odd number of keys"),
        ("1111,range=-1", "odd number of keys"),
    ],
)
def test_options_out_of_range(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_attention(f"terms({options})", dim=8, heads=2)
