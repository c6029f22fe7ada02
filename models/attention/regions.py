"""Self-attention between the regions of an image: what all variants that need boxes share."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any

from torch import Tensor

from .boxes import Boxes
from .contract import AttentionOutput, AttentionState, SiteError
from .geometry import Geometry
from .grid import Grid2D
from .grid_pairs import CellScores
from .kernels import AxisScores, Energy
from .masks import AttentionMask
from .terms import KeyValueState, TermsAttention
from .traits import Ability, Traits

NEEDS_BOXES = "every query and key needs a box, so it serves self-attention between regions only"


class RegionAttention(TermsAttention, abc.ABC):
    """Dot-product attention with scores from the boxes of query and key added.

    Base class: a subclass gives the scores. It can be mixed with another ``TermsAttention``.
    """

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        lacks: dict[Ability, str] = dict.fromkeys(("causal", "incremental", "cross"), NEEDS_BOXES)
        geometry = frozenset({Boxes.name, Grid2D.name})
        return Traits(family="energy", weights="dense", geometry=geometry, lacks=lacks)

    @abc.abstractmethod
    def pair_scores(self, query_BQD: Tensor, boxes: Boxes) -> Tensor:
        """What the boxes add to the energy, (B, H, Q, K) with Q = K, in the queries' type."""

    @abc.abstractmethod
    def cell_scores(self, query_BQD: Tensor, where: Grid2D) -> CellScores:
        """The same of the cells of a feature map, by how far they are apart."""

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
        """As in ``Attention.forward``; ``geometry`` is needed: ``Boxes`` or ``Grid2D``."""
        if memory_BKD is not None or state is not None or (mask is not None and mask.causal):
            raise SiteError(f"it can't look at a memory, a past or a part: {NEEDS_BOXES}")
        if isinstance(geometry, Grid2D):
            if max(geometry.key_stride, geometry.query_stride) > 1:
                raise SiteError(f"{NEEDS_BOXES}: set key_stride and query_stride to 1")
            return super().forward(
                query_BQD, geometry=geometry, mask=mask, need_weights=need_weights
            )
        if not isinstance(geometry, Boxes):
            given = "nothing" if geometry is None else geometry.name
            raise SiteError(
                f"attention by geometry needs the boxes of the regions, but got {given}: use "
                "features with boxes, or an attention without geometry such as dot or nsa"
            )
        if len(geometry.boxes_BN4) not in (1, len(query_BQD)):
            raise ValueError(
                f"there are boxes of {len(geometry.boxes_BN4)} items, but the call has "
                f"{len(query_BQD)}: make them from the tensors of this batch"
            )
        return super().forward(query_BQD, geometry=geometry, mask=mask, need_weights=need_weights)

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """Refused."""
        raise SiteError(f"it can't decode step by step: {NEEDS_BOXES}")

    def energy(
        self,
        query_BQD: Tensor,
        keys_BHKE: Tensor | None,
        where: Geometry,
        window: tuple[int, int] | None,
        valid_BQ: Tensor | None,
        held: KeyValueState | None,
    ) -> Energy:
        """The dot product and the scores of the boxes."""
        energy = super().energy(query_BQD, keys_BHKE, where, window, valid_BQ, held)
        if isinstance(where, Grid2D):
            return replace(energy, cells=self.cell_scores(query_BQD, where))
        assert isinstance(where, Boxes)
        scores = AxisScores(self.pair_scores(query_BQD, where))
        return replace(energy, axes=(*energy.axes, scores))
