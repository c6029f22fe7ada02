"""The cells of a feature map: where they stand, and how far apart they are on each axis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .boxes import SMALLEST_DISTANCE, Boxes
from .geometry import Geometry, sinusoid


class GridAxis:
    """One axis of a feature map: its columns, or its rows.

    Query i stands at cell ``i * query_stride`` and key j at cell ``j * key_stride``. Relative
    positions are key minus query, in cells of the full map; those that occur are ``low``,
    ``low + step``, ..., ``high``.

    Args:
        size: number of cells of the full map.
        query_stride, key_stride: every how many cells there is a query, a key.
    """

    def __init__(self, size: int, query_stride: int, key_stride: int) -> None:
        self.queries = -(-size // query_stride)
        self.keys = -(-size // key_stride)
        self.query_stride = query_stride
        self.key_stride = key_stride
        self.step = math.gcd(query_stride, key_stride)
        self.low = -query_stride * (self.queries - 1)
        self.high = key_stride * (self.keys - 1)
        self._made: dict[tuple[object, ...], Tensor] = {}

    def reached(self, reach: int | None) -> tuple[int, int]:
        """Smallest and largest relative position up to ``reach`` cells away (None: all)."""
        if reach is None:
            return self.low, self.high
        far = reach // self.step * self.step
        return max(self.low, -far), min(self.high, far)

    def encoding(
        self, reach: int | None, dim: int, base: float, magnitude: float, like: Tensor
    ) -> Tensor:
        """Sinusoidal encodings (P, dim) of the relative positions ``reached``, made once.

        Args:
            reach: as of ``reached``.
            dim: width of the encoding.
            base: longest wavelength over 2 pi.
            magnitude: scale of the distances.
            like: gives type and device.
        """
        key = ("encoding", reach, dim, base, magnitude, like.device, like.dtype)
        if key not in self._made:
            low, high = self.reached(reach)
            self._made[key] = sinusoid(low, high, dim, base, like, self.step, magnitude)
        return self._made[key]

    def span(self, query: int, reach: int) -> tuple[int, int]:
        """First key within ``reach`` cells of a query, and the first after the last of them."""
        cell = query * self.query_stride
        first = max(0, -((reach - cell) // self.key_stride))
        return first, min(self.keys, (cell + reach) // self.key_stride + 1)

    def offsets(self, device: torch.device) -> Tensor:
        """Key minus query in cells, (Q, K), long."""
        key = ("offsets", device)
        if key not in self._made:
            query_Q1 = self.query_stride * torch.arange(self.queries, device=device)[:, None]
            self._made[key] = self.key_stride * torch.arange(self.keys, device=device) - query_Q1
        return self._made[key]

    def place(self, reach: int | None, device: torch.device) -> Tensor:
        """Row of ``encoding`` for each query and key, (Q, K), long; the nearest if beyond."""
        key = ("place", reach, device)
        if key not in self._made:
            low, high = self.reached(reach)
            self._made[key] = (self.offsets(device).clamp(low, high) - low) // self.step
        return self._made[key]

    def outside(self, reach: int, device: torch.device) -> Tensor:
        """True where a key is more than ``reach`` cells from the query, (Q, K)."""
        key = ("outside", reach, device)
        if key not in self._made:
            self._made[key] = self.offsets(device).abs() > reach
        return self._made[key]


class Grid2D(Geometry):
    """The cells of a feature map, row by row; cell (row, column) is element row * width + column.

    Queries and keys may be sub-sampled: with a stride s every s-th row and column is kept, from
    the first, as ``x_BCHW[..., ::s, ::s]``. Relative positions stay in cells of the full map.

    Args:
        height, width: number of rows and columns of the full map, in cells.
        key_stride: with more than 1 the keys are a memory: the sub-sampled cells.
        query_stride: likewise of the queries.

    Attributes:
        columns, rows: the two axes; an element is a row and a column of them.
    """

    name = "Grid2D"

    def __init__(
        self, height: int, width: int, *, key_stride: int = 1, query_stride: int = 1
    ) -> None:
        if height < 1 or width < 1:
            raise ValueError(f"a grid has at least one cell, not {height} x {width}")
        if key_stride < 1 or query_stride < 1:
            raise ValueError(f"a stride is 1 or more, not {min(key_stride, query_stride)}")
        self.height = height
        self.width = width
        self.key_stride = key_stride
        self.query_stride = query_stride
        self.rows = GridAxis(height, query_stride, key_stride)
        self.columns = GridAxis(width, query_stride, key_stride)
        self.queries = self.query_height * self.query_width
        self.keys = self.key_height * self.key_width
        self._boxes: dict[torch.device, Boxes] = {}
        self._ratios: dict[torch.device, Tensor] = {}

    @property
    def layout(self) -> tuple[int, ...]:
        """As in ``Geometry.layout``."""
        return self.height, self.width, self.key_stride, self.query_stride

    @property
    def query_height(self) -> int:
        """Number of rows of queries."""
        return self.rows.queries

    @property
    def query_width(self) -> int:
        """Number of columns of queries."""
        return self.columns.queries

    @property
    def key_height(self) -> int:
        """Number of rows of keys."""
        return self.rows.keys

    @property
    def key_width(self) -> int:
        """Number of columns of keys."""
        return self.columns.keys

    def reads_any(self, reach: int, valid_BK: Tensor | None, device: torch.device) -> Tensor:
        """Whether each query has a real key within ``reach`` cells, (B or 1, 1, Q, 1)."""
        rows_QK = (~self.rows.outside(reach, device)).float()
        columns_QK = (~self.columns.outside(reach, device)).float()
        if valid_BK is None:
            valid_BYX = rows_QK.new_ones(1, self.key_height, self.key_width)
        else:
            valid_BYX = valid_BK.unflatten(1, (self.key_height, self.key_width)).float()
        return (rows_QK @ valid_BYX @ columns_QK.mT > 0.5).flatten(1)[:, None, :, None]

    def log_ratios(self, device: torch.device) -> Tensor:
        """``Boxes.log_ratios`` of two cells so many rows and columns apart, (H W, 4), made once."""
        if device not in self._ratios:
            apart = [torch.arange(n, device=device).float() for n in (self.height, self.width)]
            near = [one.clamp_min(SMALLEST_DISTANCE).log() for one in apart]
            rows_HW, columns_HW = torch.meshgrid(*near, indexing="ij")
            none_HW = torch.zeros_like(rows_HW)  # all cells have the same sides
            self._ratios[device] = torch.stack([columns_HW, rows_HW, none_HW, none_HW], -1).view(
                -1, 4
            )
        return self._ratios[device]

    def boxes(self, device: torch.device | str = "cpu") -> Boxes:
        """Equal cells of side 1 as boxes, (1, H W, 4), shared by all items of a batch."""
        device = torch.device(device)
        if device not in self._boxes:
            y, x = torch.meshgrid(
                torch.arange(self.height, device=device, dtype=torch.float32),
                torch.arange(self.width, device=device, dtype=torch.float32),
                indexing="ij",
            )
            boxes_HW4 = torch.stack([x, y, x + 1, y + 1], -1)
            self._boxes[device] = Boxes(boxes_HW4.flatten(0, 1)[None])
        return self._boxes[device]
