"""The crossmodal Transformer: one stream is reinforced with what another one says.

"Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et al., ACL 2019, arXiv
1906.00295), sections 3.1 and 3.2. D blocks; in block i the target's hidden states ask the source::

    Z'[i] = CM[i](LN(Z[i-1]), LN(Z_source)) + LN(Z[i-1])
    Z[i]  = f[i](LN(Z'[i])) + LN(Z'[i])

as the paper prints it; the residuals here go past the norms (pre-norm), as in the public code that
made the paper's numbers. Query and source share one norm.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attention, AttentionMask, AttentionOutput, Geometry
from .layers import EncoderLayer, FeedForward, SinusoidalPositions
from .layers.transformer import Residual

StepPositions = Literal["steps", "first-channel"]


class StepEmbedding(nn.Module):
    """Scales a stream by sqrt(D) and adds sinusoidal positions, which padding doesn't get.

    The sinusoids are fairseq's form, from position 1 on, as in the public code.

    Args:
        dim: width D.
        positions: ``steps`` counts the real steps of an item, so that neither the length of a
            batch nor the side of the padding matters. ``first-channel`` is the public code's:
            the place in the padded stream, and none where channel 0 is exactly 0, which it
            takes for padding.
    """

    def __init__(self, dim: int, positions: StepPositions = "steps") -> None:
        super().__init__()
        self.dim = dim
        self.counts_steps = positions == "steps"
        self.positions = SinusoidalPositions(dim, "sinusoidal-fairseq", first=0)

    def forward(self, x_BTD: Tensor, valid_BT: Tensor) -> Tensor:
        """(B, T, D) and its real steps (B, T) to (B, T, D)."""
        steps = x_BTD.shape[1]
        place_T1 = torch.arange(steps + 1, device=x_BTD.device)
        if self.counts_steps:
            place_BT = valid_BT.cumsum(1) * valid_BT
        else:
            place_BT = (x_BTD[..., 0] != 0) * place_T1[1:]
        table_1TD = self.positions(place_T1[None], x_BTD)
        table_TD = F.pad(table_1TD[0, 1:], (0, 0, 1, 0))  # place 0 stands for none
        return torch.add(F.embedding(place_BT, table_TD), x_BTD, alpha=math.sqrt(self.dim))


class CrossmodalLayer(nn.Module):
    """One crossmodal block: attention from target to source, then feed-forward.

    Args:
        attention: any variant that serves the site ``crossmodal``.
        ffn: the feed-forward network.
        dropout: dropout on each sub-layer's output.
    """

    def __init__(self, attention: Attention, ffn: FeedForward, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(attention.dim)
        self.dropout = nn.Dropout(dropout)
        self.ffn = ffn
        self.ffn_residual = Residual(attention.dim, dropout, norm_first=True)

    def forward(
        self,
        x_BQD: Tensor,
        source_BKD: Tensor,
        geometry: Geometry,
        mask: AttentionMask,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Target (B, Q, D) and source (B, K, D) to (B, Q, D) and the weights, if asked for."""
        output: AttentionOutput = self.attention(
            self.attention_norm(x_BQD),
            self.attention_norm(source_BKD),
            geometry=geometry,
            mask=mask,
            need_weights=need_weights,
        )
        x_BQD = x_BQD + self.dropout(output.context_BQD)
        return self.ffn_residual(x_BQD, self.ffn), output.weights


class CrossmodalTransformer(nn.Module):
    """The layers of one direction, target from source, and the norm behind the last one.

    The model calls the layers itself, since with intermediate-level sources two directions work
    in step with one another.
    """

    def __init__(self, layers: list[CrossmodalLayer], dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(dim)


class MemoryTransformer(nn.Module):
    """Self-attention over the crossmodal outputs of one target, section 3.2 ("memory").

    Args:
        embedding: scale and positions.
        layers: pre-norm encoder layers.
        dropout: dropout behind the embedding.
    """

    def __init__(
        self, embedding: StepEmbedding, layers: list[EncoderLayer], dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(embedding.dim)

    def forward(
        self, x_BTD: Tensor, valid_BT: Tensor, geometry: Geometry, mask: AttentionMask
    ) -> Tensor:
        """(B, T, D) and its real steps to (B, T, D)."""
        x_BTD = self.dropout(self.embedding(x_BTD, valid_BT))
        for layer in self.layers:
            x_BTD = layer(x_BTD, geometry, mask)
        return self.norm(x_BTD)
