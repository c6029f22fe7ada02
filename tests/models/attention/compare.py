"""Comparing values and gradients of a module with a reference."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from attnbench.models.attention import Attention, build_attention


def disturbed(spec: str, *, dim: int = 8, heads: int = 2, amount: float = 0.5) -> Attention:
    """A float64 module whose every parameter is off its starting value."""
    module = build_attention(spec, dim=dim, heads=heads).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += amount * torch.randn_like(parameter)
    return module


def padding(*lengths: int, width: int | None = None) -> Tensor:
    """Valid-masks (B, T) of right padded items."""
    return torch.arange(width or max(lengths))[None] < torch.tensor(lengths)[:, None]


def relative_error(value: Tensor, reference: Tensor) -> float:
    """Largest difference over the largest reference value."""
    assert value.shape == reference.shape
    if not value.numel():
        return 0.0
    scale = max(reference.abs().max().item(), 1e-3)
    return (value - reference).abs().max().item() / scale


def gradients(
    output: Tensor, inputs: Mapping[str, Tensor], module: nn.Module, cotangent: Tensor
) -> dict[str, Tensor]:
    """Gradients of ``sum(output * cotangent)`` by input and parameter; unused ones are zeros."""
    wanted = {**inputs, **dict(module.named_parameters())}
    found = torch.autograd.grad(
        (output * cotangent).sum(), list(wanted.values()), allow_unused=True
    )
    return {
        name: torch.zeros_like(tensor) if gradient is None else gradient
        for (name, tensor), gradient in zip(wanted.items(), found, strict=True)
    }


def assert_same(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    fast: Callable[[], Tensor],
    slow: Callable[[], Tensor],
    tolerance: float = 1e-9,
) -> None:
    """Values and gradients (of the inputs and all parameters) of two computations agree."""
    value, reference = fast(), slow()
    assert relative_error(value, reference) < tolerance
    cotangent = torch.randn_like(reference)
    ours = gradients(value, inputs, module, cotangent)
    theirs = gradients(reference, inputs, module, cotangent)
    wrong = {
        name: error
        for name in ours
        if (error := relative_error(ours[name], theirs[name])) > tolerance
    }
    assert not wrong
