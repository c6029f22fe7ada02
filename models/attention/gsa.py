"""Geometry-aware self-attention, alone and with normalised queries (GSA and NG-SA).

"Normalized and Geometry-Aware Self-Attention Network for Image Captioning" (Guo et al., CVPR
2020, arXiv 2003.08897), section 3.3, with f_ij the four log-ratios of two boxes (``Boxes``)::

    G_ij = ReLU(FC(f_ij))
    content-independent  phi_ij = ReLU(w^T G_ij)
    query-dependent      phi_ij = Q'_i . G_ij,   Q' a further projection of the input
    key-dependent        phi_ij = K'_j . G_ij,   K' a further projection of the input
    weights = softmax(Q K^T / sqrt(E) + phi)

The paper doesn't state the width of G, nor what the heads share. Here all heads share G by
default (``shared``) and each has its own part of Q', K' and w: an 8-headed layer of width 512
then has 4,109 parameters for each of the ``geometry_dim`` numbers of G, and the published 41.5 M
(40.2 M without) for four layers leaves 77 to 82 of them. Hence the default of 80: 41,514,832
parameters, 0.04 % above the rounded 41.5 M, and 40.2 M for the content-independent form. With the
width of a head, 64, there would be 41.25 M; the rest is what the paper leaves unsaid.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .boxes import Boxes
from .geometric import geometric_scores
from .grid import Grid2D
from .grid_pairs import CellScores
from .nsa import NormalisedAttention
from .regions import RegionAttention
from .registry import register_attention
from .traits import Traits

FORMS = ("content", "query", "key")


class GeometryScores(nn.Module):
    """phi: what the boxes of a pair of regions add to its energy; the chosen forms are summed.

    Args:
        dim: model width D.
        heads: number of heads H.
        forms: any of ``content``, ``query``, ``key``.
        geometry_dim: width of the embedding of a pair.
        shared: all heads share the embedding; else each has its own.
        scale: divide the dot products with Q' and K' by the root of ``geometry_dim``.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        forms: tuple[str, ...],
        geometry_dim: int,
        *,
        shared: bool,
        scale: bool,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.geometry_dim = geometry_dim
        self.shares = 1 if shared else heads
        self.scale = 1 / math.sqrt(geometry_dim) if scale else 1.0
        self.embed = nn.Linear(4, self.shares * geometry_dim)
        self.asking = nn.ModuleDict(
            {
                form: nn.Linear(dim, heads * geometry_dim)
                for form in FORMS
                if form in forms and form != "content"
            }
        )
        self.content_HG = (
            nn.Parameter(torch.empty(heads, geometry_dim)) if "content" in forms else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform maps, zero biases; w not negative, so that no head starts dead."""
        for linear in (self.embed, *self.asking.values()):
            assert isinstance(linear, nn.Linear)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        if self.content_HG is not None:
            nn.init.uniform_(self.content_HG, 0, 1 / math.sqrt(self.geometry_dim))

    def forward(self, x_BND: Tensor, boxes: Boxes) -> Tensor:
        """(B, N, D) and its boxes to (B, H, N, N)."""
        ratios_BNN4 = boxes.log_ratios()
        parts = []
        for form, linear in self.asking.items():
            asking_BNHG = (linear(x_BND) * self.scale).unflatten(-1, (self.heads, -1))
            if form == "query":
                parts.append(self._scores(ratios_BNN4, asking_BNHG))
            else:
                turned = self._scores(ratios_BNN4.transpose(1, 2), asking_BNHG)
                parts.append(turned.transpose(-2, -1))
        if self.content_HG is not None:
            asking_BNHG = self.content_HG.expand(*x_BND.shape[:2], -1, -1)
            dtype = parts[0].dtype if parts else x_BND.dtype
            parts.append(self._scores(ratios_BNN4, asking_BNHG.to(dtype)).relu())
        return sum(parts[1:], start=parts[0])

    def of_cells(self, x_BND: Tensor, where: Grid2D) -> CellScores:
        """The same of the cells of a feature map."""
        ratios_T4 = where.log_ratios(x_BND.device).to(self.embed.weight.dtype)
        embedding_TRG = self.embed(ratios_T4).relu().unflatten(-1, (self.shares, -1))
        asking = {
            form: (linear(x_BND) * self.scale).unflatten(-1, (self.heads, -1))
            for form, linear in self.asking.items()
        }
        table_HT = None
        if self.content_HG is not None:
            table_HT = (self.content_HG * embedding_TRG).sum(-1).relu().T.to(x_BND.dtype)
        return CellScores(
            where, table_HT, embedding_TRG.transpose(0, 1), asking.get("query"), asking.get("key")
        )

    def _scores(self, ratios_BNN4: Tensor, asking_BNHG: Tensor) -> Tensor:
        weight_RG4 = self.embed.weight.view(self.shares, self.geometry_dim, 4)
        bias_RG = self.embed.bias.view(self.shares, self.geometry_dim)
        return geometric_scores(ratios_BNN4, weight_RG4, bias_RG, asking_BNHG)


@register_attention(
    "gsa",
    positional="form",
    examples=(
        "gsa(query)",
        "gsa(key)",
        "gsa(content)",
        "gsa(query+key)",
        "gsa(content+query+key,geometry_dim=12,scale=false,shared=false)",
    ),
)
class GeometryAttention(RegionAttention):
    """Geometry-aware self-attention (Guo et al., CVPR 2020, section 3.3): boxes in the scores.

    Args:
        dim: model width D.
        heads: number of heads H.
        dropout: dropout on the attention weights.
        form: ``query`` (the paper's default), ``key``, ``content`` (content-independent), or a
            sum of them such as ``query+key``.
        geometry_dim: width of the embedding G of a pair of boxes.
        shared: all heads share G; false gives each head its own map from the log-ratios.
        scale: divide the products with G by sqrt(geometry_dim), as the content's product is
            divided by sqrt(E); the paper's formula of phi shows no divisor.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        form: str = "query",
        geometry_dim: int = 80,
        shared: bool = True,
        scale: bool = True,
    ) -> None:
        super().__init__(dim, heads, dropout=dropout, terms="1000", bias=True)
        forms = _forms(form)
        self.geometry = GeometryScores(dim, heads, forms, geometry_dim, shared=shared, scale=scale)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        _check(options)
        return super().traits()

    def pair_scores(self, query_BQD: Tensor, boxes: Boxes) -> Tensor:
        """As in ``RegionAttention``: phi."""
        return self.geometry(query_BQD, boxes)

    def cell_scores(self, query_BQD: Tensor, where: Grid2D) -> CellScores:
        """As in ``RegionAttention``: phi."""
        return self.geometry.of_cells(query_BQD, where)


@register_attention(
    "ngsa",
    positional="form",
    examples=("ngsa(query)", "ngsa(content+key)", "ngsa(query,norm=layer,on=query+key)"),
)
class NormalisedGeometryAttention(RegionAttention, NormalisedAttention):
    """Normalised and geometry-aware self-attention (Guo et al., CVPR 2020): IN(Q) K^T + phi.

    Args:
        dim: model width D.
        heads: number of heads H.
        dropout: dropout on the attention weights.
        form, geometry_dim, shared, scale: as of ``gsa``.
        norm, affine, on: as of ``nsa``; the projections that meet G are not normalised.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        form: str = "query",
        geometry_dim: int = 80,
        shared: bool = True,
        scale: bool = True,
        norm: str = "instance",
        affine: bool = False,
        on: str = "query",
    ) -> None:
        NormalisedAttention.__init__(
            self, dim, heads, dropout=dropout, norm=norm, affine=affine, on=on
        )
        forms = _forms(form)
        self.geometry = GeometryScores(dim, heads, forms, geometry_dim, shared=shared, scale=scale)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        _check(options)
        NormalisedAttention.traits(**options)
        return super().traits()

    def pair_scores(self, query_BQD: Tensor, boxes: Boxes) -> Tensor:
        """As in ``RegionAttention``: phi."""
        return self.geometry(query_BQD, boxes)

    def cell_scores(self, query_BQD: Tensor, where: Grid2D) -> CellScores:
        """As in ``RegionAttention``: phi."""
        return self.geometry.of_cells(query_BQD, where)


def _forms(text: str) -> tuple[str, ...]:
    forms = tuple(text.split("+"))
    if not set(forms) <= set(FORMS) or len(forms) > len(set(forms)):
        raise ValueError(f"the form is {', '.join(FORMS)} or a sum such as query+key, not {text!r}")
    return forms


def _check(options: dict[str, Any]) -> None:
    _forms(options.get("form", "query"))
    if options.get("geometry_dim", 1) < 1:
        raise ValueError(f"geometry_dim is 1 or more, not {options['geometry_dim']}")
