"""Dynamic convolution of feature maps: every cell predicts an n x n kernel.

"Pay Less Attention with Lightweight and Dynamic Convolutions" (Wu et al., ICLR 2019, arXiv
1901.10430), equations 3 to 5, carried over to images as in Table 3 of Zhu et al. (ICCV 2019): the
kernel covers n x n cells, is shared by the D / groups channels of a group and normalised over all
of its taps. Cells outside of the map count as 0 and keep their share of the kernel, as elements
outside of a sequence do in one dimension.

Multiply-accumulates on N cells: 2 N D^2 for the input projection with GLU, N D G n^2 for the
kernels, N D n^2 depth-wise, N D^2 point-wise.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .contract import AttentionOutput, AttentionState
from .deformable_grid import NO_ORDER, cells_of
from .dynamic import NO_MEMORY, PredictedKernels
from .geometry import Geometry
from .kernels import forced_path
from .masks import AttentionMask
from .registry import register_attention
from .traits import Traits
from .windows import dynamic_convolution_2d


@register_attention(
    "dynamic",
    examples=(
        "dynamic(kernel=13)",
        "dynamic(groups=2,kernel=3)",
        "dynamic(glu=false,groups=2,kernel=5)",
    ),
    axes=2,
)
class DynamicGrid(PredictedKernels):
    """Dynamic convolution with GLU (Wu et al., ICLR 2019) over n x n cells of a feature map.

    Args:
        dim: model width D.
        heads: not used; a convolution has groups.
        dropout: dropout on the kernels after their softmax (DropConnect in Wu et al.).
        kernel: side n of the kernel, odd; 13, 19, 25 or 31 in Zhu et al.
        groups: number of groups G that share a kernel (16 in Zhu et al.); must divide D.
        glu: project D -> 2 D and gate; false projects D -> D.
        softmax: normalise the kernel over its n x n taps.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        kernel: int = 13,
        groups: int = 16,
        glu: bool = True,
        softmax: bool = True,
    ) -> None:
        self.traits(kernel=kernel, groups=groups)
        super().__init__(
            dim,
            heads,
            dropout=dropout,
            taps=kernel**2,
            groups=groups,
            glu=glu,
            softmax=softmax,
        )
        self.kernel = kernel

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        kernel, groups = options.get("kernel", 13), options.get("groups", 16)
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel is the side of a square of cells, odd, not {kernel}")
        if groups < 1:
            raise ValueError(f"groups is 1 or more, not {groups}")
        return Traits(
            family="sampling",
            weights="kernel",
            geometry=frozenset({"Grid2D"}),
            lacks={"causal": NO_ORDER, "incremental": NO_ORDER, "cross": NO_MEMORY},
        )

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
        """As in ``Attention.forward``; the weights are the kernels, (B, G, Q, n x n taps)."""
        hides = state is not None or (mask is not None and mask.causal)
        grid = cells_of("dynamic", memory_BKD, geometry, hides)
        input_BQD = self.gated(query_BQD, None if mask is None else mask.keys_BK)
        kernel_BQGK = self.predict(input_BQD)
        size = (grid.height, grid.width)
        mixed_BYXD = dynamic_convolution_2d(
            input_BQD.unflatten(1, size),
            F.dropout(kernel_BQGK, self.dropout, self.training).unflatten(1, size),
            unfold=forced_path() == "explicit",
        )
        weights = kernel_BQGK.transpose(1, 2) if need_weights else None
        return AttentionOutput(self.out_proj(mixed_BYXD.flatten(1, 2)), weights)
