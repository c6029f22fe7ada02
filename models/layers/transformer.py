"""Transformer layers ("Attention Is All You Need", section 3.1) around any attention module.

A layer whose attention is ``none`` leaves that sub-layer out, residual and norm included.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ..attention import Attention, AttentionMask, AttentionState, Geometry, NoAttention


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between: D -> hidden -> D.

    Args:
        dim: model width D.
        hidden: width between.
        dropout: dropout on the hidden units.
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(dim, hidden)
        self.contract = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.expand, self.contract):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        return self.contract(self.dropout(self.expand(x_BTD).relu_()))


class Residual(nn.Module):
    """A residual connection with its layer norm.

    Args:
        dim: model width D.
        dropout: dropout on the sub-layer's output.
        norm_first: normalise the input (pre-norm) and not the sum (post-norm, the paper's form).
    """

    def __init__(self, dim: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``norm(x + sublayer(x))``, or ``x + sublayer(norm(x))`` with ``norm_first``."""
        if self.norm_first:
            return x_BTD + self.dropout(sublayer(self.norm(x_BTD)))
        return self.norm(x_BTD + self.dropout(sublayer(x_BTD)))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward.

    Args:
        self_attention: any variant that serves the site ``encoder_self``.
        ffn: the feed-forward network.
        dropout: dropout on each sub-layer's output.
        norm_first: pre-norm and not post-norm.
    """

    def __init__(
        self, self_attention: Attention, ffn: FeedForward, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        dim = self_attention.dim
        present = not isinstance(self_attention, NoAttention)
        self.self_attention = self_attention if present else None
        self.self_residual = Residual(dim, dropout, norm_first) if present else None
        self.ffn = ffn
        self.ffn_residual = Residual(dim, dropout, norm_first)

    def forward(self, x_BSD: Tensor, geometry: Geometry | None, mask: AttentionMask) -> Tensor:
        """(B, S, D) to (B, S, D)."""
        attention = self.self_attention
        if attention is not None and self.self_residual is not None:
            x_BSD = self.self_residual(
                x_BSD, lambda x: attention(x, geometry=geometry, mask=mask).context_BQD
            )
        return self.ffn_residual(x_BSD, self.ffn)


class DecoderLayer(nn.Module):
    """Self-attention, encoder-decoder attention and feed-forward.

    Args:
        self_attention: any variant that serves the site ``decoder_self``.
        cross_attention: any variant that serves the site ``cross``.
        ffn: the feed-forward network.
        dropout: dropout on each sub-layer's output.
        norm_first: pre-norm and not post-norm.
    """

    def __init__(
        self,
        self_attention: Attention,
        cross_attention: Attention,
        ffn: FeedForward,
        dropout: float,
        norm_first: bool,
    ) -> None:
        super().__init__()
        dim = cross_attention.dim
        present = not isinstance(self_attention, NoAttention)
        self.self_attention = self_attention if present else None
        self.self_residual = Residual(dim, dropout, norm_first) if present else None
        self.cross_attention = cross_attention
        self.cross_residual = Residual(dim, dropout, norm_first)
        self.ffn = ffn
        self.ffn_residual = Residual(dim, dropout, norm_first)

    def forward(
        self,
        x_NTD: Tensor,
        memory_BSD: Tensor,
        *,
        self_geometry: Geometry | None,
        self_mask: AttentionMask,
        cross_geometry: Geometry | None,
        cross_mask: AttentionMask,
    ) -> Tensor:
        """(N, T, D) and the encoder output (B, S, D) to (N, T, D), N = C x B.

        The C outputs of an item are queries of one cross-attention call, after one another, so
        that the item's keys and values are made once; ``cross_geometry`` is for those.
        """
        attention = self.self_attention
        if attention is not None and self.self_residual is not None:
            x_NTD = self.self_residual(
                x_NTD, lambda x: attention(x, geometry=self_geometry, mask=self_mask).context_BQD
            )

        def cross(x_NTD: Tensor) -> Tensor:
            context_BQD = self.cross_attention(
                x_NTD.reshape(memory_BSD.shape[0], -1, x_NTD.shape[-1]),
                memory_BSD,
                geometry=cross_geometry,
                mask=cross_mask,
            ).context_BQD
            return context_BQD.view_as(x_NTD)

        x_NTD = self.cross_residual(x_NTD, cross)
        return self.ffn_residual(x_NTD, self.ffn)

    def step(
        self,
        x_N1D: Tensor,
        states: tuple[AttentionState | None, AttentionState],
        *,
        self_geometry: Geometry,
        cross_geometry: Geometry,
        cross_mask: AttentionMask,
    ) -> Tensor:
        """One decoding step for N = items x beams rows: (N, 1, D) to (N, 1, D).

        The beams of an item are the queries of one cross-attention call, so that the item's
        keys and values are held once.
        """
        attention = self.self_attention
        self_state, cross_state = states
        if attention is not None and self.self_residual is not None:
            x_N1D = self.self_residual(
                x_N1D,
                lambda x: attention(x, geometry=self_geometry, state=self_state).context_BQD,
            )

        def cross(x_N1D: Tensor) -> Tensor:
            rows = x_N1D.shape[0]
            context_BQD = self.cross_attention(
                x_N1D.view(-1, cross_geometry.queries, x_N1D.shape[-1]),
                geometry=cross_geometry,
                mask=cross_mask,
                state=cross_state,
            ).context_BQD
            return context_BQD.reshape(rows, 1, -1)

        return self.ffn_residual(self.cross_residual(x_N1D, cross), self.ffn)
