"""Encoder-decoder Transformer for image captions, with named attention sites.

The self-attention network (SAN) of "Normalized and Geometry-Aware Self-Attention Network for
Image Captioning" (Guo et al., CVPR 2020, arXiv 2003.08897), figure 1: Transformer-Base, whose
encoder reads region features without positions and whose decoder reads words with sinusoidal
ones. ``encoder_self`` makes it N-SAN (``nsa``), G-SAN (``gsa(query)``) or NG-SAN (``ngsa(query)``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention import Boxes, Sequence1D, Site, SiteError, traits_of
from .encoder_decoder import DecoderState, EncoderDecoder
from .layers import SinusoidalPositions

CAPTIONER_SITES: dict[str, Site] = {
    "encoder_self": Site("encoder_self", geometry=frozenset({Boxes.name})),
    "decoder_self": Site(
        "decoder_self", frozenset({"causal", "incremental"}), frozenset({Sequence1D.name})
    ),
    "cross": Site(
        "cross",
        frozenset({"causal", "incremental", "cross"}),
        required="without encoder-decoder attention the decoder never sees the image",
    ),
}


@dataclass(frozen=True)
class CaptionerConfig:
    """Sizes and choices of a ``Captioner``; the defaults are the paper's.

    Attributes:
        symbols: number of symbols V, words and the 0 that starts and ends (9,488 on COCO).
        feature_dim: width F of a region's features.
        dim, ffn_dim, heads, encoder_layers, decoder_layers: sizes.
        dropout: on embeddings and on each sub-layer's output.
        attention_dropout: on attention weights.
        activation_dropout: inside the feed-forward network.
        feature_dropout: on the projected region features.
        norm_first: pre-norm with a norm after the last layer, as self-critical's public code has
            it; else post-norm as in the paper's figure.
        encoder_self, decoder_self, cross: attention specs of the three sites.
        absolute_geometry: add a projection of each box's place and area to its features.
    """

    symbols: int
    feature_dim: int = 2048
    dim: int = 512
    ffn_dim: int = 2048
    heads: int = 8
    encoder_layers: int = 4
    decoder_layers: int = 4
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    feature_dropout: float = 0.1
    norm_first: bool = False
    encoder_self: str = "dot"
    decoder_self: str = "dot"
    cross: str = "dot"
    absolute_geometry: bool = False


class Captioner(EncoderDecoder):
    """Captions from region features; ``start`` and ``step`` decode, ``forward`` trains.

    Symbol 0 starts and ends every caption. The output layer has a bias and shares nothing with
    the embedding, which gives the paper's 18.1, 25.5, 40.2 and 54.9 M parameters at 1, 2, 4 and 6
    layers. Every method takes:

        features_BNF: features of the regions, anything in padding.
        valid_BN: bool, True where a region is real.
        boxes_BN4: x1, y1, x2, y2 of the regions, any unit; may be None where nothing needs boxes.
        size_B2: width and height of each image in the boxes' unit, for ``absolute_geometry``;
            None: the largest x2 and y2 of the image's boxes.

    Raises:
        SpecError, SiteError: from the attention specs; SiteError too for missing boxes.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.feature_proj = nn.Linear(config.feature_dim, config.dim)
        nn.init.xavier_uniform_(self.feature_proj.weight)
        nn.init.zeros_(self.feature_proj.bias)
        self.place_proj = nn.Linear(5, config.dim) if config.absolute_geometry else None
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        self.target_embedding = nn.Embedding(config.symbols, config.dim)
        self.output = nn.Linear(config.dim, config.symbols)
        for weight in (self.target_embedding.weight, self.output.weight):
            nn.init.normal_(weight, std=config.dim**-0.5)
        nn.init.zeros_(self.output.bias)
        self.positions = SinusoidalPositions(config.dim, "sinusoidal")
        self.dropout = nn.Dropout(config.dropout)
        self.add_layers(config, CAPTIONER_SITES)

    @property
    def needs_boxes(self) -> bool:
        """Whether images without boxes are refused."""
        geometry = traits_of(self.config.encoder_self).geometry
        return self.config.absolute_geometry or Boxes.name in geometry

    def encode(
        self,
        features_BNF: Tensor,
        valid_BN: Tensor,
        boxes_BN4: Tensor | None = None,
        size_B2: Tensor | None = None,
    ) -> Tensor:
        """Encoder output (B, N, D)."""
        x_BND = self.feature_proj(features_BNF).relu()
        if self.place_proj is not None:
            if boxes_BN4 is None:
                raise SiteError(
                    "absolute_geometry needs the boxes of the regions: use features with boxes"
                )
            place_BN5 = absolute_geometry(boxes_BN4, valid_BN, size_B2)
            x_BND = x_BND + self.place_proj(place_BN5.to(x_BND.dtype))
        boxes = None if boxes_BN4 is None else Boxes(boxes_BN4, valid_BN)
        return self.run_encoder(self.feature_dropout(x_BND), boxes, valid_BN)

    def features(
        self,
        features_BNF: Tensor,
        valid_BN: Tensor,
        boxes_BN4: Tensor | None,
        input_BCT: Tensor,
        size_B2: Tensor | None = None,
    ) -> Tensor:
        """Decoder output (B, C, T, D) before the output projection; see ``forward``."""
        memory_BND = self.encode(features_BNF, valid_BN, boxes_BN4, size_B2)
        x_MTD = self.embed(input_BCT.flatten(0, 1), self.target_embedding)
        x_MTD = self.run_decoder(x_MTD, memory_BND, valid_BN, None)
        return x_MTD.view(*input_BCT.shape, -1)

    def forward(
        self,
        features_BNF: Tensor,
        valid_BN: Tensor,
        boxes_BN4: Tensor | None,
        input_BCT: Tensor,
        size_B2: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, C, T, V) of the next symbol at each position of C captions an image.

        Each image is encoded, and its keys and values are made, once for all its captions.
        ``input_BCT`` are captions from their 0 on, right padded with anything.
        """
        return self.output(self.features(features_BNF, valid_BN, boxes_BN4, input_BCT, size_B2))

    def start(
        self,
        features_BNF: Tensor,
        valid_BN: Tensor,
        boxes_BN4: Tensor | None = None,
        size_B2: Tensor | None = None,
    ) -> DecoderState:
        """Encode and return the decoding state, one row an image."""
        return self.begin(self.encode(features_BNF, valid_BN, boxes_BN4, size_B2), valid_BN)


def absolute_geometry(boxes_BN4: Tensor, valid_BN: Tensor, size_B2: Tensor | None = None) -> Tensor:
    """x1/W, y1/H, x2/W, y2/H and the area's share of the image, (B, N, 5); 0 in padding.

    Args:
        boxes_BN4: x1, y1, x2, y2.
        valid_BN: bool, True where a region is real.
        size_B2: width W and height H of the images; None takes the largest x2 and y2, which is
            the image itself where some region reaches its right and lower border.
    """
    boxes_BN4 = boxes_BN4.to(torch.promote_types(boxes_BN4.dtype, torch.float32))
    boxes_BN4 = boxes_BN4.masked_fill(~valid_BN[..., None], 0)
    if size_B2 is None:
        size_B2 = boxes_BN4[..., 2:].amax(1) if boxes_BN4.shape[1] else boxes_BN4.new_ones(1, 2)
    size_B2 = torch.where(size_B2 > 0, size_B2, torch.ones_like(size_B2)).to(boxes_BN4.dtype)
    place_BN4 = boxes_BN4 / torch.cat([size_B2, size_B2], -1)[:, None]
    side_BN2 = (place_BN4[..., 2:] - place_BN4[..., :2]).clamp_min(0)
    return torch.cat([place_BN4, side_BN2.prod(-1, keepdim=True)], -1)
