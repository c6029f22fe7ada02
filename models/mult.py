"""MulT: streams of text, audio and vision at their own rates, joined by crossmodal attention.

"Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et al., ACL 2019, arXiv
1906.00295), section 3: temporal convolutions bring all streams to one width; for each target and
each other stream a crossmodal Transformer; the outputs of one target side by side through a
self-attention Transformer; the step that stands for the item from each; a residual block.

What the public code (yaohungt/Multimodal-Transformer) does differently from the paper, or what is
a mistake there, is an option of ``MultConfig``; with ``REFERENCE_QUIRKS`` its numbers come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .attention import Attention, AttentionMask, Sequence1D, build_attention
from .crossmodal import (
    CrossmodalLayer,
    CrossmodalTransformer,
    MemoryTransformer,
    StepEmbedding,
)
from .layers import EncoderLayer, FeedForward
from .layers.temporal import TemporalConvolution
from .mult_config import MULT_SITES, REFERENCE_QUIRKS, MultConfig
from .streams import Streams, StreamsOutput, read_out

__all__ = ["MULT_SITES", "REFERENCE_QUIRKS", "MulT", "MultConfig"]


class _Stream(NamedTuple):
    """One modality behind its convolution."""

    x_BTD: Tensor
    valid_BT: Tensor
    read_at_B: Tensor


class MulT(nn.Module):
    """The Multimodal Transformer, of the parts that its configuration uses.

    Raises:
        ValueError: from the sizes; SpecError or SiteError from the attention specs.
    """

    def __init__(self, config: MultConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.dim
        self.convolutions = nn.ModuleDict(
            {
                name: TemporalConvolution(
                    config.dims[name], dim, config.of("kernel", name), config.conv_padding
                )
                for name in config.used
                if not (config.skip_projection_when_equal and config.dims[name] == dim)
            }
        )
        self.text_dropout = nn.Dropout(config.text_dropout)
        self.embedding = StepEmbedding(dim, config.positions)
        self.embed_dropout = nn.Dropout(config.embed_dropout)
        self.crossmodal = nn.ModuleDict(
            {_key(target, source): _crossmodal(config, source) for target, source in config.pairs}
        )
        sources = len(config.used) - 1
        targets = list(dict.fromkeys(target for target, _ in config.pairs))
        self.memory = nn.ModuleDict({target: _memory(config, sources * dim) for target in targets})
        joined = len(targets) * sources * dim
        self.expand = nn.Linear(joined, joined)
        self.contract = nn.Linear(joined, joined)
        self.output_dropout = nn.Dropout(config.output_dropout)
        self.output = nn.Linear(joined, config.outputs)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions for a batch of B items.

        Args:
            streams: one stream of features for each modality that is used; others are ignored.
            need_weights: also give the crossmodal attention, by ``target from source`` one
                (B, H, Q, K) a layer, where the variant has dense weights.

        Returns:
            Predictions (B, O). An item without any real step in a modality gets zeros from it.
        """
        last_BD, weights = self.represent(streams, need_weights)
        hidden_BD = self.output_dropout(self.expand(last_BD).relu())
        return StreamsOutput(self.output(self.contract(hidden_BD) + last_BD), {}, weights)

    def represent(
        self, streams: Streams, need_weights: bool = False
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """What is read of each target, side by side, and the crossmodal weights (see ``forward``).

        The width is targets x sources x D.
        """
        stream = {name: self._stream(streams, name) for name in self.config.used}
        crossed, weights = self._cross(stream, need_weights)
        read = []
        for target, memory in self.memory.items():
            x_BTD = torch.cat([x for (name, _), x in crossed.items() if name == target], dim=-1)
            read.append(self._remember(memory, x_BTD, stream[target]))
        return torch.cat(read, dim=-1), weights

    def _stream(self, streams: Streams, name: str) -> _Stream:
        """The stream at the model's width, zeros in padding where padding is masked."""
        x_BTF, valid_BT = streams.features[name], streams.valid[name]
        read_at_B = streams.read_at[name]
        if self.config.padding_masks:
            x_BTF = x_BTF.masked_fill(~valid_BT[..., None], 0)
        if name == "text":
            x_BTF = self.text_dropout(x_BTF)
        if name not in self.convolutions:
            return _Stream(x_BTF, valid_BT, read_at_B)
        convolution = self.convolutions[name]
        assert isinstance(convolution, TemporalConvolution)
        valid_BT = convolution.valid(valid_BT)
        return _Stream(convolution(x_BTF), valid_BT, convolution.read_at(read_at_B, valid_BT))

    def _cross(
        self, stream: Mapping[str, _Stream], need_weights: bool
    ) -> tuple[dict[tuple[str, str], Tensor], dict[str, list[Tensor]]]:
        """All crossmodal Transformers, block by block."""
        low = {name: self.embedding(one.x_BTD, one.valid_BT) for name, one in stream.items()}
        pairs = self.config.pairs
        hidden = {pair: self.embed_dropout(low[pair[0]]) for pair in pairs}
        source = {pair: self.embed_dropout(low[pair[1]]) for pair in pairs}
        where = {pair: self._where(stream[pair[0]], stream[pair[1]]) for pair in pairs}
        weights: dict[str, list[Tensor]] = {}
        for block in range(self.config.crossmodal_layers):
            if block and self.config.source_level == "intermediate":
                source = {(target, other): hidden[other, target] for target, other in pairs}
            reached = {}
            for pair in pairs:
                layer = self._transformer(*pair).layers[block]
                reached[pair], seen = layer(hidden[pair], source[pair], *where[pair], need_weights)
                if seen is not None:
                    weights.setdefault(" from ".join(pair), []).append(seen)
            hidden = reached
        crossed = {pair: self._transformer(*pair).norm(x) for pair, x in hidden.items()}
        return crossed, weights

    def _transformer(self, target: str, source: str) -> CrossmodalTransformer:
        module = self.crossmodal[_key(target, source)]
        assert isinstance(module, CrossmodalTransformer)
        return module

    def _remember(self, memory: nn.Module, x_BTD: Tensor, target: _Stream) -> Tensor:
        """The memory over one target, read at the step that stands for the item: (B, D)."""
        x_BTD = memory(x_BTD, target.valid_BT, *self._where(target, target))
        if self.config.read == "last":
            return x_BTD[:, -1]
        return read_out(x_BTD, target.read_at_B)

    def _where(self, target: _Stream, source: _Stream) -> tuple[Sequence1D, AttentionMask]:
        """Geometry and mask of one direction, made once a batch for all its layers."""
        queries, keys = target.x_BTD.shape[1], source.x_BTD.shape[1]
        causal = self.config.future_mask == "reference"
        start = abs(keys - queries) if causal else 0
        geometry = Sequence1D(queries, keys, query_start=start)
        if not self.config.padding_masks:
            return geometry, AttentionMask(causal=causal)
        return geometry, AttentionMask(source.valid_BT, target.valid_BT, causal=causal)


def _key(target: str, source: str) -> str:
    return f"{target}_from_{source}"


def _attention(config: MultConfig, site: str, dim: int, source: str) -> Attention:
    """A module for one site, with the dropout of its source."""
    return build_attention(
        getattr(config, site),
        dim=dim,
        heads=config.heads,
        dropout=config.of("attention_dropout", source),
        site=config.site(site),
    )


def _ffn(config: MultConfig, dim: int) -> FeedForward:
    return FeedForward(dim, config.ffn_multiple * dim, config.relu_dropout)


def _crossmodal(config: MultConfig, source: str) -> CrossmodalTransformer:
    dim = config.dim
    layers = [
        CrossmodalLayer(
            _attention(config, "crossmodal", dim, source),
            _ffn(config, dim),
            config.residual_dropout,
        )
        for _ in range(config.crossmodal_layers)
    ]
    return CrossmodalTransformer(layers, dim)


def _memory(config: MultConfig, dim: int) -> MemoryTransformer:
    layers = [
        EncoderLayer(
            _attention(config, "memory_self", dim, "text"),
            _ffn(config, dim),
            config.residual_dropout,
            norm_first=True,
        )
        for _ in range(config.memory_layers)
    ]
    return MemoryTransformer(StepEmbedding(dim, config.positions), layers, config.embed_dropout)
