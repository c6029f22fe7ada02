"""Normalised self-attention: queries (or keys) are normalised over the sequence.

"Normalized and Geometry-Aware Self-Attention Network for Image Captioning" (Guo et al., CVPR
2020, arXiv 2003.08897), section 3.2: ``softmax(IN(Q) K^T / sqrt(E)) V``, where IN takes mean and
variance of each channel over the elements of one item and has no learned scale or shift.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .contract import AttentionOutput, AttentionState, SiteError
from .geometry import Geometry
from .masks import AttentionMask
from .registry import register_attention
from .terms import TermsAttention
from .traits import Ability, Traits

NORMS = ("instance", "batch", "layer")
PLACES = ("query", "key", "query+key")

SEES_ALL = (
    "its statistics are taken over the whole sequence, so a position would see the future, and "
    "while decoding there is one position only to take them from; use nsa(norm=layer) there"
)


class ElementNorm(nn.Module):
    """Normalises (B, T, D) over the real elements; padded ones take no part and become 0.

    Args:
        dim: number of channels D.
        norm: where mean and (biased) variance are taken: ``instance``, each channel over the
            elements of an item; ``batch``, each channel over all elements of the batch, with
            running statistics outside of training as in ``nn.BatchNorm1d``; ``layer``, each
            element over its channels.
        affine: learn a scale and a shift for each channel.
        eps: added to the variance.
        momentum: share of the new batch in the running statistics.
    """

    running_mean_D: Tensor
    running_variance_D: Tensor

    def __init__(
        self,
        dim: int,
        norm: str,
        *,
        affine: bool = False,
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.norm = norm
        self.eps = eps
        self.momentum = momentum
        self.scale_D = nn.Parameter(torch.ones(dim)) if affine else None
        self.shift_D = nn.Parameter(torch.zeros(dim)) if affine else None
        if norm == "batch":
            self.register_buffer("running_mean_D", torch.zeros(dim))
            self.register_buffer("running_variance_D", torch.ones(dim))

    def forward(self, x_BTD: Tensor, valid_BT: Tensor | None) -> Tensor:
        """Normalise ``x_BTD``; ``valid_BT`` is True at real elements, None if all are."""
        kind = x_BTD.dtype
        x_BTD = x_BTD.to(torch.promote_types(kind, torch.float32))
        real_BT1 = None if valid_BT is None else valid_BT[..., None].to(x_BTD.dtype)
        mean, variance = self._statistics(x_BTD, real_BT1)
        normed_BTD = (x_BTD - mean) * (variance + self.eps).rsqrt()
        if self.scale_D is not None and self.shift_D is not None:
            normed_BTD = normed_BTD * self.scale_D + self.shift_D
        return (normed_BTD if real_BT1 is None else normed_BTD * real_BT1).to(kind)

    def _statistics(self, x_BTD: Tensor, real_BT1: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and biased variance, broadcastable to (B, T, D)."""
        if self.norm == "layer":
            return x_BTD.mean(-1, keepdim=True), x_BTD.var(-1, correction=0, keepdim=True)
        if self.norm == "batch" and not self.training:
            return self.running_mean_D, self.running_variance_D
        axes = (1,) if self.norm == "instance" else (0, 1)
        if real_BT1 is None:
            real_BT1 = x_BTD.new_ones(*x_BTD.shape[:2], 1)
        number = real_BT1.sum(axes, keepdim=True)
        mean = (x_BTD * real_BT1).sum(axes, keepdim=True) / number.clamp_min(1)
        squares = ((x_BTD - mean) * real_BT1).square().sum(axes, keepdim=True)
        if self.norm == "batch":
            self._remember(mean, squares, number)
        return mean, squares / number.clamp_min(1)

    @torch.no_grad()
    def _remember(self, mean: Tensor, squares: Tensor, number: Tensor) -> None:
        """Move the running statistics (unbiased variance) towards this batch."""
        share = self.momentum * (number > 1).flatten().to(self.running_mean_D)
        unbiased_D = (squares / (number - 1).clamp_min(1)).flatten()
        self.running_mean_D.lerp_(mean.flatten().to(self.running_mean_D), share)
        self.running_variance_D.lerp_(unbiased_D.to(self.running_variance_D), share)


@register_attention(
    "nsa",
    examples=(
        "nsa",
        "nsa(affine=true)",
        "nsa(norm=batch)",
        "nsa(norm=layer)",
        "nsa(on=key)",
        "nsa(on=query+key,norm=layer)",
    ),
)
class NormalisedAttention(TermsAttention):
    """Normalised self-attention (Guo et al., CVPR 2020, section 3.2): IN(Q) in dot-product scores.

    Args:
        dim: model width D.
        heads: number of heads H.
        dropout: dropout on the attention weights.
        norm: ``instance`` as in the paper, ``batch`` or ``layer``.
        affine: learn a scale and a shift (off in the paper).
        on: what is normalised after its projection: ``query`` as in the paper, ``key`` or
            ``query+key``.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        norm: str = "instance",
        affine: bool = False,
        on: str = "query",
    ) -> None:
        super().__init__(dim, heads, dropout=dropout, terms="1000", bias=True)
        places = on.split("+")
        self.sees_all = "causal" in self.traits(norm=norm, affine=affine, on=on).lacks
        self.query_norm = ElementNorm(dim, norm, affine=affine) if "query" in places else None
        self.key_norm = ElementNorm(dim, norm, affine=affine) if "key" in places else None

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        norm, on = options.get("norm", "instance"), options.get("on", "query")
        if norm not in NORMS:
            raise ValueError(f"norm is one of {', '.join(NORMS)}, not {norm!r}")
        if on not in PLACES:
            raise ValueError(f"on is one of {', '.join(PLACES)}, not {on!r}")
        if norm == "layer":
            return Traits(family="energy", weights="dense")
        lacks: dict[Ability, str] = {"causal": SEES_ALL, "incremental": SEES_ALL}
        return Traits(family="energy", weights="dense", lacks=lacks)

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
        """As in ``Attention.forward``; a causal mask is refused where statistics see the future."""
        if self.sees_all and (state is not None or (mask is not None and mask.causal)):
            raise SiteError(f"nsa can't be causal: {SEES_ALL}")
        return super().forward(
            query_BQD,
            memory_BKD,
            geometry=geometry,
            mask=mask,
            state=state,
            need_weights=need_weights,
        )

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """As in ``Attention.begin``."""
        if self.sees_all:
            raise SiteError(f"nsa can't decode step by step: {SEES_ALL}")
        return super().begin(memory_BKD, mask)

    def project_queries(self, query_BQD: Tensor, valid_BQ: Tensor | None) -> Tensor:
        """As in ``TermsAttention``, then normalised."""
        projected_BQD = super().project_queries(query_BQD, valid_BQ)
        return (
            projected_BQD if self.query_norm is None else self.query_norm(projected_BQD, valid_BQ)
        )

    def project_keys(self, memory_BKD: Tensor, valid_BK: Tensor | None) -> Tensor:
        """As in ``TermsAttention``, then normalised."""
        projected_BKD = super().project_keys(memory_BKD, valid_BK)
        return projected_BKD if self.key_norm is None else self.key_norm(projected_BKD, valid_BK)
