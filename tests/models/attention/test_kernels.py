"""Every path of the energy family gives the same numbers, values and gradients."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnbench.models.attention import Attention, AttentionMask, Sequence1D
from attnbench.models.attention.kernels import (
    AxisScores,
    Energy,
    Path,
    attend,
    force_path,
    forced_path,
)
from attnbench.models.attention.masks import Allowed
from attnbench.models.attention.terms import TermsAttention
from tests.models.attention.compare import disturbed, gradients, padding, relative_error

SPECS = [
    *(f"terms({number:04b})" for number in range(1, 16)),
    "terms(1111,range=5)",
    "terms(0100,range=3)",
    "dot",
    "nsa",
    "nsa(norm=layer,on=query+key)",
]
FUSED: tuple[Path, ...] = ("mask", "fold", "blocks")
PATHS: tuple[Path, ...] = ("explicit", *FUSED)


def run(
    module: Attention, x: Tensor, memory: Tensor | None, mask: AttentionMask, path: Path
) -> tuple[Tensor, dict[str, Tensor]]:
    """Context and gradients on one path."""
    inputs = {"x": x} if memory is None else {"x": x, "memory": memory}
    with force_path(path):
        context = module(x, memory, mask=mask).context_BQD
    cotangent = torch.linspace(-1, 1, context.numel(), dtype=context.dtype).view_as(context)
    return context, gradients(context, inputs, module, cotangent)


def assert_paths_agree(
    spec: str, x: Tensor, memory: Tensor | None, mask: AttentionMask, tolerance: float
) -> None:
    module = disturbed(spec, dim=x.shape[-1]).to(x.dtype)
    expected, expected_gradients = run(module, x, memory, mask, "explicit")
    for path in FUSED:
        context, found = run(module, x, memory, mask, path)
        assert relative_error(context, expected) < tolerance, path
        for name, gradient in found.items():
            assert relative_error(gradient, expected_gradients[name]) < tolerance, (path, name)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("queries, keys", [(63, 63), (63, 111), (1, 1), (2, 1), (1, 7)])
def test_paths_agree(spec: str, queries: int, keys: int) -> None:
    """Odd lengths with padding; another sequence where the lengths differ."""
    x = torch.randn(2, queries, 16, dtype=torch.float64, requires_grad=True)
    memory = None
    if queries != keys:
        memory = torch.randn(2, keys, 16, dtype=torch.float64, requires_grad=True)
    valid = padding(keys, max(keys - 3, 1), width=keys)
    assert_paths_agree(spec, x, memory, AttentionMask(valid), 1e-9)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "nsa"])
def test_paths_agree_where_the_future_is_hidden(spec: str) -> None:
    x = torch.randn(2, 37, 16, dtype=torch.float64, requires_grad=True)
    assert_paths_agree(spec, x, None, AttentionMask(padding(37, 20), causal=True), 1e-9)


@pytest.mark.parametrize("spec", ["terms(1111)", "terms(1100,range=5)", "terms(0110)"])
def test_paths_agree_in_single_precision(spec: str) -> None:
    x = torch.randn(2, 63, 16, requires_grad=True)
    assert_paths_agree(spec, x, None, AttentionMask(padding(63, 40)), 2e-4)


@pytest.mark.parametrize("spec", SPECS)
def test_paths_agree_where_some_queries_may_read_nothing(spec: str) -> None:
    x = torch.randn(3, 9, 16, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(3, 5, 16, dtype=torch.float64, requires_grad=True)
    valid = padding(5, 0, 2)
    assert_paths_agree(spec, x, memory, AttentionMask(valid, padding(9, 9, 9)), 1e-9)
    module = disturbed(spec, dim=16)
    context, found = run(module, x, memory, AttentionMask(valid), "explicit")
    assert isinstance(module, TermsAttention)
    torch.testing.assert_close(context[1], module.out_proj.bias.expand(9, -1))
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    assert (found["memory"][1] == 0).all()


def energy_of(*parts: str, batch: int = 2, queries: int = 5, keys: int = 7) -> Energy:
    """An energy with the named parts, 3 heads of width 4."""
    made: dict[str, object] = {}
    if "product" in parts:
        made["query_BHQE"] = torch.randn(batch, 3, queries, 4).double()
        made["key_BHKE"] = torch.randn(batch, 3, keys, 4).double()
    if "key" in parts:
        made["key_bias_BHK"] = torch.randn(batch, 3, keys).double()
    axes = []
    if "axis" in parts:
        axes.append(AxisScores(torch.randn(batch, 3, queries, keys).double()))
    if "shared axis" in parts:
        axes.append(AxisScores(torch.randn(1, 3, queries, keys).double()))
    if "column" in parts:
        coordinate = torch.tensor([0, 1, 0, 2, 1, 1, 2])[:keys]
        axes.append(AxisScores(torch.randn(batch, 3, queries, 3).double(), coordinate))
    return Energy(**made, axes=tuple(axes))  # pyright: ignore[reportArgumentType]


PARTS = ("key", "axis", "shared axis", "column")


@pytest.mark.parametrize(
    "parts", [p for n in range(len(PARTS) + 1) for p in itertools.combinations(PARTS, n)]
)
def test_every_sum_of_parts(parts: tuple[str, ...]) -> None:
    """Any combination of scores, also by the coordinates of an axis that keys share."""
    energy = energy_of("product", *parts)
    value = torch.randn(2, 3, 7, 4).double()
    allowed = Allowed(padding(7, 4)[:, None, None])
    scores = energy.query_BHQE @ energy.key_BHKE.transpose(-2, -1)  # pyright: ignore
    if energy.key_bias_BHK is not None:
        scores = scores + energy.key_bias_BHK[:, :, None]
    for axis in energy.axes:
        for key in range(7):
            column = key if axis.coordinate_K is None else int(axis.coordinate_K[key])
            scores[..., key] = scores[..., key] + axis.scores[..., column]
    weights = scores.masked_fill(~padding(7, 4)[:, None, None], -torch.inf).softmax(-1)
    for path in PATHS:
        with force_path(path):
            context, _ = attend(energy, value, allowed, queries=5)
        torch.testing.assert_close(context, weights @ value)


def test_asking_for_weights_changes_nothing_else() -> None:
    module = disturbed("terms(1111)")
    x = torch.randn(2, 9, 8).double()
    mask = AttentionMask(padding(9, 0, width=9))
    plain, asked = module(x, mask=mask), module(x, mask=mask, need_weights=True)
    torch.testing.assert_close(plain.context_BQD, asked.context_BQD)
    assert plain.weights is None and asked.weights is not None
    assert (asked.weights[1] == 0).all()


def test_an_energy_needs_a_part() -> None:
    with pytest.raises(ValueError, match="at least one part"):
        attend(Energy(), torch.randn(1, 1, 2, 2), Allowed(None), queries=2)


def test_a_forced_path_ends_with_its_block() -> None:
    with pytest.raises(RuntimeError), force_path("fold"):
        with force_path("explicit"):
            assert forced_path() == "explicit"
        assert forced_path() == "fold"
        raise RuntimeError
    assert forced_path() is None


def test_no_path_makes_a_tensor_of_queries_by_keys_by_width() -> None:
    """The largest tensor of forward and backward stays far below Q x K x D."""
    queries = keys = 64
    module = disturbed("terms(1111)", dim=64, heads=2)
    x = torch.randn(1, queries, 64, dtype=torch.float64, requires_grad=True)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            sizes = [t.numel() for t in made if isinstance(t, Tensor)]
            largest = max([largest, *sizes])
            return result

    for path in PATHS:
        with force_path(path), Watch():
            module(x, geometry=Sequence1D(queries, keys)).context_BQD.sum().backward()
    assert largest < queries * keys * 64 / 4
