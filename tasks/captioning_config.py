"""Every setting of the captioning task, on one level: ``key=value`` sets it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from pydantic import Field, model_validator

from ..datamodules.caption_config import CaptionDataConfig
from ..models.attention import SpecError, SpecText, build_attention
from ..models.captioner import CAPTIONER_SITES, CaptionerConfig
from .training_config import TrainingConfig


class CaptioningConfig(TrainingConfig, CaptionDataConfig):
    """Data, model, both phases of training and decoding; the defaults are the SAN of NG-SAN.

    "Normalized and Geometry-Aware Self-Attention Network for Image Captioning" (Guo et al., CVPR
    2020). Where its text leaves a choice open, a comment says what was chosen and what else is in
    use. Data settings are those of ``CaptionDataConfig``, those of the trainer and the machine
    ``TrainingConfig``'s.
    """

    # Sites: one attention spec each.
    encoder_self: SpecText = Field("dot", description="attention between regions")
    decoder_self: SpecText = Field("dot", description="attention between words")
    cross: SpecText = Field("dot", description="attention from words to regions")

    # Model.
    dim: int = Field(512, ge=1, description="model width")
    ffn_dim: int = Field(2048, ge=1, description="width inside the feed-forward networks")
    heads: int = Field(8, ge=1, description="attention heads; must divide dim")
    encoder_layers: int = Field(4, ge=1, description="layers of the encoder")
    decoder_layers: int = Field(4, ge=1, description="layers of the decoder")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="on embeddings and on each sub-layer's output"
    )
    # Not stated for these three: public code has 0.1 to 0.5 on the projected features.
    feature_dropout: float = Field(0.1, ge=0, lt=1, description="on the projected features")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")
    activation_dropout: float = Field(
        0.0, ge=0, lt=1, description="inside the feed-forward networks"
    )
    # Drawn post-norm in the paper's figure 1; the public re-creation is pre-norm.
    norm_first: bool = Field(False, description="pre-norm instead of the paper's post-norm")
    absolute_geometry: bool = Field(
        False, description="add each region's place in the image to its features (Table 4)"
    )

    # Cross-entropy phase. An update is one batch of `batch_size` images, `accumulate` times.
    xe_steps: int = Field(
        169_935, ge=1, le=10**9, description="updates with cross-entropy; 15 epochs of COCO"
    )
    learning_rate: float = Field(3e-4, gt=0, description="at its peak, in the first phase")
    schedule: Literal["ngsan", "inverse_sqrt", "linear"] = Field(
        "ngsan",
        description="ngsan: a third more each epoch up to the third, halved every 3 epochs after "
        "the sixth; linear falls to 0 at xe_steps",
    )
    warmup_steps: int = Field(0, ge=0, description="of inverse_sqrt and linear")
    # Not stated beyond "Adam"; 0.9 and 0.98 are Transformer-Base's.
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean gradient")
    adam_beta2: float = Field(
        0.98, ge=0, lt=1, description="Adam's decay of the mean squared gradient"
    )
    adam_epsilon: float = Field(1e-9, gt=0, description="added to Adam's denominator")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty in Adam")
    # Not stated; the public re-creation clips each value at 0.1, others the norm (`clip_norm`).
    clip_value: float = Field(0.1, ge=0, description="largest gradient value; 0 does not clip")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="probability spread over the vocabulary"
    )

    # Self-critical phase (Rennie et al., CVPR 2017), from the averaged weights of the first.
    scst_steps: int = Field(
        169_935, ge=0, le=10**9, description="updates with the CIDEr-D reward; 0: no such phase"
    )
    # Not stated; rates above 1e-5 make CIDEr fall at the start of the phase, 5e-6 is what the
    # authors whose training this paper follows use.
    scst_learning_rate: float = Field(5e-6, gt=0, description="constant, in the second phase")
    # Not stated; `greedy` is Rennie et al.'s, `mean` that of later work.
    baseline: Literal["greedy", "mean"] = Field(
        "greedy",
        description="what a sample's reward is compared with: greedy decoding, or the mean of "
        "the image's other samples",
    )
    samples: int = Field(5, ge=1, description="samples of an image in the second phase")
    scst_dropout: bool = Field(
        False, description="dropout where sampled captions are scored again for the gradient"
    )
    document_frequencies: Path | None = Field(
        None,
        description="self-critical's pickle of n-gram counts (…-idxs.p); None: counted from the "
        "training captions",
    )

    # Checkpoints.
    check_every: int = Field(11_329, ge=1, description="updates between checkpoints")
    validate_every: int | None = Field(
        None, ge=1, description="updates between validations; none: at each checkpoint"
    )
    average_last: int = Field(1, ge=1, description="checkpoints averaged at the end of a phase")

    # Decoding. The paper says beam 3; like public captioning code it is taken to rank captions by
    # the plain sum of log-probabilities (`length_alpha` 0), 1 would take their mean.
    beam: int = Field(3, ge=1, description="beams of the search")
    length_alpha: float = Field(0.0, description="a score is divided by length to this power")
    max_words: int = Field(20, ge=1, description="most words of a generated caption")
    java_metrics: bool = Field(
        False, description="METEOR and SPICE too, where Java and the extra java-metrics are there"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> CaptioningConfig:
        if self.scst_steps and self.baseline == "mean" and self.samples < 2:
            raise ValueError(
                "baseline=mean compares a sample with the others of its image: set samples=2 or "
                "more, or baseline=greedy"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_width(self) -> CaptioningConfig:
        if self.dim % self.heads:
            raise ValueError(f"heads={self.heads} doesn't divide dim={self.dim}; choose a divisor")
        with torch.device("meta"):  # checks the options at this width and allocates nothing
            for site in CAPTIONER_SITES:
                try:
                    build_attention(getattr(self, site), dim=self.dim, heads=self.heads)
                except SpecError as error:
                    raise ValueError(f"{site}={getattr(self, site)!r}: {error}") from error
        return self

    def captioner(self, feature_dim: int, symbols: int) -> CaptionerConfig:
        """The part of the settings that the model needs."""
        names = CaptionerConfig.__dataclass_fields__.keys() & type(self).model_fields.keys()
        return CaptionerConfig(
            feature_dim=feature_dim,
            symbols=symbols,
            **{name: getattr(self, name) for name in names},
        )


CAPTIONING_SITES = CAPTIONER_SITES
