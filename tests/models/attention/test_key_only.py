"""E3 alone with sums before projections against the explicit path, value and gradient."""

import pytest
import torch

from attnbench.models.attention import AttentionMask, Grid2D, build_attention
from attnbench.models.attention.kernels import force_path
from attnbench.models.attention.key_only import attend_by_keys_only
from attnbench.models.attention.terms import TermsAttention
from tests.models.attention.compare import assert_same, padding


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", ["", ",bias=true", ",scale=true"])
def test_the_explicit_path(options: str, padded: bool) -> None:
    """Also an item without any real cell."""
    module = build_attention(f"terms(0010{options})", dim=8, heads=2, axes=2).double()
    assert isinstance(module, TermsAttention)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    x = torch.randn(3, 15, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(15, 8, 0) if padded else None

    def slow() -> torch.Tensor:
        with force_path("explicit"):
            return module(x, geometry=Grid2D(3, 5), mask=AttentionMask(valid)).context_BQD

    assert_same(
        module, {"x": x}, lambda: attend_by_keys_only(module, x, valid).expand(-1, 15, -1), slow
    )


def test_dropout_drops_whole_keys() -> None:
    """A weight counts for key and bias alike, whether kept or dropped."""
    module = build_attention("terms(0010,bias=true)", dim=8, heads=2, axes=2)
    assert isinstance(module, TermsAttention)
    x = torch.randn(2, 15, 8)
    nothing = attend_by_keys_only(module, x, None, dropout=1.0)
    torch.testing.assert_close(nothing, module.out_proj.bias.expand_as(nothing))
