"""Attention over the cells of a feature map, as a residual module that a backbone can insert."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import (
    Attention,
    AttentionMask,
    Grid2D,
    NoAttention,
    SiteError,
    Spec,
    build_attention,
    traits_of,
)
from ..attention.latest import Latest

Gate = Literal["zero", "one", "none"]


class Grids:
    """The geometry of each map size, made once and shared by all modules of a backbone."""

    def __init__(self) -> None:
        self._kept: Latest[Grid2D] = Latest()

    def __call__(
        self, height: int, width: int, *, key_stride: int = 1, query_stride: int = 1
    ) -> Grid2D:
        """The grid of a map of ``height`` x ``width`` cells."""
        return self._kept.get(
            (height, width, key_stride, query_stride),
            lambda: Grid2D(height, width, key_stride=key_stride, query_stride=query_stride),
        )

    def __reduce__(self) -> tuple[type[Grids], tuple[()]]:
        """Copies and pickles start empty."""
        return type(self), ()


class Padding:
    """Which cells of a batch's maps are padding; made once a batch, the masks once a map size.

    A cell is real if its corner lies in the image: row r of a map of h rows stands at pixel
    r H / h of a batch that is H pixels high.

    Args:
        sizes: height and width of each image, in pixels.
        height, width: of the padded batch, in pixels.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]], height: int, width: int) -> None:
        self.sizes = sizes
        self.height = height
        self.width = width
        self._masks: dict[tuple[object, ...], AttentionMask] = {}

    def mask(self, grid: Grid2D, device: torch.device) -> AttentionMask:
        """Which keys and queries of a map are real."""
        strided = max(grid.key_stride, grid.query_stride) > 1
        key = (grid.height, grid.width, grid.key_stride, grid.query_stride, device)
        if key not in self._masks:
            valid_BHW = self.valid(grid.height, grid.width).to(device)
            keys_BK = _every(valid_BHW, grid.key_stride).flatten(1)
            queries_BQ = _every(valid_BHW, grid.query_stride).flatten(1) if strided else None
            self._masks[key] = AttentionMask(keys_BK, queries_BQ)
        return self._masks[key]

    def valid(self, rows: int, columns: int) -> Tensor:
        """(B, rows, columns) bool, True where a cell of a map of that size is real."""
        valid_BRC = torch.zeros(len(self.sizes), rows, columns, dtype=torch.bool)
        for item, (height, width) in enumerate(self.sizes):
            inside = math.ceil(height * rows / self.height)
            valid_BRC[item, :inside, : math.ceil(width * columns / self.width)] = True
        return valid_BRC


class SpatialAttention(nn.Module):
    """Attention between the cells of a feature map, added to the map through a gate.

    Zhu et al. ("An Empirical Study of Spatial Attention Mechanisms in Deep Networks", ICCV 2019,
    equation 1) let the module's output take the place of its input::

        y_q = sum_m W_m [ sum_k A_m(q, k) * W'_m x_k ]

    Their public code (GeneralizedAttention in mmcv) returns ``x + gamma y`` with a learnt scalar
    gamma that starts at 0. ``gate="zero"`` does so and is the default: the module is then the
    identity at the start, so that the ImageNet weights of the layers around it stay valid. With
    it, nothing inside the attention has a gradient in the very first step, only the gate has.

    Strides sub-sample plainly, ``x[..., ::s, ::s]``, as the public code does (its average pooling
    has a kernel of one cell). The output of sub-sampled queries is scaled up bilinearly, with
    cells as areas (``align_corners=False``).

    Args:
        attention: any variant that serves feature maps.
        key_stride: read every s-th row and column (2 in the public code; the paper's costs
            are those of 1).
        query_stride: compute every s-th row and column, and interpolate between.
        gate: ``zero`` and ``one`` are where the learnt gate starts, ``none`` is the paper's
            formula, without the residual.

    Attributes:
        gate: the scalar, of shape (1,) since sharding wrappers refuse parameters without axes.
    """

    def __init__(
        self,
        attention: Attention,
        *,
        key_stride: int = 1,
        query_stride: int = 1,
        gate: Gate = "zero",
    ) -> None:
        super().__init__()
        if min(key_stride, query_stride) < 1:
            raise ValueError(
                f"strides are 1 or more, not key_stride={key_stride}, query_stride={query_stride}"
            )
        self.attention = attention
        self.key_stride = key_stride
        self.query_stride = query_stride
        start = {"zero": 0.0, "one": 1.0}.get(gate)
        self.gate = None if start is None else nn.Parameter(torch.full((1,), start))

    def forward(self, x_BCHW: Tensor, grids: Grids, padding: Padding | None = None) -> Tensor:
        """(B, C, H, W) to (B, C, H, W).

        Args:
            x_BCHW: the map.
            grids: where geometries are kept.
            padding: hides padding cells from the queries; None reads all cells.
        """
        height, width = x_BCHW.shape[-2:]
        grid = grids(height, width, key_stride=self.key_stride, query_stride=self.query_stride)
        query_BCHW = _every(x_BCHW, self.query_stride)
        strided = max(self.key_stride, self.query_stride) > 1
        output = self.attention(
            _cells(query_BCHW),
            _cells(_every(x_BCHW, self.key_stride)) if strided else None,
            geometry=grid,
            mask=None if padding is None else padding.mask(grid, x_BCHW.device),
        )
        y_BCHW = output.context_BQD.transpose(1, 2).unflatten(2, query_BCHW.shape[-2:])
        if self.query_stride > 1:
            y_BCHW = F.interpolate(y_BCHW, (height, width), mode="bilinear", align_corners=False)
        # The gate must not widen a map of half precision.
        return y_BCHW if self.gate is None else x_BCHW + self.gate.to(y_BCHW.dtype) * y_BCHW

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"key_stride={self.key_stride}, query_stride={self.query_stride}"


@contextmanager
def drawn_apart() -> Iterator[None]:
    """Draw first weights apart from all others'.

    With one seed, models whose attention differs then have the same first weights around it.
    """
    seed = int(torch.randint(2**62, (), device="cpu"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build_spatial(
    spec: str | Spec,
    dim: int,
    *,
    heads: int = 8,
    dropout: float = 0.0,
    key_stride: int = 1,
    query_stride: int = 1,
    gate: Gate = "zero",
) -> SpatialAttention | None:
    """The module for a spec on maps of ``dim`` channels; None where there is no attention.

    Raises:
        SpecError: as in ``build_attention``.
        SiteError: a stride with a variant that can't read a memory.
    """
    reason = stride_refusal(spec, key_stride, query_stride)
    if reason is not None:
        raise SiteError(f"attention {str(spec)!r} can't stand here: {reason}")
    attention = build_attention(spec, dim=dim, heads=heads, dropout=dropout, axes=2)
    if isinstance(attention, NoAttention):
        return None
    options: dict[str, Any] = {"key_stride": key_stride, "query_stride": query_stride, "gate": gate}
    return SpatialAttention(attention, **options)


def stride_refusal(spec: str | Spec, key_stride: int, query_stride: int) -> str | None:
    """Why a spec can't work with these strides, or None if it can."""
    traits = traits_of(spec, axes=2)
    if max(key_stride, query_stride) == 1 or traits.family == "none":
        return None
    if "cross" not in traits.lacks:
        return None
    return (
        f"with key_stride={key_stride} and query_stride={query_stride} queries and keys are "
        f"different cells, and {traits.lacks['cross']}; set both to 1"
    )


def _every(x: Tensor, stride: int) -> Tensor:
    return x if stride == 1 else x[..., ::stride, ::stride]


def _cells(x_BCHW: Tensor) -> Tensor:
    """(B, H W, C): a view where the map is channels-last."""
    return x_BCHW.permute(0, 2, 3, 1).flatten(1, 2)
