"""What the encoder-decoder Transformers share: their layers, and decoding step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from .attention import (
    Attention,
    AttentionMask,
    AttentionState,
    Geometry,
    Sequence1D,
    Site,
    build_attention,
)
from .layers import DecoderLayer, EncoderLayer, FeedForward, SinusoidalPositions


class TransformerSizes(Protocol):
    """What the layers take from a model's configuration; the sites' specs stand beside these."""

    @property
    def dim(self) -> int:
        """Model width D."""
        ...

    @property
    def ffn_dim(self) -> int:
        """Width inside the feed-forward network."""
        ...

    @property
    def heads(self) -> int:
        """Attention heads H."""
        ...

    @property
    def encoder_layers(self) -> int:
        """Number of encoder layers."""
        ...

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers."""
        ...

    @property
    def dropout(self) -> float:
        """Dropout on each sub-layer's output."""
        ...

    @property
    def attention_dropout(self) -> float:
        """Dropout on attention weights."""
        ...

    @property
    def activation_dropout(self) -> float:
        """Dropout inside the feed-forward network."""
        ...

    @property
    def norm_first(self) -> bool:
        """Pre-norm, with a norm after the last layer, and not post-norm."""
        ...


class DecoderState:
    """Decoding state of items x width rows, item-major; opaque to the search.

    It begins with a width of 1; ``select`` sets it anew.
    """

    def __init__(
        self,
        self_states: list[AttentionState | None],
        cross_states: list[AttentionState],
        source_valid_BS: Tensor,
    ) -> None:
        self.self_states = self_states
        self.cross_states = cross_states
        self.width = 1
        self.position = 0
        self._set_source(source_valid_BS)

    def _set_source(self, source_valid_BS: Tensor) -> None:
        self.source_valid_BS = source_valid_BS
        self.cross_mask = AttentionMask(source_valid_BS)

    def select(self, rows_N: Tensor, items_I: Tensor | None = None) -> None:
        """Keep and reorder rows; ``items_I`` are the items they belong to if some are dropped."""
        for state in self.self_states:
            if state is not None:
                state.select(rows_N)
        if items_I is not None:
            for state in self.cross_states:
                state.select(items_I)
            self._set_source(self.source_valid_BS.index_select(0, items_I))
        self.width = len(rows_N) // max(1, len(self.source_valid_BS))

    @property
    def nbytes(self) -> int:
        """Bytes held by the attention states."""
        states = [*self.self_states, *self.cross_states]
        return sum(state.nbytes for state in states if state is not None)


class EncoderDecoder(nn.Module):
    """Base class: encoder and decoder layers with the sites ``encoder_self``, ``decoder_self``
    and ``cross``, and decoding over an opaque state.

    A subclass makes ``target_embedding``, ``output``, ``positions`` (None: nothing is added to
    the embeddings) and ``dropout``, then calls ``add_layers``.
    """

    target_embedding: nn.Embedding
    output: nn.Linear
    positions: SinusoidalPositions | None
    dropout: nn.Dropout

    def add_layers(self, config: TransformerSizes, sites: Mapping[str, Site]) -> None:
        """Make the layers; raises SpecError or SiteError from the config's attention specs."""

        def attention(site: str) -> Attention:
            return build_attention(
                getattr(config, site),
                dim=config.dim,
                heads=config.heads,
                dropout=config.attention_dropout,
                site=sites[site],
            )

        def ffn() -> FeedForward:
            return FeedForward(config.dim, config.ffn_dim, config.activation_dropout)

        rest = (config.dropout, config.norm_first)
        self.encoder = nn.ModuleList(
            EncoderLayer(attention("encoder_self"), ffn(), *rest)
            for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(attention("decoder_self"), attention("cross"), ffn(), *rest)
            for _ in range(config.decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(config.dim) if config.norm_first else None
        self.decoder_norm = nn.LayerNorm(config.dim) if config.norm_first else None

    def embed(self, token_BT: Tensor, embedding: nn.Embedding, start: int = 0) -> Tensor:
        """Embeddings (B, T, D) times sqrt(D), positions from ``start`` on, dropout."""
        x_BTD = embedding(token_BT) * math.sqrt(embedding.embedding_dim)
        if self.positions is not None:
            length = token_BT.shape[1]
            position_1T = torch.arange(start, start + length, device=token_BT.device)[None]
            x_BTD = x_BTD + self.positions(position_1T, x_BTD)
        return self.dropout(x_BTD)

    def run_encoder(self, x_BSD: Tensor, geometry: Geometry | None, valid_BS: Tensor) -> Tensor:
        """All encoder layers: (B, S, D) to (B, S, D)."""
        mask = AttentionMask(valid_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, geometry, mask)
        return x_BSD if self.encoder_norm is None else self.encoder_norm(x_BSD)

    def run_decoder(
        self,
        x_NTD: Tensor,
        memory_BSD: Tensor,
        source_valid_BS: Tensor,
        cross_geometry: Geometry | None,
    ) -> Tensor:
        """All decoder layers over whole outputs: (N, T, D) to (N, T, D), N a multiple of B."""
        length = x_NTD.shape[1]
        where = {
            "self_geometry": Sequence1D(length, length),
            "self_mask": AttentionMask(causal=True),
            "cross_geometry": cross_geometry,
            "cross_mask": AttentionMask(source_valid_BS),
        }
        for layer in self.decoder:
            x_NTD = layer(x_NTD, memory_BSD, **where)
        return x_NTD if self.decoder_norm is None else self.decoder_norm(x_NTD)

    def begin(self, memory_BSD: Tensor, source_valid_BS: Tensor) -> DecoderState:
        """The state before the first step, one row an item."""
        mask = AttentionMask(source_valid_BS)
        return DecoderState(
            [
                None if layer.self_attention is None else layer.self_attention.begin()  # type: ignore[operator, union-attr]
                for layer in self.decoder
            ],
            [layer.cross_attention.begin(memory_BSD, mask) for layer in self.decoder],  # type: ignore[operator, union-attr]
            source_valid_BS,
        )

    def step(self, token_N: Tensor, state: DecoderState) -> Tensor:
        """Feed one symbol a row; return the logits (N, V) of the next, advancing ``state``."""
        x_N1D = self.embed(token_N[:, None], self.target_embedding, state.position)
        position, sources = state.position, state.source_valid_BS.shape[1]
        self_geometry = Sequence1D(1, position + 1, query_start=position)
        cross_geometry = Sequence1D(state.width, sources, query_start=position, query_step=0)
        for layer, *states in zip(self.decoder, state.self_states, state.cross_states, strict=True):
            x_N1D = layer.step(  # type: ignore[operator, union-attr]
                x_N1D,
                tuple(states),
                self_geometry=self_geometry,
                cross_geometry=cross_geometry,
                cross_mask=state.cross_mask,
            )
        state.position += 1
        x_ND = x_N1D[:, 0]
        return self.output(x_ND if self.decoder_norm is None else self.decoder_norm(x_ND))
