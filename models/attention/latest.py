"""The latest few of what is made once for each size of map or sequence."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import torch

KEPT = 16
"""How many are kept; data of any sizes would fill the memory."""

MadeT = TypeVar("MadeT")


class Latest(Generic[MadeT]):
    """What was made for the latest keys; apart under inference mode, whose tensors can't train."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, bool], MadeT] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], MadeT]) -> MadeT:
        """What is kept for a key, else what ``make`` gives; it isn't None."""
        place = (key, torch.is_inference_mode_enabled())
        made = self._kept.pop(place, None)
        if made is None:
            made = make()
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[place] = made  # the latest stands last
        return made
