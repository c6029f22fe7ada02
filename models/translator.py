"""Encoder-decoder Transformer for translation, with named attention sites.

Transformer-Base ("Attention Is All You Need", Vaswani et al. 2017) with the relative positions
of Zhu et al. (ICCV 2019): position enters through the attention terms E2 and E4, nothing is
added to the embeddings. Sinusoidal positions are there for models without such terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from .attention import Sequence1D, Site
from .encoder_decoder import DecoderState, EncoderDecoder
from .layers import SinusoidalPositions

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


class Translator(EncoderDecoder):
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
        self.add_layers(config, TRANSLATOR_SITES)

    def encode(self, source_BS: Tensor, source_valid_BS: Tensor) -> Tensor:
        """Encoder output (B, S, D) for right-padded source symbols (B, S)."""
        x_BSD = self.embed(source_BS, self.source_embedding)
        length = source_BS.shape[1]
        return self.run_encoder(x_BSD, Sequence1D(length, length), source_valid_BS)

    def features(
        self, source_BS: Tensor, source_valid_BS: Tensor, target_input_BT: Tensor
    ) -> Tensor:
        """Decoder output (B, T, D) before the output projection; see ``forward``."""
        memory_BSD = self.encode(source_BS, source_valid_BS)
        x_BTD = self.embed(target_input_BT, self.target_embedding)
        where = Sequence1D(target_input_BT.shape[1], source_BS.shape[1])
        return self.run_decoder(x_BTD, memory_BSD, source_valid_BS, where)

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

    def start(self, source_BS: Tensor, source_valid_BS: Tensor) -> DecoderState:
        """Encode and return the decoding state, one row an item."""
        return self.begin(self.encode(source_BS, source_valid_BS), source_valid_BS)


def _embedding(symbols: int, dim: int, pad: int) -> nn.Embedding:
    """Normal with variance 1/D, so that the scaled embedding has unit variance; padding is 0."""
    embedding = nn.Embedding(symbols, dim, padding_idx=pad)
    nn.init.normal_(embedding.weight, std=dim**-0.5)
    nn.init.zeros_(embedding.weight[pad])  # type: ignore[arg-type]
    return embedding
