"""Every setting of the translation task, on one level: ``key=value`` sets it."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator

from ..datamodules.translation_config import TranslationDataConfig
from ..models.attention import SpecError, SpecText, build_attention
from ..models.translator import TRANSLATOR_SITES, TranslatorConfig
from .training_config import TrainingConfig


class TranslationConfig(TrainingConfig, TranslationDataConfig):
    """Data, model, optimisation and decoding; the defaults are Transformer-Base on WMT14.

    "Attention Is All You Need" (Vaswani et al. 2017), sections 3 and 5, with the relative
    positions of Zhu et al. (ICCV 2019), who take over its hyper-parameters. Data settings are
    those of ``TranslationDataConfig``, those of the trainer and the machine ``TrainingConfig``'s.
    """

    # Sites: one attention spec each.
    encoder_self: SpecText = Field("terms(1111)", description="attention of the encoder")
    decoder_self: SpecText = Field("terms(1111)", description="attention between target words")
    cross: SpecText = Field("terms(1111)", description="attention from decoder to encoder")

    # Model.
    dim: int = Field(512, ge=1, description="model width")
    ffn_dim: int = Field(2048, ge=1, description="width inside the feed-forward networks")
    heads: int = Field(8, ge=1, description="attention heads; must divide dim")
    encoder_layers: int = Field(6, ge=1, description="layers of the encoder")
    decoder_layers: int = Field(6, ge=1, description="layers of the decoder")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="on embeddings and on each sub-layer's output"
    )
    # The paper's text names no dropout on weights or hidden units: tensor2tensor's base has 0.1
    # on both, fairseq's base 0.
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")
    activation_dropout: float = Field(
        0.0, ge=0, lt=1, description="inside the feed-forward networks"
    )
    norm_first: bool = Field(False, description="pre-norm instead of the paper's post-norm")
    share_embeddings: Literal["all", "decoder", "none"] = Field(
        "all", description="which embeddings are one table with the output"
    )
    positions: Literal["relative", "sinusoidal", "sinusoidal-fairseq"] = Field(
        "relative",
        description="relative adds nothing to embeddings: the terms hold the positions",
    )

    # Optimisation: Adam, section 5.3.
    max_steps: int = Field(
        100_000, ge=1, le=10**9, description="updates; the paper's base model has 100k"
    )
    learning_rate: float | None = Field(
        None, gt=0, description="at its peak; none: the paper's dim^-0.5 * warmup_steps^-0.5"
    )
    warmup_steps: int = Field(4000, ge=0, description="updates until the rate is at its peak")
    # The paper decays with the inverse square root; `linear` goes to 0 at max_steps.
    schedule: Literal["inverse_sqrt", "linear"] = Field(
        "inverse_sqrt", description="how the rate falls after that"
    )
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean gradient")
    adam_beta2: float = Field(
        0.98, ge=0, lt=1, description="Adam's decay of the mean squared gradient"
    )
    adam_epsilon: float = Field(1e-9, gt=0, description="added to Adam's denominator")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty in Adam")
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability spread over the vocabulary"
    )

    # Checkpoints: the last five are averaged (section 6.1 of the paper, base model).
    check_every: int = Field(1500, ge=1, description="updates between checkpoints")
    validate_every: int | None = Field(
        None, ge=1, description="updates between validations; none: at each checkpoint"
    )
    average_last: int = Field(5, ge=1, description="checkpoints averaged at the end")

    # Decoding, section 6.1: beam 4, alpha 0.6, at most source length + 50.
    beam: int = Field(4, ge=1, description="beams of the search")
    # The paper's alpha belongs to the penalty of GNMT (Wu et al. 2016, eq. 14); fairseq divides
    # by length^alpha, and its published 27.3 uses 0.6 there as well.
    length_penalty: Literal["power", "gnmt"] = Field(
        "power", description="divides a score by length^alpha (power) or by GNMT's form"
    )
    length_alpha: float = Field(0.6, description="exponent of the length penalty")
    max_length_ratio: float = Field(1.0, ge=0, description="longest output = this * source …")
    max_length_extra: int = Field(50, ge=0, description="… + this, in tokens")

    @model_validator(mode="after")
    def _fits_together(self) -> TranslationConfig:
        if self.max_length_ratio == 0 and self.max_length_extra == 0:
            raise ValueError(
                "max_length_ratio=0 and max_length_extra=0 leave no room for an output; raise one"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_width(self) -> TranslationConfig:
        if self.dim % self.heads:
            raise ValueError(f"heads={self.heads} doesn't divide dim={self.dim}; choose a divisor")
        with torch.device("meta"):  # checks the options at this width and allocates nothing
            for site in TRANSLATOR_SITES:
                try:
                    build_attention(getattr(self, site), dim=self.dim, heads=self.heads)
                except SpecError as error:
                    raise ValueError(f"{site}={getattr(self, site)!r}: {error}") from error
        return self

    @property
    def peak_learning_rate(self) -> float:
        """Learning rate at the end of the warm-up."""
        if self.learning_rate is not None:
            return self.learning_rate
        return self.dim**-0.5 * max(self.warmup_steps, 1) ** -0.5

    def translator(self, source_vocabulary: int, target_vocabulary: int) -> TranslatorConfig:
        """The part of the settings that the model needs."""
        names = TranslatorConfig.__dataclass_fields__.keys() & type(self).model_fields.keys()
        return TranslatorConfig(
            source_vocabulary, target_vocabulary, **{name: getattr(self, name) for name in names}
        )


TRANSLATION_SITES = TRANSLATOR_SITES
