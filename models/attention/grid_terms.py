"""The energy terms on feature maps (Zhu et al., ICCV 2019), with separable relative positions.

As ``terms.py`` has them, with R_{k-q} the encodings of the columns and of the rows between query
and key side by side, "the concatenation of the x and y encodings": V^R R = V_x R_x + V_y R_y, so
that a column and a row each give a score and the two are added up.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .contract import Attention, AttentionOutput, AttentionState, SiteError
from .geometry import Geometry, Sequence1D
from .grid import Grid2D
from .grid_scores import GridScores
from .kernels import Energy, forced_path
from .key_only import attend_by_keys_only
from .masks import Allowed, AttentionMask
from .registry import register_attention
from .terms import KeyValueState, TermsAttention, bits_of
from .traits import Ability, Traits

AXIS_SHARE = 1 / math.sqrt(2)
"""Factor of the encoding of either axis, as in the authors' public code: the two are added up,
and the sum varies as much as a single one would."""

NO_ORDER = "the cells of a feature map have no order, so there is no past to look back to"


@register_attention(
    "terms",
    positional="terms",
    axes=2,
    examples=(
        *(f"terms({number:04b})" for number in range(1, 16)),
        "terms(0100,range=5)",
        "terms(1111,range=3)",
        "terms(1111,position_dim=8,width=24,magnitude=2,scale=true,bias=true)",
    ),
)
class GridTermsAttention(TermsAttention):
    """The sum of the chosen terms E1..E4 on a feature map; ``terms(1000)`` reads no positions.

    The defaults are those of the authors' public code for images, which differ from those in a
    sentence: no divisor of the energies, wavelengths up to 1000 x 2 pi.

    Args:
        dim: model width D (channels).
        heads: number of heads H (8 in the paper).
        dropout: dropout on the attention weights.
        terms: four bits, E1 to E4.
        range: n_k of the n_k x n_k cells around a query that it may read (Table 3), odd; 0 reads
            all. In cells of the full map, whatever the strides.
        scale: divide the energies by sqrt(E). The paper's formula shows no divisor and the code
            for images has none; its translation takes the Transformer's.
        bias: biases on query, key and value projections; formula and code have none.
        base: longest wavelength of R over 2 pi: 1000 on images, 10000 in Transformers. Maps are
            tens of cells wide, so that longer waves would hardly move.
        position_dim: width of R, a multiple of 4; 0: D, as in the paper (256 in conv4).
        magnitude: scale of the distances before they are encoded.
        width: width of all heads together; 0: D. (9 heads on 256 channels take 252.)
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        terms: str,
        range: int = 0,
        scale: bool = False,
        bias: bool = False,
        base: float = 1000.0,
        position_dim: int = 0,
        magnitude: float = 1.0,
        width: int = 0,
    ) -> None:
        self.traits(
            terms=terms,
            range=range,
            base=base,
            position_dim=position_dim,
            magnitude=magnitude,
            width=width,
        )
        Attention.__init__(self, dim, heads, width)
        _, relative, _, position_only = bits_of(terms)
        self.position_dim = position_dim or dim
        if (relative or position_only) and self.position_dim % 4:
            raise ValueError(
                f"sines and cosines on two axes need a multiple of 4, and the width is {dim}: "
                f"write position_dim={self.position_dim // 4 * 4 or 4}"
            )
        self.dropout = dropout
        self.range = range
        self.base = base
        self.magnitude = magnitude
        self.scale = 1 / math.sqrt(self.head_dim) if scale else 1.0
        self.make(terms, position_dim=self.position_dim, bias=bias)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        traits = super().traits(**{"base": 1000.0, **options})
        position_dim, width = options.get("position_dim", 0), options.get("width", 0)
        if position_dim < 0 or position_dim % 4:
            raise ValueError(f"position_dim is a multiple of 4, or 0 for D, not {position_dim}")
        if width < 0:
            raise ValueError(f"width is a number of channels, or 0 for D, not {width}")
        magnitude = options.get("magnitude", 1.0)
        if not 0 < magnitude < math.inf:
            raise ValueError(f"magnitude is a positive number, not {magnitude}")
        if traits.family == "none":
            return traits
        lacks: dict[Ability, str] = dict.fromkeys(("causal", "incremental"), NO_ORDER)
        geometry = frozenset({Grid2D.name}) if traits.geometry else frozenset()
        return replace(traits, geometry=geometry, lacks=lacks)

    def reset_parameters(self) -> None:
        """As in ``TermsAttention``; V_x and V_y each as a map of its own half of R."""
        super().reset_parameters()
        if self.relative_proj is not None:
            bound = math.sqrt(3 / (self.position_dim / 2))
            nn.init.uniform_(self.relative_proj.weight, -bound, bound)

    def forward(
        self,
        query_BQD: Tensor,
        memory_BKD: Tensor | None = None,
        *,
        geometry: Geometry | None = None,
        mask: AttentionMask | None = None,
        state: AttentionState | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """As in ``Attention.forward``; with strides the memory holds the sub-sampled cells."""
        if state is not None or (mask is not None and mask.causal):
            raise SiteError(f"terms on a feature map can't decode: {NO_ORDER}")
        if geometry is not None and not isinstance(geometry, Grid2D) and self.reads_positions:
            raise SiteError(
                f"relative positions on a feature map need the geometry Grid2D, not {geometry.name}"
            )
        if self.reads_keys_only and not need_weights and forced_path() is None:
            source_BKD = query_BQD if memory_BKD is None else memory_BKD
            valid_BK = None if mask is None else mask.keys_BK
            dropout = self.dropout if self.training else 0.0
            context_B1D = attend_by_keys_only(self, source_BKD, valid_BK, dropout)
            return AttentionOutput(context_B1D.expand(-1, query_BQD.shape[1], -1))
        return super().forward(
            query_BQD, memory_BKD, geometry=geometry, mask=mask, need_weights=need_weights
        )

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """Refused."""
        raise SiteError(f"terms on a feature map can't decode: {NO_ORDER}")

    @property
    def reads_positions(self) -> bool:
        """Whether it must be told where the cells stand."""
        return self.relative_proj is not None or self.range > 0

    @property
    def reads_keys_only(self) -> bool:
        """Whether all queries have the same weights, over all keys."""
        return self.terms == (False, False, True, False) and not self.range

    @property
    def reach(self) -> int | None:
        """Cells to each side of a query, on either axis, that it may read; None: all."""
        return self.range // 2 if self.range else None

    def standing(self, queries: int, keys: int, start: int) -> Geometry:
        """As in ``TermsAttention``; refused where positions matter."""
        if self.reads_positions:
            raise SiteError(
                "relative positions on a feature map need its height and width: pass a Grid2D"
            )
        return Sequence1D(queries, keys)

    def window(self, causal: bool) -> tuple[int, int] | None:
        """None: the range is one of rows and columns, not of the order of the elements."""
        return None

    def allowed(
        self,
        mask: AttentionMask,
        where: Geometry,
        window: tuple[int, int] | None,
        device: torch.device,
    ) -> Allowed:
        """As in ``TermsAttention``."""
        return mask.allowed(where, window, device, self.reach)

    def energy(
        self,
        query_BQD: Tensor,
        keys_BHKE: Tensor | None,
        where: Geometry,
        window: tuple[int, int] | None,
        valid_BQ: Tensor | None,
        held: KeyValueState | None,
    ) -> Energy:
        """As in ``TermsAttention``; a range alone hides columns and rows too."""
        energy = super().energy(query_BQD, keys_BHKE, where, window, valid_BQ, held)
        if not self.range or energy.grid is not None:
            return energy
        assert isinstance(where, Grid2D)
        return replace(energy, grid=GridScores(where, reach=self.reach))

    def relative_parts(
        self,
        asking_BHQE: Tensor,
        where: Geometry,
        window: tuple[int, int] | None,
        held: KeyValueState | None,
    ) -> dict[str, Any]:
        """As in ``TermsAttention``: the scores of columns and rows."""
        assert isinstance(where, Grid2D) and self.relative_proj is not None
        reach, half = self.reach, self.position_dim // 2
        tables = []
        axes = (where.columns, where.rows)
        for axis, weight in zip(axes, self.relative_proj.weight.split(half, 1), strict=True):
            encoding_PG = axis.encoding(reach, half, self.base, self.magnitude, asking_BHQE)
            projected_PD = nn.functional.linear(encoding_PG, weight) * AXIS_SHARE
            tables.append(projected_PD.unflatten(-1, (self.heads, -1)).transpose(0, 1))
        return {"grid": GridScores(where, asking_BHQE, *tables, reach=reach)}
