"""Encoder-decoder Transformer for translation, with named attention sites.

Transformer-Base ("Attention Is All You Need", Vaswani et al. 2017) with the relative positions
of Zhu et al. (ICCV 2019): position enters through the attention terms E2 and E4, nothing is
added to the embeddings. Sinusoidal positions are there for models without such terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from .attention import AttentionMask, AttentionState, Sequence1D, Site, build_attention
from .layers import DecoderLayer, EncoderLayer, FeedForward, SinusoidalPositions

_SEQUENCE = frozenset({Sequence1D.name})

TRANSLATOR_SITES: dict[str, Site] = {
    "encoder_self": Site("encoder_self", geometry=_SEQUENCE),
    "decoder_self": Site("decoder_self", frozenset({"causal", "incremental"}), _SEQUENCE),
    "cross": Site(
        "cross",
        frozenset({"causal", "incremental", "cross"}),
        _SEQUENCE,
        required="without encoder-decoder attention the decoder never sees the source",
    ),
}


@dataclass(frozen=True)
class TranslatorConfig:
    """Sizes and choices of a ``Translator``; the defaults are Transformer-Base.

    Attributes:
        source_vocabulary, target_vocabulary: number of symbols V.
        dim, ffn_dim, heads, encoder_layers, decoder_layers: sizes.
        dropout: on embeddings and on each sub-layer's output.
        attention_dropout: on attention weights (0 in fairseq's base, 0.1 in tensor2tensor's).
        activation_dropout: inside the feed-forward network.
        norm_first: pre-norm and not post-norm.
        share_embeddings: ``all`` ties source, target and output; ``decoder`` ties target and
            output; ``none`` ties nothing.
        positions: ``relative`` adds nothing to the embeddings; or a sinusoidal form.
        encoder_self, decoder_self, cross: attention specs of the three sites.
        pad: symbol id of padding.
    """

    source_vocabulary: int
    target_vocabulary: int
    dim: int = 512
    ffn_dim: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_first: bool = False
    share_embeddings: Literal["all", "decoder", "none"] = "all"
    positions: Literal["relative", "sinusoidal", "sinusoidal-fairseq"] = "relative"
    encoder_self: str = "terms(1111)"
    decoder_self: str = "terms(1111)"
    cross: str = "terms(1111)"
    pad: int = 1


class TranslatorState:
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


class Translator(nn.Module):
    """Encoder-decoder Transformer; ``start`` and ``step`` decode, ``forward`` trains.

    Raises:
        SpecError, SiteError: from the attention specs of the config.
        ValueError: shared embeddings with vocabularies of different size.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.config = config
        same = config.source_vocabulary == config.target_vocabulary
        if config.share_embeddings == "all" and not same:
            raise ValueError(
                f"share_embeddings=all needs one vocabulary, but the source has "
                f"{config.source_vocabulary} symbols and the target {config.target_vocabulary}: "
                "use a joint vocabulary or share_embeddings=decoder"
            )
        self.target_embedding = _embedding(config.target_vocabulary, config.dim, config.pad)
        self.source_embedding = (
            self.target_embedding
            if config.share_embeddings == "all"
            else _embedding(config.source_vocabulary, config.dim, config.pad)
        )
        self.output = nn.Linear(config.dim, config.target_vocabulary, bias=False)
        if config.share_embeddings == "none":
            nn.init.normal_(self.output.weight, std=config.dim**-0.5)
        else:
            self.output.weight = self.target_embedding.weight
        self.positions = (
            None
            if config.positions == "relative"
            else SinusoidalPositions(config.dim, config.positions, first=config.pad + 1)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(
                self._attention("encoder_self"), self._ffn(), config.dropout, config.norm_first
            )
            for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                self._attention("decoder_self"),
                self._attention("cross"),
                self._ffn(),
                config.dropout,
                config.norm_first,
            )
            for _ in range(config.decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(config.dim) if config.norm_first else None
        self.decoder_norm = nn.LayerNorm(config.dim) if config.norm_first else None

    def _attention(self, site: str):
        config = self.config
        return build_attention(
            getattr(config, site),
            dim=config.dim,
            heads=config.heads,
            dropout=config.attention_dropout,
            site=TRANSLATOR_SITES[site],
        )

    def _ffn(self) -> FeedForward:
        return FeedForward(self.config.dim, self.config.ffn_dim, self.config.activation_dropout)

    def _embed(self, token_BT: Tensor, embedding: nn.Embedding, start: int = 0) -> Tensor:
        x_BTD = embedding(token_BT) * math.sqrt(self.config.dim)
        if self.positions is not None:
            length = token_BT.shape[1]
            position_1T = torch.arange(start, start + length, device=token_BT.device)[None]
            x_BTD = x_BTD + self.positions(position_1T, x_BTD)
        return self.dropout(x_BTD)

    def encode(self, source_BS: Tensor, source_valid_BS: Tensor) -> Tensor:
        """Encoder output (B, S, D) for right-padded source symbols (B, S)."""
        x_BSD = self._embed(source_BS, self.source_embedding)
        length = source_BS.shape[1]
        geometry, mask = Sequence1D(length, length), AttentionMask(source_valid_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, geometry, mask)
        return x_BSD if self.encoder_norm is None else self.encoder_norm(x_BSD)

    def features(
        self, source_BS: Tensor, source_valid_BS: Tensor, target_input_BT: Tensor
    ) -> Tensor:
        """Decoder output (B, T, D) before the output projection; see ``forward``."""
        memory_BSD = self.encode(source_BS, source_valid_BS)
        x_BTD = self._embed(target_input_BT, self.target_embedding)
        sources, targets = source_BS.shape[1], target_input_BT.shape[1]
        where = {
            "self_geometry": Sequence1D(targets, targets),
            "self_mask": AttentionMask(causal=True),
            "cross_geometry": Sequence1D(targets, sources),
            "cross_mask": AttentionMask(source_valid_BS),
        }
        for layer in self.decoder:
            x_BTD = layer(x_BTD, memory_BSD, **where)
        return x_BTD if self.decoder_norm is None else self.decoder_norm(x_BTD)

    def forward(
        self, source_BS: Tensor, source_valid_BS: Tensor, target_input_BT: Tensor
    ) -> Tensor:
        """Logits (B, T, V) of the next symbol at each target position.

        Args:
            source_BS: source symbols, right padded.
            source_valid_BS: bool, True where the source is real.
            target_input_BT: target symbols shifted right, right padded.
        """
        return self.output(self.features(source_BS, source_valid_BS, target_input_BT))

    def start(self, source_BS: Tensor, source_valid_BS: Tensor) -> TranslatorState:
        """Encode and return the decoding state, one row an item."""
        memory_BSD = self.encode(source_BS, source_valid_BS)
        mask = AttentionMask(source_valid_BS)
        return TranslatorState(
            [
                None if layer.self_attention is None else layer.self_attention.begin()  # type: ignore[operator, union-attr]
                for layer in self.decoder
            ],
            [layer.cross_attention.begin(memory_BSD, mask) for layer in self.decoder],  # type: ignore[operator, union-attr]
            source_valid_BS,
        )

    def step(self, token_N: Tensor, state: TranslatorState) -> Tensor:
        """Feed one symbol a row; return the logits (N, V) of the next, advancing ``state``."""
        x_N1D = self._embed(token_N[:, None], self.target_embedding, state.position)
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


def _embedding(symbols: int, dim: int, pad: int) -> nn.Embedding:
    """Normal with variance 1/D, so that the scaled embedding has unit variance; padding is 0."""
    embedding = nn.Embedding(symbols, dim, padding_idx=pad)
    nn.init.normal_(embedding.weight, std=dim**-0.5)
    nn.init.zeros_(embedding.weight[pad])  # type: ignore[arg-type]
    return embedding
