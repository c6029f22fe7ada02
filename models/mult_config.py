"""Settings of MulT, the sites where attention is plugged into it, and the public code's quirks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .attention import Sequence1D, Site
from .crossmodal import StepPositions
from .layers.temporal import ConvolutionPadding
from .streams import MODALITIES

MULT_SITES: dict[str, Site] = {
    "crossmodal": Site(
        "crossmodal",
        frozenset({"cross"}),
        frozenset({Sequence1D.name}),
        required="without crossmodal attention no stream would see another one",
    ),
    "memory_self": Site("memory_self", geometry=frozenset({Sequence1D.name})),
}

REFERENCE_QUIRKS: dict[str, Any] = {
    "positions": "first-channel",
    "padding_masks": False,
    "read": "last",
    "future_mask": "reference",
    "skip_projection_when_equal": True,
}
"""Options of ``MultConfig`` with which the model computes what the public code computes."""


@dataclass(frozen=True)
class MultSettings:
    """Sizes and choices of a ``MulT``; the defaults are the paper's for CMU-MOSEI.

    Attributes:
        dims: width F of each stream, by modality.
        outputs: number of outputs O.
        targets: modalities that are reinforced and read; all is the full model, ``("text",)``
            the paper's row "[V,A -> L]".
        modalities: modalities that are used at all, as target or source.
        dim: model width D of one crossmodal Transformer.
        heads: attention heads, everywhere.
        crossmodal_layers, memory_layers: blocks of each Transformer (the public code has at
            least 3 in the memory).
        kernel_text, kernel_audio, kernel_vision: steps a temporal convolution sees.
        conv_padding: ``same`` keeps the lengths; ``none`` as the public code.
        ffn_multiple: width of the feed-forward networks, in model widths.
        text_dropout: on the text features.
        embed_dropout: behind the positions.
        attention_dropout_text, attention_dropout_audio, attention_dropout_vision: on attention
            weights, by the source of a crossmodal Transformer; the memory takes the text's.
        relu_dropout: inside the feed-forward networks.
        residual_dropout: on each sub-layer's output.
        output_dropout: inside the last residual block.
        crossmodal, memory_self: attention specs of the two sites. Relative positions between two
            streams are key index minus query index, each in steps of its own stream.
        positions: see ``StepEmbedding``.
        padding_masks: hide padding from convolutions and attention (the public code does not).
        read: ``valid`` reads the step that the batch names, usually the last real one; ``last``
            the last one of the padded stream, as the public code.
        future_mask: ``reference`` lets step i of a target of Q steps see the source's steps up
            to i + abs(K - Q), as the public code does by default. K and Q are the *padded*
            lengths, so what is hidden depends on the batch. Relative positions are counted from
            step i + abs(K - Q) too.
        source_level: what the blocks read of the source. ``low``: its embedding, in every block
            (the paper's choice). ``intermediate``: block i reads Z_source[i-1] (section 4.3);
            the paper doesn't say what updates it. Here it is the hidden state that the opposite
            direction has reached by then (source from target), which needs both directions of
            every pair and no further parameters.
        skip_projection_when_equal: leave out the convolution of a stream whose width is ``dim``
            already, as the public code.
    """

    dims: Mapping[str, int]
    outputs: int
    targets: tuple[str, ...] = MODALITIES
    modalities: tuple[str, ...] = MODALITIES
    dim: int = 40
    heads: int = 8
    crossmodal_layers: int = 4
    memory_layers: int = 4
    kernel_text: int = 1
    kernel_audio: int = 3
    kernel_vision: int = 3
    conv_padding: ConvolutionPadding = "same"
    ffn_multiple: int = 4
    text_dropout: float = 0.3
    embed_dropout: float = 0.25
    attention_dropout_text: float = 0.1
    attention_dropout_audio: float = 0.1
    attention_dropout_vision: float = 0.1
    relu_dropout: float = 0.1
    residual_dropout: float = 0.1
    output_dropout: float = 0.1
    crossmodal: str = "dot"
    memory_self: str = "dot"
    positions: StepPositions = "steps"
    padding_masks: bool = True
    read: Literal["valid", "last"] = "valid"
    future_mask: Literal["none", "reference"] = "none"
    source_level: Literal["low", "intermediate"] = "low"
    skip_projection_when_equal: bool = False

    def of(self, what: str, modality: str) -> Any:
        """A setting that each modality has its own of, e.g. ``kernel`` for ``kernel_text``."""
        return getattr(self, f"{what}_{modality}")


@dataclass(frozen=True)
class MultConfig(MultSettings):
    """Settings of a ``MulT``, checked: one that can be built has two modalities or more."""

    def __post_init__(self) -> None:
        """Check the choice of modalities; ValueError says what doesn't fit."""
        unknown = sorted({*self.modalities, *self.targets} - set(MODALITIES))
        if unknown:
            raise ValueError(
                f"no modality is called {unknown[0]!r}; choose from {', '.join(MODALITIES)}"
            )
        if len(set(self.modalities)) < 2:
            raise ValueError(
                "mult joins at least two modalities; take lf-transformer for a single one"
            )
        missing = [name for name in self.modalities if name not in self.dims]
        if missing:
            raise ValueError(f"the data have no {missing[0]}: leave it out of modalities")
        if not self.targets or not set(self.targets) <= set(self.modalities):
            raise ValueError(
                f"targets are one or more of the modalities {'+'.join(self.modalities)}, "
                f"not {'+'.join(self.targets) or 'none'}"
            )
        if self.source_level == "intermediate" and set(self.targets) != set(self.modalities):
            raise ValueError(
                "source_level intermediate reads the opposite direction of every pair: it needs "
                f"all of {'+'.join(self.modalities)} as targets"
            )

    @property
    def used(self) -> tuple[str, ...]:
        """The modalities in their usual order."""
        return tuple(name for name in MODALITIES if name in self.modalities)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Target and source of each crossmodal Transformer."""
        targets = [name for name in self.used if name in self.targets]
        return tuple((one, two) for one in targets for two in self.used if two != one)

    def site(self, name: str) -> Site:
        """What a site asks for here: with a future mask, variants that can hide the future."""
        site = MULT_SITES[name]
        if self.future_mask == "none":
            return site
        return dataclasses.replace(site, needs=site.needs | {"causal"})
