"""What every variant does on feature maps: shapes, paths, padding, gradients, strides, memory."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnbench.models.attention import (
    Attention,
    AttentionMask,
    Boxes,
    Grid2D,
    SiteError,
    build_attention,
    traits_of,
    variant_examples,
)
from attnbench.models.attention.kernels import Path, force_path
from attnbench.models.attention.spec import Spec
from attnbench.models.attention.tiles import TILE
from tests.contract.cases import DIM, HEADS, elements
from tests.models.attention.compare import gradients, relative_error

CHAINS = [
    "terms(0010)+dynamic(kernel=3,groups=2)",
    "terms(0100,range=3)+dynamic(kernel=3,groups=2)",
    "gsa(query,geometry_dim=6)+dynamic(kernel=3,groups=2)",
]
EXAMPLES = [spec for spec in variant_examples(2) if traits_of(spec, 2).family != "none"]
SPECS = [*EXAMPLES, *CHAINS]
STRIDED = [spec for spec in SPECS if "cross" not in traits_of(spec, 2).lacks]
FIXED = [spec for spec in SPECS if spec not in STRIDED]
ENERGY = [spec for spec in SPECS if traits_of(spec, 2).family == "energy"]
BOXED = [spec for spec in EXAMPLES if Boxes.name in traits_of(spec, 2).geometry]
SIZES = [(5, 7), (1, 6), (6, 1), (1, 1)]
PATHS: tuple[Path, ...] = ("explicit", "mask", "fold", "blocks", "tiles", "separable")


def made(spec: str | Spec, *, dropout: float = 0.0) -> Attention:
    """A float64 module in evaluation mode, every parameter off its starting value."""
    module = build_attention(spec, dim=DIM, heads=HEADS, dropout=dropout, axes=2).double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        for buffer in module.buffers():
            buffer += torch.rand_like(buffer)
    return module


def cells(where: Grid2D, batch: int = 2) -> Tensor:
    """All cells of a map, (B, N, D)."""
    return elements(batch, where.height * where.width)


def kept(x_BND: Tensor, where: Grid2D, stride: int) -> Tensor:
    """The cells that a stride keeps."""
    return x_BND.unflatten(1, (where.height, where.width))[:, ::stride, ::stride].flatten(1, 2)


def corner(where: Grid2D, *sizes: tuple[int, int]) -> Tensor:
    """Valid-mask (B, N) of images that fill rows x columns of the map, from the first."""
    valid_BYX = torch.zeros(len(sizes), where.height, where.width, dtype=torch.bool)
    for item, (rows, columns) in enumerate(sizes):
        valid_BYX[item, :rows, :columns] = True
    return valid_BYX.flatten(1)


@pytest.mark.parametrize("spec", SPECS)
def test_shapes_and_weights(spec: str) -> None:
    module = made(spec)
    for size in SIZES:
        where = Grid2D(*size)
        x = cells(where)
        output = module(x, geometry=where, need_weights=True)
        assert output.context_BQD.shape == x.shape and torch.isfinite(output.context_BQD).all()
        plain = module(x, geometry=where)
        assert plain.weights is None
        torch.testing.assert_close(plain.context_BQD, output.context_BQD)
        if traits_of(spec, 2).weights == "dense":
            assert output.weights is not None
            assert output.weights.shape == (2, HEADS, where.queries, where.keys)
            torch.testing.assert_close(
                output.weights.sum(-1), torch.ones_like(output.weights.sum(-1))
            )


@pytest.mark.parametrize("spec", SPECS)
def test_padding_never_changes_a_valid_output_or_gets_a_gradient(spec: str) -> None:
    where = Grid2D(3, 5)
    valid = corner(where, (3, 5), (2, 3), (1, 1))
    module, x, mask = made(spec).train(), cells(where, 3), AttentionMask(valid)
    y = module(x, geometry=where, mask=mask).context_BQD[valid]
    other = torch.where(valid[..., None], x.detach(), 1e2 * torch.randn_like(x))
    moved = module(other, geometry=where, mask=mask).context_BQD[valid]
    torch.testing.assert_close(moved, y)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert (gradient[~valid] == 0).all() and (gradient[valid] != 0).any()


@pytest.mark.parametrize("spec", SPECS)
def test_an_image_does_not_notice_the_size_it_is_padded_to(spec: str) -> None:
    where, small = Grid2D(3, 5), Grid2D(2, 3)
    module, x = made(spec), cells(where, 1)
    valid = corner(where, (2, 3))
    part = x.unflatten(1, (3, 5))[:, :2, :3].flatten(1, 2)
    padded = module(x, geometry=where, mask=AttentionMask(valid)).context_BQD[valid]
    alone = module(part, geometry=small, mask=AttentionMask(corner(small, (2, 3)))).context_BQD
    torch.testing.assert_close(padded, alone[0])


@pytest.mark.parametrize("spec", SPECS)
def test_an_item_without_any_cell(spec: str) -> None:
    where = Grid2D(2, 3)
    module, x = made(spec).train(), cells(where)
    mask = AttentionMask(corner(where, (0, 0), (2, 3)))
    context = module(x, geometry=where, mask=mask).context_BQD
    assert torch.isfinite(context).all()
    wanted = [x, *module.parameters()]
    found = torch.autograd.grad(context.square().sum(), wanted, allow_unused=True)
    assert all(torch.isfinite(g).all() for g in found if g is not None)
    assert found[0] is not None and (found[0][0] == 0).all()


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_reach_every_parameter(spec: str) -> None:
    where = Grid2D(3, 4)
    fresh = build_attention(spec, dim=DIM, heads=HEADS, axes=2).double()
    for module in (made(spec).train(), fresh):
        context = module(cells(where), geometry=where).context_BQD
        (context * torch.randn_like(context)).sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
            void = name.endswith("key_proj.bias") or (
                name.endswith("query_proj.bias") and "nsa" in spec and "ngsa" not in spec
            )
            if not void and "ngsa" not in spec:
                assert (parameter.grad.abs() > 1e-9).any(), name


def on_path(
    module: Attention, x: Tensor, where: Grid2D, mask: AttentionMask, path: Path
) -> tuple[Tensor, dict[str, Tensor]]:
    """Context and gradients on one path."""
    query = kept(x, where, where.query_stride)
    memory = None if where.key_stride == 1 else kept(x, where, where.key_stride)
    with force_path(path):
        context = module(query, memory, geometry=where, mask=mask).context_BQD
    cotangent = torch.linspace(-1, 1, context.numel(), dtype=context.dtype).view_as(context)
    return context, gradients(context, {"x": x}, module, cotangent)


@pytest.mark.parametrize("spec", ENERGY)
def test_all_paths_agree(spec: str) -> None:
    """Value and gradient, with and without padding, strides where there can be some."""
    module = made(spec)
    for key_stride in (1, 2) if spec in STRIDED else (1,):
        where = Grid2D(3, 5, key_stride=key_stride)
        valid = corner(where, (3, 5), (2, 3))
        few = kept(valid[..., None], where, key_stride)[..., 0]
        for mask in (AttentionMask(few), AttentionMask()):
            x = cells(where)
            expected, theirs = on_path(module, x, where, mask, "explicit")
            for path in PATHS[1:]:
                context, ours = on_path(module, x, where, mask, path)
                assert relative_error(context, expected) < 1e-9, path
                for name, gradient in ours.items():
                    assert relative_error(gradient, theirs[name]) < 1e-9, (path, name)


@pytest.mark.parametrize("spec", STRIDED)
@pytest.mark.parametrize("key_stride, query_stride", [(2, 1), (1, 2), (2, 3)])
def test_strides(spec: str, key_stride: int, query_stride: int) -> None:
    module = made(spec)
    for size in SIZES:
        where = Grid2D(*size, key_stride=key_stride, query_stride=query_stride)
        x = cells(where)
        query, memory = kept(x, where, query_stride), kept(x, where, key_stride)
        output = module(query, memory, geometry=where, need_weights=True)
        assert output.context_BQD.shape == query.shape
        assert output.weights.shape == (2, HEADS, where.queries, where.keys)


@pytest.mark.parametrize("spec", FIXED)
def test_a_memory_is_refused_and_not_ignored(spec: str) -> None:
    where = Grid2D(4, 5, key_stride=2)
    with pytest.raises(SiteError):
        made(spec)(cells(where), kept(cells(where), where, 2), geometry=where)


@pytest.mark.parametrize("spec", SPECS)
def test_the_meta_device(spec: str) -> None:
    where = Grid2D(4, 5)
    with torch.device("meta"):
        module = build_attention(spec, dim=DIM, heads=HEADS, axes=2)
        x, valid = torch.empty(2, 20, DIM), torch.ones(2, 20, dtype=torch.bool)
    for path, mask in itertools.product((None, "explicit"), (None, AttentionMask(valid))):
        if path is None:
            context = module(x, geometry=where, mask=mask).context_BQD
        else:
            with force_path(path):
                context = module(x, geometry=where, mask=mask).context_BQD
        assert context.is_meta and context.shape == x.shape


@pytest.mark.parametrize("spec", SPECS)
def test_half_precision(spec: str) -> None:
    module, where = made(spec).float(), Grid2D(5, 7)
    x, mask = cells(where).float().detach(), AttentionMask(corner(where, (5, 7), (3, 4)))
    full = module(x, geometry=where, mask=mask).context_BQD
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = module(x, geometry=where, mask=mask).context_BQD
    low.float().square().mean().backward()
    assert (low.float() - full).abs().max() < 0.2 * full.abs().max()
    bare = module.to(torch.bfloat16)
    assert bare(x.bfloat16(), geometry=where, mask=mask).context_BQD.dtype == torch.bfloat16


@pytest.mark.parametrize("spec", SPECS)
def test_dropout_is_drawn_in_training_only(spec: str) -> None:
    module, where = made(spec, dropout=0.5), Grid2D(5, 7)
    x = cells(where)
    first, second = (module(x, geometry=where).context_BQD for _ in range(2))
    assert torch.equal(first, second)
    drawn = module.train()(x, geometry=where).context_BQD
    assert torch.isfinite(drawn).all()
    if traits_of(spec, 2).family == "energy":
        assert not torch.equal(drawn, first)


@pytest.mark.parametrize("spec", BOXED)
def test_cells_are_boxes_of_one_size(spec: str) -> None:
    """Value and gradient of the table of distances equal those of the boxes, with padding."""
    where = Grid2D(3, 5)
    valid = corner(where, (3, 5), (2, 3))
    module, mask = made(spec), AttentionMask(valid)
    x = cells(where)
    boxes = Boxes(where.boxes().boxes_BN4.expand(2, -1, -1), valid)
    found = []
    for geometry in (where, boxes):
        y = module(x, geometry=geometry, mask=mask).context_BQD * valid[..., None]
        cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
        found.append((y, gradients(y, {"x": x}, module, cotangent)))
    (ours, our_gradients), (theirs, their_gradients) = found
    assert relative_error(ours, theirs) < 1e-6
    for name, gradient in our_gradients.items():
        assert relative_error(gradient, their_gradients[name]) < 1e-6, name


@pytest.mark.parametrize(
    "spec",
    [
        *("dot", "nsa", "terms(1111)", "terms(0001)", "terms(0110)", "terms(0100,range=5)"),
        *("relation", "gsa(content+query+key,geometry_dim=6)"),
    ],
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_nothing_of_cells_by_cells_is_made(spec: str, dropout: float) -> None:
    """Forward and backward of a map of 960 cells; a tile is less than one head's scores."""
    where = Grid2D(24, 40)
    module = build_attention(spec, dim=DIM, heads=HEADS, dropout=dropout, axes=2).train()
    x = torch.randn(1, where.queries, DIM, requires_grad=True)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            sizes = [t.untyped_storage().nbytes() // 4 for t in made if isinstance(t, Tensor)]
            largest = max([largest, *sizes])
            return result

    with Watch():
        module(x, geometry=where).context_BQD.sum().backward()
    assert largest <= TILE < where.queries * where.keys / 3
