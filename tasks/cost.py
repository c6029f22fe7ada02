"""Parameters and multiply-accumulates of a model, counted over the real modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torchvision.ops  # noqa: F401  registers torch.ops.torchvision
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..models.attention.kernels import force_path


@dataclass(frozen=True)
class CostReport:
    """What one forward pass of a model costs.

    Attributes:
        parameters: number of trainable numbers; shared ones count once.
        macs: multiply-accumulates of the explicit path, as papers count them.
        macs_executed: multiply-accumulates of the path that is really taken.
        tokens: target tokens (items of other tasks) that the pass covers.
        note: what was counted, at which size.
    """

    parameters: int
    macs: int
    macs_executed: int
    tokens: int
    note: str


def count_parameters(model: nn.Module) -> int:
    """Number of trainable numbers; shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def count_macs(run: Callable[[], object]) -> int:
    """Multiply-accumulates of what ``run`` does; torch's counter has two flops for each."""
    known = {
        torch.ops.aten.mkldnn_rnn_layer: _lstm_layer_flops,
        torch.ops.torchvision.deform_conv2d: _deformable_flops,
    }
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        run()
    return counter.get_total_flops() // 2


def cost_report(model: nn.Module, run: Callable[[], object], tokens: int, note: str) -> CostReport:
    """Count ``run``, one forward pass of ``model``, on the explicit path and as it is executed."""
    with force_path("explicit"):
        macs = count_macs(run)
    return CostReport(count_parameters(model), macs, count_macs(run), tokens, note)


def _lstm_layer_flops(
    x_TBI: torch.Size, input_4HI: torch.Size, hidden_4HH: torch.Size, *_: object, **__: object
) -> int:
    """One layer and direction of an LSTM on a CPU, which torch runs as one operation."""
    steps, items = x_TBI[0], x_TBI[1]
    return 2 * steps * items * (input_4HI.numel() + hidden_4HH.numel())


def _deformable_flops(
    x_BCHW: torch.Size, weight_OCKK: torch.Size, *_: object, out_shape: torch.Size, **__: object
) -> int:
    """A deformable convolution as an ordinary one; interpolating the taps is not counted."""
    return 2 * out_shape.numel() * weight_OCKK[1:].numel()
