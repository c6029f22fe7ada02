"""Relation attention: a gate from the boxes of query and key multiplies the softmax.

"Relation Networks for Object Detection" (Hu et al., CVPR 2018, arXiv 1711.11575), equations 3 to
5, as the Object Relation Transformer (Herdade et al., NeurIPS 2019, arXiv 1906.05963) uses it for
captions::

    weight_ij = g_ij exp(Q_i . K_j / sqrt(E)) / sum_l g_il exp(Q_i . K_l / sqrt(E))
    g_ij = max(ReLU(w^T enc(f_ij) + b), 1e-6),   one w and b a head

f_ij are the four log-ratios of two boxes and enc their sinusoidal encoding (``Boxes``). The
public code adds 1 to width and height of a box (pixels counted whole): add 1 to x2 and y2 to get
its numbers.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .boxes import Boxes, encode_ratios
from .geometric import items_at_a_time, no_autocast
from .grid import Grid2D
from .grid_pairs import CellScores
from .regions import RegionAttention
from .registry import register_attention
from .traits import Traits

SMALLEST_GATE = 1e-6

FEATURES = ("sinusoid", "raw")


@register_attention("relation", examples=("relation", "relation(features=raw)"))
class RelationAttention(RegionAttention):
    """Relation attention (Hu et al., CVPR 2018; Object Relation Transformer): gated by boxes.

    Args:
        dim: model width D.
        heads: number of heads H.
        dropout: dropout on the attention weights.
        features: ``sinusoid``, the encoding; ``raw``, the four log-ratios themselves.
        geometry_dim: width of the encoding, a multiple of 8.
        wave: longest wavelength of the encoding over 2 pi.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        features: str = "sinusoid",
        geometry_dim: int = 64,
        wave: float = 1000.0,
    ) -> None:
        super().__init__(dim, heads, dropout=dropout, terms="1000", bias=True)
        self.features = features
        self.geometry_dim = geometry_dim
        self.wave = wave
        self.gate = nn.Linear(4 if features == "raw" else geometry_dim, heads)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        features, width = options.get("features", "sinusoid"), options.get("geometry_dim", 64)
        if features not in FEATURES:
            raise ValueError(f"features is one of {', '.join(FEATURES)}, not {features!r}")
        if width < 8 or width % 8:
            raise ValueError(f"geometry_dim is a multiple of 8, not {width}")
        if not options.get("wave", 1.0) > 0:
            raise ValueError(f"wave is a positive number, not {options['wave']}")
        return super().traits()

    def pair_scores(self, query_BQD: Tensor, boxes: Boxes) -> Tensor:
        """As in ``RegionAttention``: log of the gate, which half precision would blur."""
        scores_BNNH = self.log_gates(boxes.log_ratios())
        return scores_BNNH.permute(0, 3, 1, 2).to(query_BQD.dtype)

    def cell_scores(self, query_BQD: Tensor, where: Grid2D) -> CellScores:
        """As in ``RegionAttention``."""
        scores_TH = self.log_gates(where.log_ratios(query_BQD.device)[None, None])[0, 0]
        return CellScores(where, scores_TH.T.to(query_BQD.dtype))

    def log_gates(self, ratios_BNN4: Tensor) -> Tensor:
        """Log of the gate of each pair and head, (B, N, N, H)."""
        with no_autocast(ratios_BNN4):
            kind = torch.promote_types(self.gate.weight.dtype, torch.float32)
            weight_HG, bias_H = self.gate.weight.to(kind), self.gate.bias.to(kind)
            if self.features == "raw":
                gate_BNNH = F.linear(ratios_BNN4.to(kind), weight_HG, bias_H)
            else:
                gate_BNNH = _EncodedLinear.apply(ratios_BNN4, weight_HG, bias_H, self.wave)
            return F.threshold(gate_BNNH, SMALLEST_GATE, SMALLEST_GATE).log()


class _EncodedLinear(Function):
    """A linear map of the encodings, which are made for a few items at a time and never held."""

    @staticmethod
    def forward(
        ctx: Any, ratios_BNN4: Tensor, weight_HG: Tensor, bias_H: Tensor, wave: float
    ) -> Tensor:
        ctx.save_for_backward(ratios_BNN4, weight_HG)
        ctx.wave = wave
        gate_BNNH = weight_HG.new_empty(*ratios_BNN4.shape[:3], len(weight_HG))
        for items in _EncodedLinear.parts(ratios_BNN4, weight_HG):
            encoding = encode_ratios(ratios_BNN4[items], weight_HG.shape[1], wave)
            gate_BNNH[items] = F.linear(encoding.to(weight_HG.dtype), weight_HG, bias_H)
        return gate_BNNH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BNNH: Tensor) -> Any:  # type: ignore[override]
        ratios_BNN4, weight_HG = ctx.saved_tensors
        grad_HG = torch.zeros_like(weight_HG)
        for items in _EncodedLinear.parts(ratios_BNN4, weight_HG):
            encoding = encode_ratios(ratios_BNN4[items], weight_HG.shape[1], ctx.wave)
            grad_HG.addmm_(
                grad_BNNH[items].flatten(0, 2).T, encoding.flatten(0, 2).to(grad_HG.dtype)
            )
        return None, grad_HG, grad_BNNH.sum((0, 1, 2)), None

    @staticmethod
    def parts(ratios_BNN4: Tensor, weight_HG: Tensor) -> list[slice]:
        """Slices of the batch."""
        return items_at_a_time(ratios_BNN4, weight_HG.shape[1])
