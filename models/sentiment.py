"""The one place that builds any sentiment model, and matches the sizes of the baselines.

"Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et al., ACL 2019)
compares methods of about the same number of parameters. Here a baseline without a given width gets
the width at which it has as many parameters as full MulT of the same settings.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import get_args

import torch
from torch import nn

from .attention import Site
from .ctc_alignment import AlignedByCTC
from .fusion import (
    EarlyFusionLSTM,
    EarlyFusionTransformer,
    LateFusionLSTM,
    LateFusionTransformer,
)
from .mctn import CyclicTranslation
from .mult import MULT_SITES, MulT, MultConfig
from .pooled import Pooled
from .raven import Raven
from .sentiment_config import SentimentModelConfig, SentimentModelName
from .streams import MODALITIES

__all__ = [
    "SENTIMENT_SITES",
    "SentimentModelConfig",
    "SentimentModelName",
    "build_sentiment_model",
    "matched",
    "needs_alignment",
    "parameter_count",
    "sites_of",
]

SENTIMENT_SITES: dict[str, Site] = MULT_SITES
"""Where attention variants are plugged in; ``sites_of`` says which of them a model has."""

TRANSFORMERS = ("ef-transformer", "lf-transformer")
WITHOUT_WIDTH = ("mult", "pooled")


def sites_of(name: SentimentModelName) -> tuple[str, ...]:
    """The sites that a model has; the specs of the others are ignored."""
    if name == "mult":
        return tuple(SENTIMENT_SITES)
    return ("memory_self",) if name in TRANSFORMERS else ()


def needs_alignment(name: SentimentModelName, config: SentimentModelConfig) -> bool:
    """Whether a model joins its modalities step by step, so that unaligned streams mean nothing.

    It refuses streams of unequal lengths itself; lengths that happen to be equal it can't tell.
    """
    return _reads_steps(name, config) and config.alignment_by == "none" and len(config.used) > 1


def _reads_steps(name: SentimentModelName, config: SentimentModelConfig) -> bool:
    by_step = name == "ef-transformer" and config.early_fusion == "features"
    return by_step or name in ("ef-lstm", "raven", "mctn")


def build_sentiment_model(name: SentimentModelName, config: SentimentModelConfig) -> nn.Module:
    """A model that takes ``Streams`` (and ``need_weights``) and gives ``StreamsOutput``.

    Losses beside the task's, in training only: ``ctc`` with ``alignment_by=ctc``,
    ``translation`` and ``cycle`` of ``mctn``.

    Args:
        name: which model.
        config: its settings; without ``hidden`` a baseline's width is ``matched``.

    Raises:
        ValueError: where the settings don't fit the model; one sentence.
        SpecError, SiteError: from the attention specs.
    """
    _check(name, config)
    return _build(name, matched(name, config))


def matched(name: SentimentModelName, config: SentimentModelConfig) -> SentimentModelConfig:
    """The settings with the width that brings a baseline nearest to full MulT's parameters.

    Full MulT has every modality of the data as target and source, so that the rows of fewer
    modalities are of the same size as those of all. A Transformer's width goes in steps of its
    heads; what's left over or missing its feed-forward networks take up. Settings that have a
    ``hidden`` already, and models without one, come back as they are.
    """
    if config.hidden is not None or name in WITHOUT_WIDTH:
        return config
    _check(name, config)
    everything = tuple(part for part in MODALITIES if part in config.dims)
    if len(everything) < 2:
        raise ValueError(
            f"{name} can't be matched to MulT, which needs two modalities and the data have "
            f"{len(everything)}: set hidden to the width you want"
        )
    full = dataclasses.replace(
        config, modalities=everything, targets=everything, alignment_by="none"
    )
    target = parameter_count("mult", full)

    def sized(hidden: int, ffn_hidden: int | None = None) -> SentimentModelConfig:
        return dataclasses.replace(config, hidden=hidden, ffn_hidden=ffn_hidden)

    if name not in TRANSFORMERS:
        return sized(_nearest(lambda width: parameter_count(name, sized(width)), target))
    heads = config.heads
    blocks = _nearest(
        lambda number: parameter_count(name, sized(number * heads, config.ffn_hidden)), target
    )
    if config.ffn_hidden is not None or config.memory_layers < 1:
        return sized(blocks * heads, config.ffn_hidden)
    inner = _nearest(lambda width: parameter_count(name, sized(blocks * heads, width)), target)
    return sized(blocks * heads, inner)


def parameter_count(name: SentimentModelName, config: SentimentModelConfig) -> int:
    """Number of trainable numbers; the model is only sketched, on the meta device."""
    with torch.device("meta"):
        model = build_sentiment_model(name, config)
    return sum(parameter.numel() for parameter in model.parameters())


def _nearest(count: Callable[[int], int], target: int) -> int:
    """The whole number from 1 on at which a growing count is nearest to the target.

    Between bounds, the straight line through them and their middle are tried by turns: counts
    are linear or quadratic in a width, so that few models are sketched.
    """
    count = functools.cache(count)
    low, high = 1, 8
    while count(high) < target:
        low, high = high, 4 * high
    for turn in itertools.count():
        if high - low < 2:
            break
        middle = (low + high) // 2
        if turn % 2 == 0:
            share = (target - count(low)) / (count(high) - count(low))
            middle = min(max(low + int(share * (high - low)), low + 1), high - 1)
        low, high = (middle, high) if count(middle) < target else (low, middle)
    return min((low, high), key=lambda number: abs(count(number) - target))


def _build(name: SentimentModelName, config: SentimentModelConfig) -> nn.Module:
    if name == "mult":
        shared = [field.name for field in dataclasses.fields(MultConfig)]
        return MulT(MultConfig(**{each: getattr(config, each) for each in shared}))
    if name == "pooled":
        return Pooled(config)
    assert config.hidden is not None
    if name in TRANSFORMERS:
        site = SENTIMENT_SITES["memory_self"]
        if config.future_mask == "reference":
            site = dataclasses.replace(site, needs=site.needs | {"causal"})
        late = name == "lf-transformer"
        make = LateFusionTransformer if late else EarlyFusionTransformer
        model: nn.Module = make(config, config.hidden, site)
    else:
        kinds = {
            "ef-lstm": EarlyFusionLSTM,
            "lf-lstm": LateFusionLSTM,
            "raven": Raven,
            "mctn": CyclicTranslation,
        }
        model = kinds[name](config, config.hidden)
    return AlignedByCTC(config, model) if config.alignment_by == "ctc" else model


def _check(name: SentimentModelName, config: SentimentModelConfig) -> None:
    """Refuse what doesn't fit, in one sentence."""
    known = get_args(SentimentModelName)
    if name not in known:
        raise ValueError(f"no sentiment model is called {name!r}; choose from {', '.join(known)}")
    chosen = config.modalities
    unknown = [each for each in chosen if each not in MODALITIES]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"modalities are one or more of {', '.join(MODALITIES)}, each once, "
            f"not {'+'.join(chosen) or 'none'}"
        )
    missing = [each for each in chosen if each not in config.dims]
    if missing:
        raise ValueError(f"the data have no {missing[0]}: leave it out of modalities")
    if config.alignment_by == "ctc":
        _check_ctc(name, config)


def _check_ctc(name: SentimentModelName, config: SentimentModelConfig) -> None:
    if not _reads_steps(name, config):
        raise ValueError(f"{name} reads unaligned streams as they are: set alignment_by=none")
    if "text" not in config.used or len(config.used) < 2:
        raise ValueError(
            "alignment_by=ctc aligns other modalities to the text: name text and at least one "
            "more, or set alignment_by=none"
        )
