"""A step model whose next symbol depends on the item, the last symbol and the position."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

BOS, PAD, EOS, UNK = 0, 1, 2, 3


@dataclass
class MarkovState:
    """The item of each row, and the items themselves, as a real state would keep them."""

    item_N: Tensor
    items_I: Tensor
    position: int = 0
    rows_computed: list[int] = field(default_factory=list)

    def select(self, rows_N: Tensor, items_I: Tensor | None) -> None:
        self.item_N = self.item_N[rows_N]
        if items_I is not None:
            self.items_I = self.items_I[items_I]
        width = len(self.item_N) // len(self.items_I)
        # What is held once an item must still belong to its rows.
        assert torch.equal(self.item_N, self.items_I.repeat_interleave(width))


class Markov:
    """Logits looked up in a table (item, position, last symbol, next symbol)."""

    def __init__(self, table_ITVV: Tensor) -> None:
        self.table_ITVV = table_ITVV

    @classmethod
    def random(cls, items: int, vocabulary: int, positions: int = 6, *, seed: int = 0) -> "Markov":
        generator = torch.Generator().manual_seed(seed)
        shape = (items, positions, vocabulary, vocabulary)
        return cls(2 * torch.randn(shape, generator=generator))

    @property
    def items(self) -> int:
        return len(self.table_ITVV)

    def start(self, items: list[int] | None = None) -> MarkovState:
        chosen = torch.arange(self.items) if items is None else torch.tensor(items)
        return MarkovState(chosen, chosen)

    def step(self, token_N: Tensor, state: MarkovState) -> Tensor:
        state.rows_computed.append(len(token_N))
        position = min(state.position, self.table_ITVV.shape[1] - 1)
        state.position += 1
        return self.table_ITVV[state.item_N, position, token_N]
