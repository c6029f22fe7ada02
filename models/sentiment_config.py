"""All sizes and choices of the sentiment models, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .mult_config import MultSettings
from .streams import MODALITIES

SentimentModelName = Literal[
    "mult",
    "ef-lstm",
    "lf-lstm",
    "ef-transformer",
    "lf-transformer",
    "raven",
    "mctn",
    "pooled",
]


@dataclass(frozen=True)
class SentimentModelConfig(MultSettings):
    """Sizes and choices of every model of ``build_sentiment_model``; each takes what it has.

    The defaults of what MulT has are the paper's for CMU-MOSEI (Tsai et al., ACL 2019, table 5).
    What the paper leaves open about the baselines is said in their own docstrings.

    Attributes:
        dims: feature width F of every modality that the data have.
        outputs: numbers that an item gets.
        modalities: which of them the model reads; one makes a unimodal model.
        targets: MulT's: which modalities are enriched with the others.
        dim: the common width after the temporal convolutions, in MulT and before an LSTM. The
            Transformer baselines take ``hidden`` instead, so that their size can be matched.
        heads: attention heads H.
        crossmodal_layers, memory_layers: layers of MulT's two kinds of network; the Transformer
            baselines have ``memory_layers`` too.
        kernel_text, kernel_audio, kernel_vision: steps that a temporal convolution reads.
        conv_padding: MulT's: ``same`` keeps the number of steps. The baselines always do.
        ffn_multiple: width inside a feed-forward network over the model width.
        text_dropout: on the text features.
        embed_dropout: after the positions are added.
        attention_dropout_text, attention_dropout_audio, attention_dropout_vision: on attention
            weights, by source modality; networks of self-attention take text's.
        relu_dropout: inside the feed-forward networks.
        residual_dropout: on each sub-layer's output, and between the layers of an LSTM.
        output_dropout: inside the residual block before the output layer.
        crossmodal, memory_self: attention specs of the two sites.
        positions, padding_masks, read, source_level, skip_projection_when_equal: MulT's, see
            ``MultConfig``. The baselines always mask padding and read the step that stands for
            the item.
        future_mask: ``reference`` hides the future, in MulT as its public code does and in the
            Transformer baselines causally.
        hidden: width of a baseline: of its LSTMs, or of the whole Transformer, then a multiple of
            ``heads``. None: the one with the number of parameters nearest to full MulT's.
        ffn_hidden: width inside the Transformer baselines' feed-forward networks. None:
            ``ffn_multiple`` times ``hidden``; where ``hidden`` is matched, this is too.
        lstm_layers: layers of the LSTMs of early and late fusion and of RAVEN over the words.
        early_fusion: what ``ef-transformer`` concatenates: streams after one another (``time``,
            as the paper says; no alignment needed) or aligned steps (``features``).
        alignment_by: ``ctc`` puts a learned alignment onto the text in front of the models that
            need one.
        text_steps: most text steps that the CTC alignment can tell apart; needed for ``ctc``.
        ctc_hidden, ctc_layers: sizes of the LSTMs that predict the alignment.
        raven_beta: RAVEN's bound on the length of a shift over the length of the word's vector.
    """

    hidden: int | None = None
    ffn_hidden: int | None = None
    lstm_layers: int = 1
    early_fusion: Literal["time", "features"] = "time"
    alignment_by: Literal["none", "ctc"] = "none"
    text_steps: int | None = None
    ctc_hidden: int = 32
    ctc_layers: int = 2
    raven_beta: float = 1.0

    @property
    def used(self) -> dict[str, int]:
        """Feature widths of the modalities that are read, in the order of ``MODALITIES``."""
        return {name: self.dims[name] for name in MODALITIES if name in self.modalities}
