"""Every setting of the sentiment task, on one level: ``key=value`` sets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field, field_validator, model_validator

from ..datamodules.sentiment_config import SentimentDataConfig
from ..models.attention import SpecError, SpecText, build_attention, refusal
from ..models.sentiment import (
    SENTIMENT_SITES,
    TRANSFORMERS,
    SentimentModelConfig,
    needs_alignment,
    sites_of,
)
from ..models.streams import MODALITIES
from .training_config import TrainingConfig

CLOSED_FORM = ("ridge", "majority")
"""Models that are fitted at once; both are ``pooled``, a linear map of mean-pooled streams."""


class SentimentConfig(TrainingConfig, SentimentDataConfig):
    """Data, models and training; the defaults are those of MulT on CMU-MOSEI in its paper.

    "Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et al., ACL 2019),
    table 5. Where the paper leaves a choice open, the default is that of the authors' public code
    and a comment says so. Data settings are those of ``SentimentDataConfig``, those of the trainer
    and the machine ``TrainingConfig``'s.
    """

    batch_size: int = Field(16, ge=1, description="items a batch")
    clip_norm: float = Field(1.0, ge=0, description="largest gradient norm; 0 does not clip")

    # What is trained. The loss follows from the labels of the data and can't be set.
    model: Literal[
        "mult",
        "ef-lstm",
        "lf-lstm",
        "ef-transformer",
        "lf-transformer",
        "raven",
        "mctn",
        "ridge",
        "majority",
    ] = Field(
        "mult",
        description="MulT, or a baseline: early (ef) or late fusion (lf), RAVEN, MCTN, a linear "
        "map of the mean features, or the best constant",
    )
    modalities: str = Field(
        "text+audio+vision", description="streams that the model reads, joined by +"
    )
    targets: str | None = Field(
        None,
        description="MulT: streams that are reinforced with the others, joined by +; null: all",
    )

    # Sites: one attention spec each.
    crossmodal: SpecText = Field("dot", description="attention from one stream to another")
    memory_self: SpecText = Field("dot", description="attention within what a target has read")

    # MulT.
    dim: int = Field(40, ge=1, description="width after the temporal convolutions")
    heads: int = Field(8, ge=1, description="attention heads")
    crossmodal_layers: int = Field(4, ge=1, description="layers of a crossmodal network")
    # Not stated; the public code has as many as crossmodal layers, at least 3.
    memory_layers: int = Field(4, ge=1, description="layers of a network of self-attention")
    # 1 or 3 in the paper, and 1 for all in the public code.
    kernel_text: int = Field(1, ge=1, description="steps that the convolution over text reads")
    kernel_audio: int = Field(3, ge=1, description="the same of audio")
    kernel_vision: int = Field(3, ge=1, description="the same of vision")
    # Not stated; the public code doesn't pad.
    conv_padding: Literal["none", "same"] = Field(
        "same", description="same: as many steps behind the convolution as before it"
    )
    ffn_multiple: int = Field(4, ge=1, description="width of a feed-forward network over dim")
    text_dropout: float = Field(0.3, ge=0, lt=1, description="on the text features")
    # The public code has one flag for this and for text_dropout.
    embed_dropout: float = Field(0.3, ge=0, lt=1, description="behind the positions")
    # The public code has 0.1 where text is the source, and else 0.
    attention_dropout_text: float = Field(
        0.1, ge=0, lt=1, description="on weights over text, and in networks of self-attention"
    )
    attention_dropout_audio: float = Field(0.1, ge=0, lt=1, description="on weights over audio")
    attention_dropout_vision: float = Field(0.1, ge=0, lt=1, description="on weights over vision")
    # Not stated for these two; the public code's.
    relu_dropout: float = Field(0.1, ge=0, lt=1, description="inside the feed-forward networks")
    residual_dropout: float = Field(0.1, ge=0, lt=1, description="on each sub-layer's output")
    output_dropout: float = Field(0.1, ge=0, lt=1, description="in front of the output layer")
    source_level: Literal["low", "intermediate"] = Field(
        "low", description="what every crossmodal layer reads: the source's features, or its layer"
    )

    # What the public code does and hardly means to.
    positions: Literal["steps", "first-channel"] = Field(
        "steps", description="first-channel: a step whose channel 0 is 0 counts as padding"
    )
    padding_masks: bool = Field(True, description="keep attention off padding")
    read: Literal["valid", "last"] = Field(
        "valid", description="last: read the last step of the padded stream, not the last real one"
    )
    future_mask: Literal["none", "reference"] = Field(
        "none", description="reference: hide later steps, between streams by their index"
    )
    skip_projection_when_equal: bool = Field(
        False, description="no convolution where a stream has the width dim already"
    )

    # The baselines.
    hidden: int | None = Field(
        None, ge=1, description="width of a baseline; null: as many parameters as MulT, or nearly"
    )
    ffn_hidden: int | None = Field(
        None, ge=1, description="width inside a Transformer baseline's feed-forward networks"
    )
    lstm_layers: int = Field(1, ge=1, description="layers of the LSTMs")
    early_fusion: Literal["time", "features"] = Field(
        "time", description="ef-transformer: streams one after the other, or step by step"
    )
    alignment_by: Literal["none", "ctc"] = Field(
        "none", description="ctc: learn to align the other streams to the text"
    )
    text_steps: int | None = Field(
        None, ge=1, description="most text steps that ctc can tell apart; null: those of the data"
    )
    ctc_hidden: int = Field(32, ge=1, description="width of the LSTMs that predict the alignment")
    ctc_layers: int = Field(2, ge=1, description="their layers")
    ctc_weight: float = Field(1.0, ge=0, description="weight of the alignment's loss")
    raven_beta: float = Field(
        1.0, gt=0, description="RAVEN: longest shift of a word over the length of its vector"
    )
    translation_weight: float = Field(
        0.1, ge=0, description="MCTN: weight of the loss of translating the text"
    )
    cycle_weight: float = Field(
        0.1, ge=0, description="MCTN: weight of the loss of translating back"
    )
    ridge_alpha: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="strength of the penalty of model=ridge; auto: the best of several in "
        "validation",
    )

    # Training.
    max_steps: int = Field(
        20_340, ge=1, le=10**9, description="updates; 20 epochs of CMU-MOSEI's 16,265 items"
    )
    learning_rate: float = Field(1e-3, gt=0, description="at its peak")
    schedule: Literal["plateau", "linear", "constant"] = Field(
        "plateau",
        description="plateau: lower where validation doesn't get better; linear falls to 0 at "
        "max_steps",
    )
    warmup_steps: int = Field(0, ge=0, description="updates up to the peak")
    # Not stated; the public code's, whose 40 epochs leave hardly room for a second drop.
    plateau_patience: int = Field(
        20, ge=0, description="validations without a better loss before the rate is lowered"
    )
    plateau_factor: float = Field(0.1, gt=0, lt=1, description="what the rate is multiplied with")
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean gradient")
    adam_beta2: float = Field(
        0.999, ge=0, lt=1, description="Adam's decay of the mean squared gradient"
    )
    adam_epsilon: float = Field(1e-8, gt=0, description="added to Adam's denominator")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty in Adam")
    clip_value: float = Field(0.0, ge=0, description="largest gradient value; 0 does not clip")
    check_every: int = Field(1_017, ge=1, description="updates between checkpoints")
    validate_every: int | None = Field(
        None, ge=1, description="updates between validations; null: at each checkpoint"
    )
    select: Literal["best", "last", "average"] = Field(
        "best",
        description="weights that are tested: those with the lowest validation loss, the last "
        "ones, or the mean of the last checkpoints",
    )
    average_last: int = Field(1, ge=1, description="checkpoints that select=average averages")

    @field_validator("modalities", "targets")
    @classmethod
    def _in_order(cls, names: str | None) -> str | None:
        return None if names is None else "+".join(_streams(names))

    @model_validator(mode="after")
    def _fits_together(self) -> SentimentConfig:
        if set(self.target_streams) - set(self.streams):
            raise ValueError(
                f"targets={self.targets} but modalities={self.modalities}: a target must be read"
            )
        if self.closed_form and self.alignment_by == "ctc":
            raise ValueError(
                f"alignment_by=ctc has no place in model={self.model}, which reads the mean of "
                "each stream: set alignment_by=none"
            )
        if self.model == "mult" and len(self.streams) < 2:
            raise ValueError(
                f"modalities={self.modalities} leaves MulT no second stream: for one stream set "
                "model=lf-transformer"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_width(self) -> SentimentConfig:
        if self.closed_form:
            return self
        matched = self.hidden is None  # to MulT of these settings, which must then be possible
        if (self.model == "mult" or matched) and self.dim % self.heads:
            raise ValueError(f"heads={self.heads} doesn't divide dim={self.dim}; choose a divisor")
        if self.hidden is not None and self.model in TRANSFORMERS and self.hidden % self.heads:
            raise ValueError(
                f"heads={self.heads} doesn't divide hidden={self.hidden}; choose a divisor"
            )
        if self.model != "mult":
            return self
        widths = {"crossmodal": self.dim, "memory_self": (len(self.streams) - 1) * self.dim}
        with torch.device("meta"):  # checks the options at these widths and allocates nothing
            for site, dim in widths.items():
                try:
                    build_attention(getattr(self, site), dim=dim, heads=self.heads)
                except SpecError as error:
                    raise ValueError(f"{site}={getattr(self, site)!r}: {error}") from error
        return self

    @property
    def streams(self) -> tuple[str, ...]:
        """The modalities that the model reads."""
        return _streams(self.modalities)

    @property
    def target_streams(self) -> tuple[str, ...]:
        """The modalities that MulT reinforces."""
        return self.streams if self.targets is None else _streams(self.targets)

    @property
    def closed_form(self) -> bool:
        """Whether the model is fitted at once, so that training has nothing to change."""
        return self.model in CLOSED_FORM

    @property
    def updates(self) -> int:
        """Updates of training: ``max_steps``, but one where the model is fitted at once."""
        return 1 if self.closed_form else self.max_steps

    def refusal(self) -> str | None:
        """Why a model can't do with these streams or this mask, where the settings alone tell."""
        if self.model in CLOSED_FORM:
            return None
        for name in sites_of(self.model) if self.future_mask == "reference" else ():
            site = replace(SENTIMENT_SITES[name], needs=SENTIMENT_SITES[name].needs | {"causal"})
            if (reason := refusal(getattr(self, name), site)) is not None:
                return (
                    f"{getattr(self, name)} can't stand at {name} with future_mask=reference: "
                    f"{reason}"
                )
        if self.alignment == "aligned" or not needs_alignment(
            self.model, self.model_config_of(dict.fromkeys(MODALITIES, 1), 1)
        ):
            return None
        return (
            f"{self.model} reads all streams at the same steps, which unaligned data don't have: "
            "set alignment=aligned or alignment_by=ctc"
        )

    def model_config_of(
        self, dims: Mapping[str, int], outputs: int, text_steps: int | None = None
    ) -> SentimentModelConfig:
        """The part of the settings that models need.

        Args:
            dims: feature width of every modality of the data.
            outputs: numbers that an item gets.
            text_steps: longest text stream of the data.
        """
        own = {"modalities": self.streams, "targets": self.target_streams}
        own |= {"text_steps": self.text_steps or text_steps}
        names = SentimentModelConfig.__dataclass_fields__.keys() & type(self).model_fields.keys()
        rest = {name: getattr(self, name) for name in names - own.keys()}
        return SentimentModelConfig(dims=dims, outputs=outputs, **own, **rest)


def _streams(names: str) -> tuple[str, ...]:
    """``vision+text`` as ("text", "vision"). Raises ValueError."""
    chosen = [name.strip() for name in names.split("+")]
    for name in chosen:
        if name not in MODALITIES:
            raise ValueError(f"no stream is called {name!r}; there are {', '.join(MODALITIES)}")
    if len(set(chosen)) < len(chosen):
        raise ValueError("a stream stands twice; keep one")
    return tuple(name for name in MODALITIES if name in chosen)


SENTIMENT_TASK_SITES = SENTIMENT_SITES
