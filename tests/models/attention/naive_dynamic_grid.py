"""2-D dynamic convolution and products with windows, cell by cell and tap by tap, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnbench.models.attention.dynamic_grid import DynamicGrid
from tests.models.attention.naive import linear


def taps_of(cell: tuple[int, int], size: tuple[int, int], side: int) -> Iterator[tuple[int, ...]]:
    """Tap, row and column of every tap of a cell that lies on the map."""
    for tap in range(side * side):
        row = cell[0] + tap // side - side // 2
        column = cell[1] + tap % side - side // 2
        if 0 <= row < size[0] and 0 <= column < size[1]:
            yield tap, row, column


def mix(x_BYXD: Tensor, kernel_BYXGK: Tensor) -> Tensor:
    """Each cell sums the cells around it with weights of its own: (B, Y, X, D)."""
    batch, height, width, dim = x_BYXD.shape
    groups, side = kernel_BYXGK.shape[3], round(kernel_BYXGK.shape[4] ** 0.5)
    cells = []
    for b in range(batch):
        for r in range(height):
            for c in range(width):
                total = x_BYXD.new_zeros(groups, dim // groups)
                for tap, row, column in taps_of((r, c), (height, width), side):
                    weights = kernel_BYXGK[b, r, c, :, tap, None]
                    total = total + weights * x_BYXD[b, row, column].reshape(groups, -1)
                cells.append(total.flatten())
    return torch.stack(cells).reshape(batch, height, width, dim)


def score(query_BYXD: Tensor, key_BYXD: Tensor, side: int, groups: int) -> Tensor:
    """Products of each cell's query with the keys around it, by group: (B, Y, X, G, K)."""
    batch, height, width, _ = query_BYXD.shape
    cells = []
    for b in range(batch):
        for r in range(height):
            for c in range(width):
                found = [query_BYXD.new_zeros(groups)] * side**2
                for tap, row, column in taps_of((r, c), (height, width), side):
                    product = query_BYXD[b, r, c] * key_BYXD[b, row, column]
                    found[tap] = product.reshape(groups, -1).sum(-1)
                cells.append(torch.stack(found, -1))
    return torch.stack(cells).reshape(batch, height, width, groups, -1)


def dynamic(
    module: DynamicGrid, x_BQD: Tensor, valid_BQ: Tensor, size: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Wu et al., equations 3 to 5, on a map; also the kernels (B, G, Q, n x n)."""
    gated = linear(x_BQD, module.in_proj)
    if module.glu:
        gated = gated[..., : module.dim] * torch.sigmoid(gated[..., module.dim :])
    gated = gated * valid_BQ[..., None]
    kernels = linear(gated, module.kernel_proj).reshape(*x_BQD.shape[:2], module.groups, -1)
    if module.softmax:
        kernels = kernels.exp() / kernels.exp().sum(-1, keepdim=True)
    mixed = mix(gated.unflatten(1, size), kernels.unflatten(1, size)).flatten(1, 2)
    return linear(mixed, module.out_proj), kernels.transpose(1, 2)
