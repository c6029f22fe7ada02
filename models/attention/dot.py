"""Scaled dot-product attention and its absence."""

from __future__ import annotations

from typing import Any

from .contract import NoAttention
from .registry import register_attention
from .terms import TermsAttention
from .traits import Traits

register_attention("none", examples=("none",))(NoAttention)


@register_attention("dot", examples=("dot",))
class DotAttention(TermsAttention):
    """Scaled dot-product attention ("Attention Is All You Need", equation 1): E1 alone.

    Args:
        dim: model width D.
        heads: number of heads H.
        dropout: dropout on the attention weights.
        bias: biases on the query, key and value projections, as fairseq has them.
    """

    def __init__(
        self, dim: int, heads: int = 8, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__(dim, heads, dropout=dropout, terms="1000", bias=bias)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        return Traits(family="energy", weights="dense")
