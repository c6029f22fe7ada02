"""Early and late fusion, with LSTMs and with Transformers: the plain baselines of MulT's tables.

"Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et al., ACL 2019),
section 4, names them: EF-LSTM and LF-LSTM (tables 1 to 3), a late fusion that concatenates the
last elements of three self-attention Transformers, and a Transformer over the temporal
concatenation of the three sequences (table 4). Its methods have about the same number of
parameters. Widths, layers, what reads the input and what predicts are left open; here the
convolutions in front and the head behind are MulT's, so that the fusion alone differs, and the
width is matched by count. A unimodal model is late fusion of one modality.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import AttentionMask, Sequence1D, Site, build_attention
from .crossmodal import StepEmbedding
from .layers import EncoderLayer, FeedForward
from .sentiment_config import SentimentModelConfig
from .stream_layers import (
    ResidualHead,
    TemporalConvolutions,
    make_lstm,
    pack,
    pack_aligned,
    pack_stream,
)
from .streams import Streams, StreamsOutput, read_out


class EarlyFusionLSTM(nn.Module):
    """EF-LSTM: the modalities of a step side by side, one LSTM over the steps.

    Needs aligned streams. The LSTM's output at the step that stands for the item is read.

    Args:
        config: the settings.
        hidden: width of the LSTM.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int) -> None:
        super().__init__()
        self.modalities = tuple(config.used)
        self.front = TemporalConvolutions(config, config.dim)
        self.lstm = make_lstm(len(self.modalities) * config.dim, config, hidden)
        self.head = ResidualHead(hidden, config.outputs, config.output_dropout)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O). Raises ValueError for streams that aren't aligned."""
        single, _, read_at_B = pack_aligned(streams, self.modalities, "ef-lstm")
        x_BTD = torch.cat([self.front(single[name], name) for name in self.modalities], -1)
        read_BD = read_out(self.lstm(x_BTD)[0], read_at_B)
        return StreamsOutput(self.head(read_BD), {}, {})


class LateFusionLSTM(nn.Module):
    """LF-LSTM: an LSTM for each modality; what they read last is concatenated.

    Args:
        config: the settings.
        hidden: width of each LSTM.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int) -> None:
        super().__init__()
        self.modalities = tuple(config.used)
        self.front = TemporalConvolutions(config, config.dim)
        self.lstms = nn.ModuleDict(
            {name: make_lstm(config.dim, config, hidden) for name in self.modalities}
        )
        self.head = ResidualHead(
            len(self.modalities) * hidden, config.outputs, config.output_dropout
        )

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O); a modality without any step reads as zeros."""
        read: list[Tensor] = []
        for name in self.modalities:
            stream = pack_stream(streams, name)
            states_BTD = self.lstms[name](self.front(stream, name))[0]
            read.append(read_out(states_BTD, stream.read_at_B))
        return StreamsOutput(self.head(torch.cat(read, -1)), {}, {})


class LateFusionTransformer(nn.Module):
    """LF-Transformer: self-attention in each modality; what they read last is concatenated.

    Args:
        config: the settings; ``memory_self`` is the attention of every layer.
        hidden: model width D, a multiple of the heads.
        site: what a variant must be able to do here.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int, site: Site) -> None:
        super().__init__()
        self.modalities = tuple(config.used)
        self.front = TemporalConvolutions(config, hidden)
        self.encoders = nn.ModuleDict(
            {name: StreamEncoder(config, hidden, site) for name in self.modalities}
        )
        self.head = ResidualHead(
            len(self.modalities) * hidden, config.outputs, config.output_dropout
        )

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O); a modality without any step reads as zeros."""
        read: list[Tensor] = []
        for name in self.modalities:
            stream = pack_stream(streams, name)
            encoder = self.encoders[name]
            assert isinstance(encoder, StreamEncoder)
            x_BTD = encoder(
                encoder.embed(self.front(stream, name), stream.valid_BT), stream.valid_BT
            )
            read.append(read_out(x_BTD, stream.read_at_B))
        return StreamsOutput(self.head(torch.cat(read, -1)), {}, {})


class EarlyFusionTransformer(nn.Module):
    """EF-Transformer: one self-attention network over all modalities.

    ``early_fusion="time"`` is the paper's "temporal concatenation": the streams after one
    another, each with its own positions from 0, whatever their lengths; what stands for the item
    in each is read and concatenated (which the paper leaves open). ``"features"`` puts the
    modalities of a step side by side, as EF-LSTM does, and needs aligned streams.

    Args:
        config: the settings; ``memory_self`` is the attention of every layer.
        hidden: model width D, a multiple of the heads.
        site: what a variant must be able to do here.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int, site: Site) -> None:
        super().__init__()
        self.modalities = tuple(config.used)
        self.in_time = config.early_fusion == "time"
        self.front = TemporalConvolutions(config, hidden if self.in_time else config.dim)
        side_by_side = len(self.modalities) * config.dim
        self.join = None if self.in_time else nn.Linear(side_by_side, hidden)
        self.encoder = StreamEncoder(config, hidden, site)
        read = len(self.modalities) * hidden if self.in_time else hidden
        self.head = ResidualHead(read, config.outputs, config.output_dropout)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O). Raises ValueError for ``features`` of unaligned streams."""
        read_BD = self._in_time(streams) if self.in_time else self._by_step(streams)
        return StreamsOutput(self.head(read_BD), {}, {})

    def _in_time(self, streams: Streams) -> Tensor:
        single = [pack_stream(streams, name) for name in self.modalities]
        embedded = [
            self.encoder.embed(self.front(stream, name), stream.valid_BT)
            for name, stream in zip(self.modalities, single, strict=True)
        ]
        valid_BT = torch.cat([each.valid_BT for each in single], 1)
        joint = pack(torch.cat(embedded, 1), valid_BT, single[0].read_at_B)
        out_BTD = self.encoder(joint.x_BTF, joint.valid_BT)
        read: list[Tensor] = []
        start_B = torch.zeros_like(single[0].read_at_B)
        for stream in single:
            place_B = torch.where(stream.read_at_B < 0, -1, start_B + stream.read_at_B)
            read.append(read_out(out_BTD, place_B))
            start_B = start_B + stream.length_B
        return torch.cat(read, -1)

    def _by_step(self, streams: Streams) -> Tensor:
        assert self.join is not None
        single, valid_BT, read_at_B = pack_aligned(streams, self.modalities, "ef-transformer")
        x_BTD = torch.cat([self.front(single[name], name) for name in self.modalities], -1)
        x_BTD = self.encoder.embed(self.join(x_BTD), valid_BT)
        out_BTD = self.encoder(x_BTD, valid_BT)
        return read_out(out_BTD, read_at_B)


class StreamEncoder(nn.Module):
    """Pre-norm self-attention layers over one packed sequence, with a norm after the last.

    The form of MulT's own networks: input times sqrt(D), sinusoidal positions, dropout.

    Args:
        config: ``memory_layers``, ``heads``, ``memory_self`` and dropout.
        width: model width D.
        site: what a variant must be able to do here.
    """

    def __init__(self, config: SentimentModelConfig, width: int, site: Site) -> None:
        super().__init__()
        ffn_hidden = config.ffn_hidden or config.ffn_multiple * width
        self.layers = nn.ModuleList(
            EncoderLayer(
                build_attention(
                    config.memory_self,
                    dim=width,
                    heads=config.heads,
                    dropout=config.attention_dropout_text,
                    site=site,
                ),
                FeedForward(width, ffn_hidden, config.relu_dropout),
                config.residual_dropout,
                norm_first=True,
            )
            for _ in range(config.memory_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.embedding = StepEmbedding(width)
        self.dropout = nn.Dropout(config.embed_dropout)
        self.causal = config.future_mask == "reference"

    def embed(self, x_BTD: Tensor, valid_BT: Tensor) -> Tensor:
        """Scale, add positions to real steps and drop out: (B, T, D) to (B, T, D)."""
        return self.dropout(self.embedding(x_BTD, valid_BT))

    def forward(self, x_BTD: Tensor, valid_BT: Tensor) -> Tensor:
        """All layers: (B, T, D) to (B, T, D)."""
        geometry = Sequence1D(x_BTD.shape[1], x_BTD.shape[1])
        mask = AttentionMask(valid_BT, causal=self.causal)
        for layer in self.layers:
            x_BTD = layer(x_BTD, geometry, mask)
        return self.norm(x_BTD)
