"""Temporal convolution of one stream, which knows where the stream's real steps are."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ConvolutionPadding = Literal["none", "same"]


class TemporalConvolution(nn.Module):
    """Brings a stream to the model's width and lets each step see its neighbours.

    Equation 1 of "Multimodal Transformer for Unaligned Multimodal Language Sequences" (Tsai et
    al., ACL 2019, arXiv 1906.00295): ``Conv1D(X, k)``, without a bias as in the public code.

    Args:
        features: width F of the stream.
        dim: model width D.
        kernel: number of steps k a convolution sees.
        padding: ``same`` keeps the number of steps (zeros around the stream; k must be odd);
            ``none`` gives k - 1 steps fewer, and no real step for an item shorter than k.
    """

    def __init__(
        self, features: int, dim: int, kernel: int = 1, padding: ConvolutionPadding = "same"
    ) -> None:
        super().__init__()
        if kernel < 1 or (padding == "same" and kernel % 2 == 0):
            odd = "odd and " if padding == "same" else ""
            raise ValueError(
                f"the kernel of a temporal convolution is {odd}1 or more, not {kernel}"
            )
        self.kernel = kernel
        self.before = (kernel - 1) // 2
        self.shrinks = kernel - 1 if padding == "none" else 0
        around = 0 if padding == "none" else self.before
        self.conv = nn.Conv1d(features, dim, kernel, padding=around, bias=False)

    def forward(self, x_BTF: Tensor) -> Tensor:
        """(B, T, F) to (B, T', D); a stream that is too short for the kernel is lengthened."""
        missing = max(0, self.shrinks + 1 - x_BTF.shape[1])
        if missing:
            x_BTF = F.pad(x_BTF, (0, 0, 0, missing))
        if self.kernel == 1:
            return F.linear(x_BTF, self.conv.weight[..., 0])
        return self.conv(x_BTF.transpose(1, 2)).transpose(1, 2)

    def valid(self, valid_BT: Tensor) -> Tensor:
        """Which of the T' steps are real: those whose steps were all real, where it shrinks."""
        missing = max(0, self.shrinks + 1 - valid_BT.shape[1])
        if missing:
            valid_BT = F.pad(valid_BT, (0, missing))
        return valid_BT.unfold(1, self.shrinks + 1, 1).all(-1) if self.shrinks else valid_BT

    def read_at(self, read_at_B: Tensor, valid_BT: Tensor) -> Tensor:
        """The step to read among the T' steps, -1 where no step is real any more.

        Where it shrinks: the step that is centred on the old one, or the nearest real one.

        Args:
            read_at_B: the step to read in the stream.
            valid_BT: which of the T' steps are real, from ``valid``.
        """
        if not self.shrinks:
            return read_at_B
        steps_T = torch.arange(valid_BT.shape[1], device=valid_BT.device)
        first_B = torch.where(valid_BT, steps_T, valid_BT.shape[1]).amin(1)
        last_B = torch.where(valid_BT, steps_T, -1).amax(1)
        moved_B = torch.minimum(torch.maximum(read_at_B - self.before, first_B), last_B)
        return torch.where(read_at_B < 0, read_at_B, moved_B)
