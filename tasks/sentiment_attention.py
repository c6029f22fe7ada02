"""Which steps of one stream an item's steps of another one look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..models.mult import MulT
from .attention_maps import batch_of, find_item, no_weights
from .errors import ConfigError
from .module import AttentionMap

if TYPE_CHECKING:
    from ..datamodules.sentiment import SentimentData
    from ..datamodules.sentiment_batch import SentimentBatch
    from .sentiment import SentimentTask


def item_maps(
    task: SentimentTask, data: SentimentData, split: str, item: str
) -> dict[str, AttentionMap]:
    """Attention between the streams of one item, by ``target from source``.

    Args:
        task: in evaluation mode.
        data: its data module.
        split: of the data set.
        item: id of the item, or its position from 0.

    Raises:
        ConfigError: no such item, or a model without attention between streams.
    """
    position = find_item(item, data.ids(split), split)
    batch: SentimentBatch = batch_of(data.predict_dataloader(split), position).to(task.device)
    weights = task(batch, need_weights=True).weights
    texts = data.texts(split)
    words = texts[position].split() if texts else []
    maps = {
        name: _map(task, batch, name, layers, words) for name, layers in weights.items() if layers
    }
    if isinstance(task.model, MulT):
        missing = no_weights("crossmodal", task.config.crossmodal)
        names = [" from ".join(pair) for pair in task.model.config.pairs]
        return {name: maps.get(name) or AttentionMap((), missing=missing) for name in names}
    if not maps:
        raise ConfigError(
            f"model={task.config.model} has no attention from one stream to another, so there is "
            "nothing to draw"
        )
    return maps


def _map(
    task: SentimentTask,
    batch: SentimentBatch,
    name: str,
    layers: Sequence[Tensor],
    words: Sequence[str],
) -> AttentionMap:
    """The weights (1, H, Q, K) of each layer over the real steps of a batch of one."""
    target, source = name.split(" from ")
    queries, keys = _steps(task, batch, target), _steps(task, batch, source)
    return AttentionMap(
        tuple(weights_1HQK[0][:, queries][..., keys].float().cpu() for weights_1HQK in layers),
        _labels(target, queries, words),
        _labels(source, keys, words),
    )


def _steps(task: SentimentTask, batch: SentimentBatch, stream: str) -> Tensor:
    """The real steps of a stream as the attention has them."""
    valid_1T = batch.valid[stream]
    if not isinstance(task.model, MulT):
        return torch.arange(int(valid_1T.sum()))  # an alignment has them in front
    if stream in task.model.convolutions:
        valid_1T = task.model.convolutions[stream].valid(valid_1T)  # type: ignore[operator]
    return valid_1T[0].nonzero().flatten()


def _labels(stream: str, steps: Tensor, words: Sequence[str]) -> tuple[str, ...]:
    """The words of a text where there is one for each step, else the numbers of the steps."""
    if stream == "text" and len(words) == len(steps):
        return tuple(words)
    return tuple(str(int(step)) for step in steps)
