"""How tasks come by the attention weights of one item, whatever the model and the batch."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..models.attention import Attention, traits_of
from .errors import ConfigError
from .module import AttentionMap

Batch = TypeVar("Batch")


def find_item(item: str, ids: Sequence[Any], split: str) -> int:
    """The position of an item in its split, by what it is called or by the position itself.

    Raises ConfigError with near names and the range of positions.
    """
    names = [str(name) for name in ids]
    if item in names:
        return names.index(item)
    if item.isdecimal() and int(item) < len(names):
        return int(item)
    places = f"a position from 0 to {len(names) - 1:,}"
    near = difflib.get_close_matches(item, names, n=3, cutoff=0.6)
    if near and not item.isdecimal():
        hint = f"did you mean {' or '.join(near)}? Or give {places}"
    else:
        hint = f"give {places}" + f", or an id such as {names[0]}" * (names[:1] not in ([], ["0"]))
    raise ConfigError(f"there is no item {item!r} in {split}: {hint}")


def batch_of(batches: Iterable[Any], position: int) -> Any:
    """The batch of just the one item whose ``index_B`` is ``position``."""
    for batch in batches:
        rows = (batch.index_B == position).nonzero()
        if len(rows):
            return _only(batch, int(rows[0]))
    raise ConfigError(f"no batch holds item {position}")


def _only(batch: Batch, row: int) -> Batch:
    """One row of a batch, whose fields hold one element an item, as tensors, lists or dicts."""

    def cut(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: cut(each) for name, each in value.items()}
        return value if value is None else value[row : row + 1]

    values = {field.name: cut(getattr(batch, field.name)) for field in fields(batch)}  # type: ignore[arg-type]
    return replace(batch, **values)  # type: ignore[type-var]


def no_weights(site: str, spec: str) -> str:
    """Why the attention at a site has no weights to draw, or nothing where it has them."""
    traits = traits_of(spec)
    if traits.family == "none":
        return f"{site} is {spec}, which is no attention"
    if traits.weights != "dense":
        return f"{site} is {spec}, which doesn't weigh every key"
    return ""


@contextmanager
def weights_of(modules: Iterable[nn.Module | None]) -> Iterator[list[Tensor]]:
    """Collect the weights (H, Q, K) that attention modules give meanwhile to a batch of one item.

    One tensor a call, on the CPU; modules whose weights aren't dense, or None, add nothing.
    """
    seen: list[Tensor] = []

    def ask(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, "need_weights": True}

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        if output.weights is not None:
            seen.append(output.weights[0].detach().float().cpu())

    handles = []
    for module in modules:
        if isinstance(module, Attention):
            handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(module.register_forward_hook(keep))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def encoder_decoder_maps(
    model: Any,
    specs: Mapping[str, str],
    forward: Callable[[], Any],
    encoder: tuple[str, Sequence[str]],
    decoder: tuple[str, Sequence[str], Sequence[str]],
) -> dict[str, AttentionMap]:
    """The maps of an ``EncoderDecoder`` for one item: cross, encoder and decoder.

    Args:
        model: an ``EncoderDecoder``.
        specs: the attention spec of each of its sites.
        forward: runs the model over the item's batch of one.
        encoder: what the encoder reads, in one word, and the labels of its elements.
        decoder: what the decoder writes, in one word, the labels of what it reads at each step
            and of what it is to say there.
    """
    (source, elements), (target, read, said) = encoder, decoder
    places = {
        "cross": (f"{target} from {source}", said, elements),
        "encoder_self": (f"{source} from {source}", elements, elements),
        "decoder_self": (f"{target} from {target}", said, read),
    }
    modules = {
        "cross": [layer.cross_attention for layer in model.decoder],
        "encoder_self": [layer.self_attention for layer in model.encoder],
        "decoder_self": [layer.self_attention for layer in model.decoder],
    }
    maps: dict[str, AttentionMap] = {}
    for site, (name, queries, keys) in places.items():
        if missing := no_weights(site, specs[site]):
            maps[name] = AttentionMap((), missing=missing)
            continue
        with weights_of(modules[site]) as seen, torch.inference_mode():
            forward()
        layers = tuple(weights_HQK[:, : len(queries), : len(keys)] for weights_HQK in seen)
        maps[name] = AttentionMap(layers, tuple(queries), tuple(keys))
    return maps
