"""The test matrix: every example of every registered variant, and chains."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnbench.models.attention import (
    Attention,
    AttentionMask,
    AttentionOutput,
    Boxes,
    Geometry,
    build_attention,
    traits_of,
    variant_examples,
)
from attnbench.models.attention.traits import Ability

CHAINS = [
    "terms(0010)+deformable",
    "terms(1111)+deformable",
    "terms(0100,range=5)+deformable(kernel=5)",
    "nsa+deformable",
    "dynamic(kernel=5,groups=2)+deformable",
    "terms(1010)+dynamic(kernel=3,groups=2)+deformable",
    "gsa(query,geometry_dim=12)+deformable",
]
SPECS = [*(spec for spec in variant_examples() if traits_of(spec).family != "none"), *CHAINS]
DIM, HEADS = 16, 2


def that_can(*abilities: Ability) -> list[str]:
    """The specs that lack none of the abilities."""
    return [spec for spec in SPECS if not set(abilities) & traits_of(spec).lacks.keys()]


def that_lack(ability: Ability) -> list[str]:
    """The specs that lack an ability."""
    return [spec for spec in SPECS if ability in traits_of(spec).lacks]


def made(spec: str, *, dropout: float = 0.0) -> Attention:
    """A float64 module in evaluation mode, every parameter off its starting value."""
    module = build_attention(spec, dim=DIM, heads=HEADS, dropout=dropout).double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        for buffer in module.buffers():
            buffer += torch.rand_like(buffer)
    return module


def in_boxes(spec: str) -> bool:
    """Whether a spec reads the boxes of its elements."""
    return Boxes.name in traits_of(spec).geometry


def boxes_of(x_BTD: Tensor, first: int = 0) -> Tensor:
    """Boxes (B, T, 4) of the items first, first + 1, …: the same for an item at any length."""
    boxes = torch.rand(8, 128, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    boxes[..., 2:] = boxes[..., :2] + 0.1 + boxes[..., 2:]
    return boxes[first : first + len(x_BTD), : x_BTD.shape[1]].to(x_BTD.device)


def place(
    spec: str, x_BTD: Tensor, mask: AttentionMask | None = None, first: int = 0
) -> Geometry | None:
    """What a spec must be told of where its elements stand; most need nothing."""
    if not in_boxes(spec):
        return None
    return Boxes(boxes_of(x_BTD, first), None if mask is None else mask.keys_BK)


def attended(
    module: Attention,
    spec: str,
    x_BTD: Tensor,
    mask: AttentionMask | None = None,
    *,
    first: int = 0,
    need_weights: bool = False,
) -> AttentionOutput:
    """Self-attention, with the boxes of the items from ``first`` on where the spec reads boxes."""
    where = place(spec, x_BTD, mask, first)
    return module(x_BTD, geometry=where, mask=mask, need_weights=need_weights)


def elements(*shape: int) -> Tensor:
    """Random elements (..., D) that want a gradient."""
    return torch.randn(*shape, DIM, dtype=torch.float64).requires_grad_()


def padding(*lengths: int, width: int | None = None) -> Tensor:
    """Valid-mask (B, T) of right padded items."""
    return torch.arange(width or max(lengths))[None] < torch.tensor(lengths)[:, None]


def hides_future(spec: str) -> Iterator[bool]:
    """The values of ``causal`` that a spec takes."""
    yield False
    if spec in that_can("causal"):
        yield True


def self_masks(spec: str, valid_BT: Tensor | None) -> Iterator[AttentionMask]:
    """The masks under which a spec attends to its own input."""
    for causal in hides_future(spec):
        yield AttentionMask(valid_BT, causal=causal)
