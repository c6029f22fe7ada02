"""Band matrices: products of a sequence with a window of K taps around every position.

Positions are cut into blocks of L; the L windows of a block are one matrix of L + K - 1 rows, and
the taps of its positions a band matrix L x (L + K - 1), whose row l starts at column l. Blocks of
one position unfold the windows instead: fewer multiply-accumulates, but far slower.

Shapes: N blocks, G groups of R = D / G channels, W = L + K - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

BLOCK = 32
"""Positions that share one band matrix; longer blocks waste work, shorter ones calls."""


def dynamic_convolution(
    x_BSD: Tensor, kernel_BTGK: Tensor, padding_left: int, *, unfold: bool = False
) -> Tensor:
    """``y[t] = sum_k kernel[t, k] * x[t + k - padding_left]``, with x = 0 outside: (B, T, D).

    Args:
        x_BSD: input of S positions.
        kernel_BTGK: kernel of each output position t and group g; a group has D / G channels.
        padding_left: how far tap 0 reaches back.
        unfold: copy the taps of every position and multiply (T D K multiply-accumulates, as
            counted on paper) and not by band matrices (more, but much faster: 10 times at K = 31).
    """
    length, groups, taps = kernel_BTGK.shape[1:]
    blocks = Blocks.of(length, taps, unfold=unfold)
    windows_BNGRW = blocks.windows(x_BSD, padding_left, groups)
    return blocks.join(blocks.band(kernel_BTGK) @ windows_BNGRW.transpose(-2, -1))


class Blocks(NamedTuple):
    """How T positions are cut.

    Attributes:
        length: positions T.
        taps: window size K.
        count: blocks N.
        block: positions in a block, L; the last block may be filled up.
    """

    length: int
    taps: int
    count: int
    block: int

    @classmethod
    def of(cls, length: int, taps: int, *, unfold: bool = False) -> Blocks:
        """Blocks of equal size, at most ``BLOCK`` positions each, or one each to unfold."""
        count = -(-length // (1 if unfold else BLOCK))
        return cls(length, taps, count, -(-length // count))

    @property
    def surplus(self) -> int:
        """Positions by which the last block is filled up."""
        return self.count * self.block - self.length

    def windows(self, x_BSD: Tensor, padding_left: int, groups: int) -> Tensor:
        """The elements that a block reads, (B, N, G, R, W): views of one padded copy."""
        right = self.length + self.surplus + self.taps - 1 - padding_left - x_BSD.shape[1]
        padded_BSD = F.pad(x_BSD, (0, 0, padding_left, right))
        windows_BNDW = padded_BSD.unfold(1, self.block + self.taps - 1, self.block)
        return windows_BNDW.unflatten(2, (groups, -1))

    def overlap(self, windows_BNGWR: Tensor, padding_left: int, source: int) -> Tensor:
        """The transpose of ``windows``: what the blocks send to each element, added: (B, S, D)."""
        windows_BNWD = windows_BNGWR.transpose(2, 3).flatten(3)
        batch, _, width, channels = windows_BNWD.shape
        size = self.length + self.surplus + self.taps - 1
        padded_BSD = windows_BNWD.new_zeros(batch, size, channels)
        for n in range(self.count):
            padded_BSD[:, n * self.block : n * self.block + width] += windows_BNWD[:, n]
        return F.pad(padded_BSD, (0, 0, -padding_left, source + padding_left - size))

    def cut(self, y_BTD: Tensor, groups: int) -> Tensor:
        """Positions by block and group, (B, N, G, L, R)."""
        y_BTD = F.pad(y_BTD, (0, 0, 0, self.surplus))
        y_BNLGR = y_BTD.unflatten(-1, (groups, -1)).unflatten(1, (self.count, self.block))
        return y_BNLGR.transpose(2, 3)

    def join(self, y_BNGLR: Tensor) -> Tensor:
        """The transpose of ``cut``: (B, T, D)."""
        return y_BNGLR.transpose(2, 3).flatten(3).flatten(1, 2)[:, : self.length]

    def band(self, kernel_BTGK: Tensor) -> Tensor:
        """Band matrices (B, N, G, L, W): the taps of row l moved right by l; views of one copy."""
        kernel_BTGK = F.pad(kernel_BTGK, (0, 0, 0, 0, 0, self.surplus))
        kernel_BNGLK = kernel_BTGK.unflatten(1, (self.count, self.block)).transpose(2, 3)
        if self.block == 1:
            return kernel_BNGLK
        width = self.block + self.taps - 1
        flat = F.pad(kernel_BNGLK, (0, self.block)).flatten(-2)
        return flat[..., : self.block * width].unflatten(-1, (self.block, width))

    def from_band(self, full_BNGLW: Tensor) -> Tensor:
        """The transpose of ``band``: the taps of each position from full matrices, (B, T, G, K)."""
        rows = F.pad(full_BNGLW.flatten(-2), (0, self.block))
        kernel_BNGLK = rows.unflatten(-1, (self.block, -1))[..., : self.taps]
        return kernel_BNGLK.transpose(2, 3).flatten(1, 2)[:, : self.length]
