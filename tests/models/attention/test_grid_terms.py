"""The 16 configurations on feature maps against loops, value and gradient, on every path."""

import itertools

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import (
    AttentionMask,
    Grid2D,
    NoAttention,
    Sequence1D,
    SiteError,
    SpecError,
    build_attention,
)
from attnbench.models.attention.grid_terms import GridTermsAttention
from attnbench.models.attention.kernels import Path, force_path
from tests.models.attention import naive_grid
from tests.models.attention.compare import assert_same, padding

TERMS = [f"{number:04b}" for number in range(1, 16)]
PATHS: tuple[Path, ...] = ("explicit", "mask", "fold", "blocks", "tiles", "separable")
STRIDES = list(itertools.product((1, 2, 3), (1, 2)))
ODD = [(3, 5), (1, 6), (6, 1), (1, 1)]


def made(spec: str, *, dim: int = 8, amount: float = 0.4) -> GridTermsAttention:
    """A float64 module whose every parameter is off its starting value."""
    module = build_attention(spec, dim=dim, heads=2, axes=2).double()
    assert isinstance(module, GridTermsAttention)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += amount * torch.randn_like(parameter)
    return module


def kept(x_BND: Tensor, where: Grid2D, stride: int) -> Tensor:
    """The cells that a stride keeps."""
    x_BYXD = x_BND.unflatten(1, (where.height, where.width))
    return x_BYXD[:, ::stride, ::stride].flatten(1, 2)


def compare(
    module: GridTermsAttention,
    where: Grid2D,
    valid_BK: Tensor | None = None,
    path: Path | None = None,
) -> None:
    """Values and gradients equal those of the loops."""
    x = torch.randn(2, where.height * where.width, module.dim, dtype=torch.float64)
    x.requires_grad_()
    mask = None if valid_BK is None else AttentionMask(valid_BK)

    def both() -> tuple[Tensor, Tensor]:
        return kept(x, where, where.query_stride), kept(x, where, where.key_stride)

    def fast() -> Tensor:
        query, memory = both()
        if path is None:
            return module(query, memory, geometry=where, mask=mask).context_BQD
        with force_path(path):
            return module(query, memory, geometry=where, mask=mask).context_BQD

    assert_same(
        module, {"x": x}, fast, lambda: naive_grid.terms(module, *both(), where, valid_BK)[0]
    )


@pytest.mark.parametrize("reach", [0, 3])
@pytest.mark.parametrize("bits", TERMS)
def test_every_term(bits: str, reach: int) -> None:
    compare(made(f"terms({bits},range={reach})"), Grid2D(3, 4), padding(12, 7))


@pytest.mark.parametrize("key_stride, query_stride", STRIDES)
@pytest.mark.parametrize("spec", ["terms(1111)", "terms(0001)", "terms(0101,range=3)"])
def test_strides(spec: str, key_stride: int, query_stride: int) -> None:
    """A range may leave a query without any key."""
    compare(made(spec), Grid2D(3, 5, key_stride=key_stride, query_stride=query_stride))


@pytest.mark.parametrize("bits", TERMS)
def test_every_term_with_a_key_stride(bits: str) -> None:
    compare(made(f"terms({bits})"), Grid2D(5, 3, key_stride=2), padding(6, 4))


@pytest.mark.parametrize("height, width", ODD)
@pytest.mark.parametrize("spec", ["terms(1111)", "terms(0001)", "terms(1111,range=5)"])
def test_odd_sizes(spec: str, height: int, width: int) -> None:
    """Also maps smaller than the range."""
    compare(made(spec), Grid2D(height, width))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("options", ["", ",range=3", ",range=1"])
@pytest.mark.parametrize("bits", ["1111", "1001", "0110", "0100", "0001", "0010", "0011"])
def test_every_path(bits: str, options: str, path: Path) -> None:
    valid = padding(6, 4)
    compare(made(f"terms({bits}{options})"), Grid2D(2, 3), valid, path)
    if bits == "0001":
        compare(made(f"terms({bits}{options})"), Grid2D(2, 3), path=path)


@pytest.mark.parametrize(
    "options",
    [
        "scale=true",
        "base=50.0",
        "bias=true",
        "position_dim=12",
        "magnitude=0.5",
        "width=12",
        "position_dim=4,width=6,magnitude=3,scale=true,bias=true,base=100.0",
    ],
)
def test_options(options: str) -> None:
    compare(made(f"terms(1111,{options})", amount=0.2), Grid2D(3, 4))


@pytest.mark.parametrize("bits", TERMS)
@pytest.mark.parametrize("reach", [0, 3])
def test_weights_are_the_distribution_of_the_formula(bits: str, reach: int) -> None:
    module, where = made(f"terms({bits},range={reach})"), Grid2D(3, 4)
    x, valid = torch.randn(2, 12, 8, dtype=torch.float64), padding(12, 5)
    output = module(x, geometry=where, mask=AttentionMask(valid), need_weights=True)
    _, weights = naive_grid.terms(module, x, x, where, valid)
    assert output.weights is not None
    torch.testing.assert_close(output.weights, weights)


def test_position_only_attention_is_the_same_for_every_item() -> None:
    weights = made("terms(0001)")(
        torch.randn(3, 6, 8).double(), geometry=Grid2D(2, 3), need_weights=True
    ).weights
    assert weights is not None
    torch.testing.assert_close(weights, weights[:1].expand(3, -1, -1, -1))


def test_what_is_relative_moves_with_the_map() -> None:
    """With a range of 3 x 3 the inner cells don't notice what is around the map."""
    module = made("terms(1111,range=3)")
    x = torch.randn(1, 7, 8, 8).double()
    part = x[:, 2:6, 3:8]
    whole = module(x.flatten(1, 2), geometry=Grid2D(7, 8)).context_BQD.view(1, 7, 8, 8)
    alone = module(part.flatten(1, 2), geometry=Grid2D(4, 5)).context_BQD.view(1, 4, 5, 8)
    torch.testing.assert_close(alone[:, 1:-1, 1:-1], whole[:, 3:5, 4:7])


def test_rows_and_columns_are_told_apart() -> None:
    module, x = made("terms(0100)"), torch.randn(1, 6, 8).double()
    wide, high = (module(x, geometry=Grid2D(*size)).context_BQD for size in ((2, 3), (3, 2)))
    assert not torch.allclose(wide, high)


def test_two_maps_of_as_many_cells_share_a_mask() -> None:
    """What a mask remembers of one shape doesn't serve the other."""
    module, x = made("terms(1111,range=3)"), torch.randn(1, 8, 8).double()
    valid = torch.tensor([[False] * 7 + [True]])
    mask = AttentionMask(valid)
    for size in ((2, 4), (4, 2), (1, 8)):
        y = module(x, geometry=Grid2D(*size), mask=mask).context_BQD
        expected = naive_grid.terms(module, x, x, Grid2D(*size), valid)[0]
        torch.testing.assert_close(y, expected)


def test_encodings_are_made_once_for_all_layers() -> None:
    columns, like = Grid2D(3, 4).columns, torch.empty(())
    first = columns.encoding(None, 8, 1000.0, 1.0, like)
    assert columns.encoding(None, 8, 1000.0, 1.0, like) is first
    assert first.shape == (7, 8)


def test_no_terms_is_no_module() -> None:
    assert isinstance(build_attention("terms(0000)", dim=8, heads=2, axes=2), NoAttention)


@pytest.mark.parametrize("path", ["tiles", "explicit"])
def test_dropout_keeps_the_mean(path: Path) -> None:
    module = made("terms(0011)", amount=0.1).float()
    x, where = torch.randn(1, 12, 8), Grid2D(3, 4)
    module.dropout = 0.5
    with force_path(path), torch.no_grad():
        drawn = torch.stack([module(x, geometry=where).context_BQD for _ in range(400)])
        module.eval()
        expected = module(x, geometry=where).context_BQD
    assert not torch.equal(drawn[0], drawn[1])
    assert (drawn.mean(0) - expected).abs().max() < 0.2 * drawn.std(0).max()


@pytest.mark.parametrize(
    ("geometry", "error", "message"),
    [
        (None, SiteError, "need its height and width: pass a Grid2D"),
        (Sequence1D(6, 6), SiteError, "need the geometry Grid2D, not Sequence1D"),
        (Grid2D(2, 4), ValueError, "the geometry is for 8 queries and 8 keys.*has 6 and 6"),
        (Grid2D(2, 3, key_stride=2), ValueError, "6 queries and 2 keys.*has 6 and 6"),
    ],
)
def test_a_geometry_that_does_not_fit(
    geometry: Grid2D | None, error: type[Exception], message: str
) -> None:
    module = build_attention("terms(0100)", dim=8, heads=2, axes=2)
    with pytest.raises(error, match=message):
        module(torch.randn(1, 6, 8), geometry=geometry)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("111", "four bits"),
        ("1111,range=4", "odd number of keys"),
        ("1111,position_dim=6", "position_dim is a multiple of 4"),
        ("1111,width=-2", "width is a number of channels"),
        ("1111,width=7", "2 heads don't divide the width 7"),
        ("1111,magnitude=0", "magnitude is a positive number"),
        ("1111,base=0", "base is a positive number"),
    ],
)
def test_options_out_of_range(options: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(f"terms({options})", dim=8, heads=2, axes=2)
    with pytest.raises(SpecError, match="write position_dim=8"):
        build_attention("terms(0001)", dim=10, heads=2, axes=2)


def test_there_is_no_past_on_a_map() -> None:
    module, x = made("terms(1010)"), torch.randn(1, 6, 8).double()
    with pytest.raises(SiteError, match="no order"):
        module(x, geometry=Grid2D(2, 3), mask=AttentionMask(causal=True))
    with pytest.raises(SiteError, match="no order"):
        module.begin()
