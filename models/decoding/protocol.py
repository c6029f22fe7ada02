"""What the searches ask of a model: one step, and a state that can be reordered.

Rows are item-major: row ``item * width + beam``. N is the number of rows, I of items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn


class DecodingError(ValueError):
    """A search that can't be done as asked, or a model whose scores can't be searched."""


class DecodingState(Protocol):
    """What a model keeps between steps; only the model knows what is inside."""

    def select(self, rows_N: Tensor, items_I: Tensor | None) -> None:
        """Keep the rows ``rows_N`` (long), in that order; a row may be taken several times.

        A state begins with one row an item; the searches take each row ``width`` times after the
        first step, which all outputs of an item share.

        Args:
            rows_N: indices into the rows held now; the result is item-major again.
            items_I: None if the items stay as they are, so that what is held once an item need
                not be touched; else the items (indices into those held now) that go on.
        """
        ...


StateT = TypeVar("StateT", bound=DecodingState, contravariant=True)


class StepModel(Protocol[StateT]):
    """A model that predicts one symbol after another."""

    def step(self, token_N: Tensor, state: StateT) -> Tensor:
        """Feed one symbol a row; return the logits (N, V) of the next and advance ``state``."""
        ...


def device_of(model: object) -> torch.device:
    """The device of the model's first parameter; the CPU if it has none."""
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def check_limits(
    max_length_I: int | Sequence[int] | Tensor, items: int, min_length: int
) -> list[int]:
    """The largest number of symbols before the end symbol, one an item.

    Raises:
        DecodingError: a limit is below ``min_length`` or 0, or there isn't one an item.
    """
    if isinstance(max_length_I, Tensor):
        max_length_I = max_length_I.tolist()
    limits = [max_length_I] * items if isinstance(max_length_I, int) else [*max_length_I]
    if len(limits) != items:
        raise DecodingError(
            f"max_length_I has {len(limits)} entries for {items} items: give one each"
        )
    if limits and min(limits) < max(min_length, 1):
        item = limits.index(min(limits))
        raise DecodingError(
            f"item {item} may have at most {limits[item]} symbols but at least "
            f"{max(min_length, 1)} are asked for: raise max_length or lower min_length"
        )
    return [int(limit) for limit in limits]
