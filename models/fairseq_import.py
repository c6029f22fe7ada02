"""Take over a translation Transformer that fairseq trained: same weights, same logits.

The result is a ``Translator`` with ``dot`` at its three sites and fairseq's sinusoidal positions.
Its decoder starts from the end symbol, as fairseq's does.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .checkpoint import CheckpointError, load_tensors_and_options
from .translator import Translator, TranslatorConfig


class FairseqImportError(ValueError):
    """A checkpoint that can't be read, or a model that a ``Translator`` can't express."""


_ATTENTION = {
    "q_proj": "query_proj",
    "k_proj": "key_proj",
    "v_proj": "value_proj",
    "out_proj": "out_proj",
}
_ENCODER_LAYER = {
    **{f"self_attn.{theirs}": f"self_attention.{ours}" for theirs, ours in _ATTENTION.items()},
    "self_attn_layer_norm": "self_residual.norm",
    "fc1": "ffn.expand",
    "fc2": "ffn.contract",
    "final_layer_norm": "ffn_residual.norm",
}
_DECODER_LAYER = {
    **_ENCODER_LAYER,
    **{f"encoder_attn.{theirs}": f"cross_attention.{ours}" for theirs, ours in _ATTENTION.items()},
    "encoder_attn_layer_norm": "cross_residual.norm",
}
_IGNORED = re.compile(r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))")
# Before 2018's rename, the norms of a layer were a list.
_OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
# What a Translator computes, as fairseq's options; any other value changes the function.
_REQUIRED: dict[str, tuple[object, ...]] = {
    "activation_fn": ("relu",),
    "no_scale_embedding": (False,),
    "layernorm_embedding": (False,),
    "encoder_learned_pos": (False,),
    "decoder_learned_pos": (False,),
    "adaptive_softmax_cutoff": (None,),
    "adaptive_input": (False,),
    "no_cross_attention": (False,),
    "cross_self_attention": (False,),
    "no_decoder_final_norm": (False,),
    "encoder_layers_to_keep": (None,),
    "decoder_layers_to_keep": (None,),
    "quant_noise_pq": (0, 0.0),
}


def load_fairseq_checkpoint(
    path: str | Path, *, heads: int | None = None
) -> tuple[TranslatorConfig, dict[str, Tensor]]:
    """Read a checkpoint file of fairseq's ``transformer`` architectures.

    Args:
        path: the ``.pt`` file.
        heads: number of attention heads; needed only where the file holds no options.

    Returns:
        the configuration, and a state dict for ``Translator(config).load_state_dict``.

    Raises:
        FairseqImportError: unreadable file, or a model that a ``Translator`` can't express.
    """
    try:
        checkpoint = load_tensors_and_options(Path(path))
        if not isinstance(checkpoint, Mapping) or not isinstance(checkpoint.get("model"), Mapping):
            raise FairseqImportError(
                "there is no entry 'model' with weights: pass a checkpoint that fairseq-train wrote"
            )
        return from_fairseq(checkpoint["model"], _options(checkpoint), heads=heads)
    except CheckpointError as error:
        raise FairseqImportError(str(error)) from error
    except FairseqImportError as error:
        raise FairseqImportError(f"{path}: {error}") from error


def from_fairseq(
    weights: Mapping[str, Tensor],
    options: Mapping[str, Any] | None = None,
    *,
    heads: int | None = None,
) -> tuple[TranslatorConfig, dict[str, Tensor]]:
    """Rename the weights of a fairseq Transformer.

    Args:
        weights: its state dict, in names of any age.
        options: fairseq's options (``args`` or ``cfg.model``) as far as they are known.
        heads: number of attention heads, where the options don't say.

    Returns:
        the configuration, and a state dict for ``Translator(config).load_state_dict``.

    Raises:
        FairseqImportError: names that are unknown or missing, shapes that don't fit together, or
            an option that a ``Translator`` doesn't have.
    """
    options = {} if options is None else options
    _check_options(options)
    theirs = _modern(weights)
    pre_norm = "encoder.layer_norm.weight" in theirs or "decoder.layer_norm.weight" in theirs
    layers = {side: _layers(theirs, side) for side in ("encoder", "decoder")}
    names = _names(layers, pre_norm)
    _check_names(set(theirs), set(names))
    state = {ours: theirs[name].float() for name, ours in names.items()}
    config = _config(state, layers, pre_norm, options, heads)
    _check_shapes(state, names, config)
    return config, state


def _options(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The model's options, from ``cfg.model`` or ``args``; empty where neither can be read."""
    configuration = checkpoint.get("cfg")
    model = configuration.get("model") if isinstance(configuration, Mapping) else None
    for found in (model, checkpoint.get("args")):
        if isinstance(found, argparse.Namespace):
            return vars(found)
        if isinstance(found, Mapping):
            return dict(found)
    return {}


def _check_options(options: Mapping[str, Any]) -> None:
    for name, allowed in _REQUIRED.items():
        if options.get(name, allowed[0]) not in allowed:
            raise FairseqImportError(
                f"the model was trained with {name}={options[name]!r}, and a Translator has only "
                f"{name}={allowed[0]!r}: this checkpoint can't be taken over"
            )
    for name in ("attention_heads", "normalize_before"):
        pair = [options.get(f"{side}_{name}") for side in ("encoder", "decoder")]
        if None not in pair and pair[0] != pair[1]:
            raise FairseqImportError(
                f"encoder and decoder differ in {name} ({pair[0]} and {pair[1]}), and a "
                "Translator has one for both: this checkpoint can't be taken over"
            )


def _modern(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under today's names: joint projections split, tied output filled in."""
    modern: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if _IGNORED.fullmatch(name):
            continue
        if match := re.fullmatch(r"((\w+)\.layers\.\d+)\.layer_norms\.(\d)\.(\w+)", name):
            layer, side, number, kind = match.groups()
            norms = _OLD_NORMS.get(side, ())
            if int(number) < len(norms):
                name = f"{layer}.{norms[int(number)]}.{kind}"
            modern[name] = tensor
        elif match := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name):
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                modern[f"{match[1]}.{part}_proj.{match[2]}"] = piece
        elif name == "decoder.embed_out":
            modern["decoder.output_projection.weight"] = tensor
        else:
            modern[name] = tensor
    if "decoder.embed_tokens.weight" in modern:
        embedding = modern["decoder.embed_tokens.weight"]
        modern.setdefault("decoder.output_projection.weight", embedding)
    return modern


def _layers(names: Mapping[str, Tensor], side: str) -> int:
    pattern = re.compile(rf"{side}\.layers\.(\d+)\.")
    found = [int(match[1]) for match in map(pattern.match, names) if match]
    return max(found, default=-1) + 1


def _names(layers: Mapping[str, int], pre_norm: bool) -> dict[str, str]:
    """Every name that such a model has in fairseq, and what it is called here."""
    names = {
        "encoder.embed_tokens.weight": "source_embedding.weight",
        "decoder.embed_tokens.weight": "target_embedding.weight",
        "decoder.output_projection.weight": "output.weight",
    }
    for kind in ("weight", "bias"):
        for side, table in (("encoder", _ENCODER_LAYER), ("decoder", _DECODER_LAYER)):
            if pre_norm:
                names[f"{side}.layer_norm.{kind}"] = f"{side}_norm.{kind}"
            for layer in range(layers[side]):
                for theirs, ours in table.items():
                    names[f"{side}.layers.{layer}.{theirs}.{kind}"] = (
                        f"{side}.{layer}.{ours}.{kind}"
                    )
    return names


def _check_names(found: set[str], expected: set[str]) -> None:
    for names, problem in (
        (found - expected, "holds {}, which no plain fairseq Transformer has"),
        (expected - found, "lacks {}, which a fairseq Transformer of its depth has"),
    ):
        if names:
            first = min(names)
            more = f" and {len(names) - 1} more names" if len(names) > 1 else ""
            raise FairseqImportError(
                f"the checkpoint {problem.format(first + more)}: only the architectures "
                "'transformer*' with sinusoidal positions can be taken over"
            )


def _config(
    state: Mapping[str, Tensor],
    layers: Mapping[str, int],
    pre_norm: bool,
    options: Mapping[str, Any],
    heads: int | None,
) -> TranslatorConfig:
    heads = options.get("encoder_attention_heads", heads) if heads is None else heads
    if heads is None:
        raise FairseqImportError(
            "the number of attention heads can't be told from the weights and the checkpoint holds "
            "no options: pass heads"
        )
    if bool(options.get("encoder_normalize_before", pre_norm)) != pre_norm:
        raise FairseqImportError(
            "the model is pre-norm but has no norm after its last layer, as before fairseq 0.5: "
            "a Translator can't express that"
        )
    source, target = state["source_embedding.weight"], state["target_embedding.weight"]
    share: Literal["all", "decoder", "none"] = "none"
    if torch.equal(target, state["output.weight"]):
        share = "all" if torch.equal(source, target) else "decoder"
    ffn_dim = next((len(state[name]) for name in state if name.endswith("ffn.expand.weight")), 0)
    return TranslatorConfig(
        source_vocabulary=len(source),
        target_vocabulary=len(target),
        dim=target.shape[-1],
        ffn_dim=ffn_dim,
        heads=heads,
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        dropout=float(options.get("dropout", 0.1)),
        attention_dropout=float(options.get("attention_dropout", 0.0)),
        activation_dropout=float(
            options.get("activation_dropout") or options.get("relu_dropout") or 0.0
        ),
        norm_first=pre_norm,
        share_embeddings=share,
        positions=(
            "relative" if options.get("no_token_positional_embeddings") else "sinusoidal-fairseq"
        ),
        encoder_self="dot",
        decoder_self="dot",
        cross="dot",
        pad=int(options.get("pad", 1)),
    )


def _check_shapes(
    state: Mapping[str, Tensor], names: Mapping[str, str], config: TranslatorConfig
) -> None:
    """Compare with a model that holds no memory."""
    try:
        with torch.device("meta"):
            expected = Translator(config).state_dict()
    except ValueError as error:
        raise FairseqImportError(f"the weights don't make a Translator: {error}") from error
    for theirs, ours in names.items():
        found, wanted = tuple(state[ours].shape), tuple(expected[ours].shape)
        if found != wanted:
            raise FairseqImportError(
                f"{theirs} has the shape {found} where {wanted} was expected from the embeddings "
                "and the first layer: a Translator has one width and one feed-forward size"
            )
