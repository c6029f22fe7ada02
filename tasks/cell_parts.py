"""What of a block looks elsewhere: attention weights, kernels and sampling places of a cell.

The run's own modules are asked, with what they are called with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..models.attention import Grid2D
from ..models.attention.deformable_grid import DeformableConv2d
from ..models.attention.dynamic_grid import DynamicGrid
from ..models.attention.grid_terms import GridTermsAttention
from ..models.attention.terms import TermsAttention

Cell = tuple[int, int]
"""Row and column of a cell in its map, from 0."""


@dataclass(frozen=True)
class Weights:
    """How much a cell reads of others.

    Attributes:
        what: the variant, and its gate where it has one.
        weights_HRC: of each head (or group of channels) for R x C cells.
        first: row and column of the first of them.
        step: rows, and columns, from one to the next.
        kernel: they are the taps of a convolution around the cell, not of all cells.
    """

    what: str
    weights_HRC: Tensor
    first: tuple[int, int] = (0, 0)
    step: int = 1
    kernel: bool = False


@dataclass(frozen=True)
class Samples:
    """Where the taps of a deformable convolution sample for a cell.

    Attributes:
        what: the variant.
        regular_N2: row and column where each tap would read in a regular convolution.
        sampled_N2: row and column where it reads.
        strength_N: its modulation; 1 where there is none.
    """

    what: str
    regular_N2: Tensor
    sampled_N2: Tensor
    strength_N: Tensor


@dataclass
class Call:
    """What a module was called with, and what it gave."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    output: Any = None


@contextmanager
def calls_of(modules: Sequence[nn.Module]) -> Iterator[dict[nn.Module, Call]]:
    """Keep what modules are called with meanwhile, in the order of the calls; the last call."""
    calls: dict[nn.Module, Call] = {}

    def keep(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        calls[module] = Call(args, kwargs, output)

    handles = [module.register_forward_hook(keep, with_kwargs=True) for module in modules]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def weights_of(module: TermsAttention, call: Call, cell: Cell, what: str) -> Weights:
    """The attention weights of a cell, which must be one that attention is computed at."""
    grid: Grid2D = call.kwargs["geometry"]
    step = grid.query_stride
    query = cell[0] // step * grid.query_width + cell[1] // step
    weights_HK = weights_of_query(module, call.args, call.kwargs, query)
    weights_HRC = weights_HK.unflatten(1, (grid.key_height, grid.key_width))
    return Weights(what, weights_HRC, step=grid.key_stride)


def weights_of_query(
    module: TermsAttention, args: tuple[Any, ...], kwargs: dict[str, Any], query: int
) -> Tensor:
    """The attention weights (H, K) of one query of a batch of one item.

    A weight is the derivative of the query's context with respect to a key's value, so the call
    stays on the path that it has in training: a whole map's weights would be Q x K for each head,
    which no memory holds for large maps.

    Args:
        module: in evaluation mode.
        args, kwargs: what it is called with.
        query: number of the query.
    """
    if isinstance(module, GridTermsAttention) and module.reads_keys_only:  # one row for all
        with torch.no_grad():
            weights_BHQK = module(*args, **{**kwargs, "need_weights": True}).weights
        return weights_BHQK[0, :, query].float().cpu()
    values: list[Tensor] = []
    contexts: list[Tensor] = []

    def hold(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        values.append(output.detach().requires_grad_())
        return values[0]

    def keep(module: nn.Module, args: tuple[Tensor]) -> None:
        contexts.append(args[0])

    handles = [
        module.value_proj.register_forward_hook(hold),
        module.out_proj.register_forward_pre_hook(keep),
    ]
    try:
        with torch.enable_grad():
            module(*args, **kwargs)
            # In each head any channel tells all of its weights: the first one.
            context_H = contexts[0][0, query].unflatten(0, (module.heads, -1))[:, 0]
            (grad_BKD,) = torch.autograd.grad(context_H.sum(), values)
    finally:
        for handle in handles:
            handle.remove()
    return grad_BKD[0].unflatten(1, (module.heads, -1))[..., 0].T.float().cpu()


def kernel_of(module: DynamicGrid, call: Call, cell: Cell, what: str) -> Weights:
    """The kernel that a dynamic convolution predicts for a cell."""
    grid: Grid2D = call.kwargs["geometry"]
    with torch.no_grad():
        output = module(*call.args, **{**call.kwargs, "need_weights": True})
    kernel_GK = output.weights[0, :, cell[0] * grid.width + cell[1]].float().cpu()
    side = module.kernel
    first = (cell[0] - side // 2, cell[1] - side // 2)
    kernel_GRC = kernel_GK.unflatten(1, (side, side))
    return Weights(what, kernel_GRC, first, kernel=True)


def samples_of(module: DeformableConv2d, call: Call, cell: Cell) -> Samples:
    """Where a deformable convolution samples for a cell of its output.

    In cells of the output, whose neighbours are ``stride`` cells of the input apart.
    """
    with torch.no_grad():
        offset, modulation = module.offsets(*call.args)
    taps = module.groups * module.kernel**2
    offset_N2 = offset[0, :, cell[0], cell[1]].float().cpu().view(taps, 2)
    reach = torch.arange(module.kernel) - module.kernel // 2
    tap_N2 = torch.cartesian_prod(reach, reach).repeat(module.groups, 1) * module.dilation
    regular_N2 = torch.tensor(cell) + tap_N2 / module.stride
    strength_N = torch.ones(taps)
    if modulation is not None:
        strength_N = modulation[0, :, cell[0], cell[1]].float().cpu()
    what = "modulated deformable" if module.modulated else "deformable"
    return Samples(
        f"{what} {module.kernel} x {module.kernel}",
        regular_N2,
        regular_N2 + offset_N2 / module.stride,
        strength_N,
    )
