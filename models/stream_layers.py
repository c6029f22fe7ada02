"""What the baselines of multimodal sentiment share: packed streams, convolutions, the head.

Every baseline first moves the real steps of a stream to its front. From then on padding, on
whichever side it was, can only follow a real step: a recurrent network never reads it before, a
convolution sees zeros there, and relative positions are those of the real steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers.temporal import TemporalConvolution
from .sentiment_config import SentimentModelConfig
from .streams import Streams


@dataclass(frozen=True)
class Packed:
    """One stream with its real steps in front.

    Attributes:
        x_BTF: features, zeros in padding; T is at least 1.
        valid_BT: bool, True at real steps.
        read_at_B: the step that stands for the item, -1 for none.
    """

    x_BTF: Tensor
    valid_BT: Tensor
    read_at_B: Tensor

    @property
    def length_B(self) -> Tensor:
        """Number of real steps."""
        return self.valid_BT.sum(1)


def pack(x_BTF: Tensor, valid_BT: Tensor, read_at_B: Tensor) -> Packed:
    """Move the real steps to the front, in their order.

    A ``read_at`` in padding becomes the last real step before it, or -1 if there is none.
    """
    x_BTF, valid_BT = _some_steps(x_BTF, valid_BT)
    order_BT = _real_first(valid_BT)
    read_B = _moved(read_at_B, valid_BT)
    return Packed(_ordered(x_BTF, order_BT), valid_BT.gather(1, order_BT), read_B)


def pack_stream(streams: Streams, modality: str) -> Packed:
    """One stream by itself."""
    return pack(streams.features[modality], streams.valid[modality], streams.read_at[modality])


def pack_aligned(
    streams: Streams, modalities: Sequence[str], model: str, onto: str | None = None
) -> tuple[dict[str, Packed], Tensor, Tensor]:
    """Streams whose steps belong together: moved to the front together.

    A step is real where any modality has it, and the others are zeros there; the step that stands
    for the item is the last of those that do in its modalities.

    Args:
        streams: with the same number of steps in each modality.
        modalities: which ones.
        model: who asks, for the message.
        onto: keep the steps of this modality alone, and read where it is read.

    Returns:
        Each modality, valid at its own real steps; all real steps, (B, T); and the one that
        stands for the item, (B,), which all of them read.

    Raises:
        ValueError: the numbers of steps differ.
    """
    steps = {name: streams.features[name].shape[1] for name in modalities}
    if len(set(steps.values())) > 1:
        found = ", ".join(f"{name} {number}" for name, number in steps.items())
        raise ValueError(
            f"{model} reads its modalities step by step and needs equally many steps, but the "
            f"streams have {found}: use aligned data, or alignment_by=ctc"
        )
    own = {name: _some_steps(streams.features[name], streams.valid[name]) for name in modalities}
    deciding = list(modalities) if onto is None else [onto]
    real_BT = torch.stack([own[name][1] for name in deciding]).any(0)
    read_B = torch.stack([streams.read_at[name] for name in deciding]).amax(0)
    order_BT = _real_first(real_BT)
    read_B = _moved(read_B, real_BT)
    packed: dict[str, Packed] = {}
    for name, (x_BTF, valid_BT) in own.items():
        kept_BT = valid_BT & real_BT
        front_BTF = _ordered(x_BTF.masked_fill(~kept_BT[..., None], 0), order_BT)
        packed[name] = Packed(front_BTF, kept_BT.gather(1, order_BT), read_B)
    return packed, real_BT.gather(1, order_BT), read_B


def _some_steps(x_BTF: Tensor, valid_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Zeros in padding, and a step of padding where there's none at all."""
    missing = int(x_BTF.shape[1] == 0)
    x_BTF = F.pad(x_BTF.masked_fill(~valid_BT[..., None], 0), (0, 0, 0, missing))
    return x_BTF, F.pad(valid_BT, (0, missing))


def _real_first(valid_BT: Tensor) -> Tensor:
    """The order of the steps that has the real ones first."""
    return (~valid_BT).int().argsort(dim=1, stable=True)


def _ordered(x_BTF: Tensor, order_BT: Tensor) -> Tensor:
    return x_BTF.gather(1, order_BT[..., None].expand_as(x_BTF))


def _moved(read_at_B: Tensor, valid_BT: Tensor) -> Tensor:
    """Where the step that is read lies when the real ones come first."""
    place_BT = valid_BT.cumsum(1) - 1
    place_B = place_BT.gather(1, read_at_B.clamp_min(0)[:, None]).squeeze(1)
    return torch.where(read_at_B < 0, -1, place_B)


class TemporalConvolutions(nn.Module):
    """A bias-free convolution over time for each modality: F features to a common width D.

    MulT's first layer (Tsai et al., ACL 2019, equation 1), which the baselines
    share so that they differ in the fusion alone; the paper doesn't say whether theirs had it.
    The number of steps stays the same, and padding stays zero.

    Args:
        config: modalities, their feature widths, kernels and ``text_dropout``.
        width: common width D.
    """

    def __init__(self, config: SentimentModelConfig, width: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleDict(
            {
                name: TemporalConvolution(features, width, config.of("kernel", name))
                for name, features in config.used.items()
            }
        )
        self.text_dropout = nn.Dropout(config.text_dropout)

    def forward(self, stream: Packed, modality: str) -> Tensor:
        """(B, T, F) to (B, T, D), zeros in padding."""
        x_BTF = self.text_dropout(stream.x_BTF) if modality == "text" else stream.x_BTF
        x_BTD: Tensor = self.convolutions[modality](x_BTF)
        return x_BTD.masked_fill(~stream.valid_BT[..., None], 0)


class ResidualHead(nn.Module):
    """MulT's head: a residual block of two linear layers, then the output layer.

    Args:
        width: width D of what is read.
        outputs: numbers O that an item gets.
        dropout: inside the block.
    """

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.output = nn.Linear(width, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BD: Tensor) -> Tensor:
        """(B, D) to (B, O)."""
        return self.output(x_BD + self.outer(self.dropout(self.inner(x_BD).relu())))


def make_lstm(inputs: int, config: SentimentModelConfig, width: int) -> nn.LSTM:
    """An LSTM over time of ``lstm_layers`` layers, dropout between them."""
    layers = config.lstm_layers
    between = config.residual_dropout if layers > 1 else 0.0
    return nn.LSTM(inputs, width, layers, batch_first=True, dropout=between)
