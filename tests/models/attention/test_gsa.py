"""Attention by the geometry of boxes (Guo et al., Hu et al.) against loops; sizes and memory."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnbench.models.attention import (
    Attention,
    AttentionMask,
    Boxes,
    Site,
    SiteError,
    SpecError,
    build_attention,
    refusal,
)
from attnbench.models.attention import geometric as scores_module
from attnbench.models.attention.geometric import geometric_scores
from attnbench.models.attention.gsa import (
    FORMS,
    GeometryAttention,
    NormalisedGeometryAttention,
)
from attnbench.models.attention.kernels import Path, force_path
from attnbench.models.attention.relation import RelationAttention
from tests.models.attention import naive_boxes
from tests.models.attention.compare import assert_same, disturbed, padding, relative_error

SUMS = ["+".join(forms) for n in (1, 2, 3) for forms in itertools.combinations(FORMS, n)]
NORMED = [
    f"ngsa(query,geometry_dim=6,norm={norm},on={on},affine=true)"
    for norm in ("instance", "batch", "layer")
    for on in ("query", "query+key")
]


def case(regions: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Input, boxes and mask of a full, a padded and an empty item; one box has no width."""
    x = torch.randn(3, regions, 8, dtype=torch.float64, requires_grad=True)
    boxes = 100 * torch.rand(3, regions, 4, dtype=torch.float64)
    boxes[..., 2:] += boxes[..., :2]
    boxes[0, 1, 2] = boxes[0, 1, 0]
    return x, boxes, padding(regions, (regions + 1) // 2, 0)


Slow = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From input, boxes and mask: context and weights, by loops."""


def check(module: Attention, slow: Slow, path: Path = "explicit") -> None:
    """Values and gradients, and the weights, equal the loops'."""
    x, boxes, valid = case()
    where, mask = Boxes(boxes, valid), AttentionMask(valid)
    with force_path(path):
        assert_same(
            module,
            {"x": x},
            lambda: module(x, geometry=where, mask=mask).context_BQD * valid[..., None],
            lambda: slow(x, boxes, valid)[0] * valid[..., None],
        )
    asked = module(x, geometry=where, mask=mask, need_weights=True)
    _, weights = slow(x, boxes, valid)
    read = valid[:, None, :, None]
    torch.testing.assert_close(asked.weights * read, weights * read)
    assert (asked.weights[2] == 0).all()
    bias = module.get_parameter("out_proj.bias")
    torch.testing.assert_close(asked.context_BQD[2], bias.expand(5, -1))


@pytest.mark.parametrize("path", ["explicit", "mask"])
@pytest.mark.parametrize("form", SUMS)
def test_geometry_aware(form: str, path: Path) -> None:
    module = disturbed(f"gsa({form},geometry_dim=6)")
    assert isinstance(module, GeometryAttention)
    check(
        module,
        lambda x, boxes, valid: naive_boxes.gsa(module, x, boxes, valid, form.split("+")),
        path,
    )


@pytest.mark.parametrize("form", SUMS)
def test_an_embedding_for_each_head_and_no_divisor(form: str) -> None:
    module = disturbed(f"gsa({form},geometry_dim=6,shared=false,scale=false)", amount=0.3)
    assert isinstance(module, GeometryAttention)
    check(module, lambda x, boxes, valid: naive_boxes.gsa(module, x, boxes, valid, form.split("+")))


@pytest.mark.parametrize("spec", NORMED)
def test_normalised_and_geometry_aware(spec: str) -> None:
    module = disturbed(spec)
    assert isinstance(module, NormalisedGeometryAttention)
    check(module, lambda x, boxes, valid: naive_boxes.gsa(module, x, boxes, valid, ["query"]))


@pytest.mark.parametrize(
    "spec", ["relation", "relation(geometry_dim=16)", "relation(features=raw)"]
)
def test_relation(spec: str) -> None:
    module = disturbed(spec)
    assert isinstance(module, RelationAttention)
    check(module, lambda *inputs: naive_boxes.relation(module, *inputs))


@pytest.mark.parametrize("numbers", [1, 6000, 2**30])
@pytest.mark.parametrize("shares", [1, 3])
def test_scores_a_few_items_at_a_time(
    shares: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many items are taken at a time, against plain autograd."""
    monkeypatch.setattr(scores_module, "CPU_NUMBERS", numbers)
    ratios = torch.randn(5, 7, 7, 4).double()
    weight = torch.randn(shares, 11, 4).double().requires_grad_()
    bias = torch.randn(shares, 11).double().requires_grad_()
    asking = torch.randn(5, 7, 3, 11).double().requires_grad_()
    for features in (ratios, ratios.transpose(1, 2), ratios[:1]):
        value = geometric_scores(features, weight, bias, asking)
        embedding = torch.einsum("bijf,rgf->bijrg", features, weight) + bias
        embedding = embedding.relu().expand(5, 7, 7, shares, 11)
        embedding = embedding.repeat_interleave(3 // shares, 3)
        expected = torch.einsum("bihg,bijhg->bhij", asking, embedding)
        torch.testing.assert_close(value, expected)
        cotangent = torch.randn_like(expected)
        ours = torch.autograd.grad(value, (weight, bias, asking), cotangent)
        theirs = torch.autograd.grad(expected, (weight, bias, asking), cotangent)
        for one, other in zip(ours, theirs, strict=True):
            assert relative_error(one, other) < 1e-12


@pytest.mark.parametrize(
    "spec", ["gsa(query+key+content,geometry_dim=64,shared=false)", "relation"]
)
def test_the_embedding_is_never_held_for_a_batch_or_a_head(spec: str) -> None:
    """No tensor of forward or backward comes near (B, N, N, G), let alone times the heads."""
    module = build_attention(spec, dim=32, heads=8)
    x, boxes, _ = case(36)
    x = torch.randn(64, 36, 32, requires_grad=True)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            sizes = [t.untyped_storage().nbytes() for t in made if isinstance(t, Tensor)]
            largest = max([largest, *sizes])
            return result

    where = Boxes(boxes[:1].float().expand(64, -1, -1))
    with Watch():
        module(x, geometry=where).context_BQD.sum().backward()
    assert largest < 64 * 36 * 36 * 64 * 4 / 4


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ("gsa(query)", 328_720),  # Q' of 512 -> 8 x 80, and the map of 4 -> 80
        ("gsa(key)", 328_720),
        ("gsa(content)", 1_040),
        ("gsa(query,geometry_dim=64)", 262_976),
        ("gsa(content,geometry_dim=64,shared=false)", 3_072),
        ("ngsa(query)", 328_720),
        ("relation", 520),
        ("relation(features=raw)", 40),
    ],
)
def test_how_many_parameters_geometry_adds(spec: str, more: int) -> None:
    def count(spec: str) -> int:
        with torch.device("meta"):
            module = build_attention(spec, dim=512, heads=8)
        return sum(parameter.numel() for parameter in module.parameters())

    assert count(spec) - count("dot") == more


def test_no_head_starts_dead() -> None:
    """The outer ReLU of the content-independent form passes at the start."""
    module = build_attention("gsa(content)", dim=8, heads=8)
    assert isinstance(module, GeometryAttention)
    x, boxes, _ = case()
    scores = module.geometry(x.float(), Boxes(boxes.float()))
    assert (scores.amax((0, 2, 3)) > 0).all()


@pytest.mark.parametrize("spec", ["gsa(query)", "ngsa(query,norm=layer)", "relation"])
def test_who_has_no_boxes_refuses(spec: str) -> None:
    words = Site("encoder_self", geometry=frozenset({"Sequence1D"}))
    reason = refusal(spec, words)
    assert reason is not None
    assert "needs the geometry Boxes or Grid2D, and encoder_self offers Sequence1D" in reason
    decoder = Site("decoder_self", frozenset({"causal"}), frozenset({"Boxes"}))
    cross = Site("cross", frozenset({"cross"}), frozenset({"Boxes"}))
    for site in (decoder, cross):
        with pytest.raises(SiteError, match="every query and key needs a box"):
            build_attention(spec, dim=8, heads=2, site=site)
    regions = Site("encoder_self", geometry=frozenset({"Boxes"}))
    assert refusal(spec, regions) is None


def test_relative_positions_are_refused_where_boxes_are_given() -> None:
    x, boxes, _ = case()
    module = build_attention("terms(0100)", dim=8, heads=2).double()
    with pytest.raises(SiteError, match="need the geometry Sequence1D, not Boxes"):
        module(x, geometry=Boxes(boxes))


def test_boxes_of_another_batch_are_refused() -> None:
    x, boxes, _ = case()
    module = build_attention("gsa(query)", dim=8, heads=2).double()
    with pytest.raises(ValueError, match="for 4 queries and 4 keys, but the call has 5 and 5"):
        module(x, geometry=Boxes(boxes[:, :4]))
    with pytest.raises(ValueError, match="boxes of 2 items, but the call has 3:"):
        module(x, geometry=Boxes(boxes[:2]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gsa(value)", r"the form is content, query, key or a sum such as query\+key, not 'value'"),
        ("gsa(query+query)", r"not 'query\+query'"),
        ("ngsa()", "must be key=value"),
        ("gsa(query,geometry_dim=0)", "geometry_dim is 1 or more, not 0"),
        ("ngsa(query,norm=group)", "norm is one of instance, batch, layer, not 'group'"),
        ("relation(features=sin)", "features is one of sinusoid, raw, not 'sin'"),
        ("relation(geometry_dim=12)", "geometry_dim is a multiple of 8, not 12"),
        ("relation(wave=0)", "wave is a positive number, not 0"),
    ],
)
def test_options_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(spec, dim=8, heads=2)
