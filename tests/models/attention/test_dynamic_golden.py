"""Dynamic convolution against numbers of fairseq's modules, every case found."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.models.attention import AttentionMask, Sequence1D
from attnbench.models.attention.bands import dynamic_convolution
from attnbench.models.attention.dynamic import DynamicConvolution, InputState
from attnbench.models.attention.windows import dynamic_convolution_2d
from attnbench.models.layers import EncoderLayer, FeedForward
from tests.models.attention.golden import Case, case_files, read_case

# fairseq's class for CPUs normalises a whole causal sequence that is shorter than the kernel over
# the taps inside the sequence, but over all taps in decoding and in its other form. Ours is the
# latter everywhere; these outputs then differ.
OVER_TAPS_INSIDE = {"y_unfolded", "y_whole_sequence"}


@pytest.mark.parametrize("path", case_files("dynamic_conv"), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read_case(path)
    if "linear1.weight" in case.state:
        check_encoder_layer(case)
    else:
        check_convolution(case)


def check_convolution(case: Case) -> None:
    """The convolution alone; layout T x B x C."""
    config = case.config
    taps, left = config["kernel_size"], config["padding_l"]
    x_BTC, kernel_BTGK = kernel_of(case)
    y_BTC = dynamic_convolution(x_BTC, kernel_BTGK, left)
    if left == taps // 2 and taps % 2:
        # A sequence is a map of one row, and its kernel the middle row of a square.
        square = F.pad(kernel_BTGK, (taps * left, taps * left))
        y_BYXC = dynamic_convolution_2d(x_BTC[:, None], square[:, None])
        torch.testing.assert_close(y_BYXC[:, 0], y_BTC)
    for name in ("conv_bias", "bias"):
        y_BTC = y_BTC + case.state.get(name, torch.zeros(())).reshape(-1)
    unfolded_BTC = dynamic_convolution(x_BTC, kernel_BTGK, left, unfold=True)
    torch.testing.assert_close(dynamic_convolution(x_BTC, kernel_BTGK, left), unfolded_BTC)
    short = config["T"] < taps and left == taps - 1
    for name, expected in case.outputs.items():
        if not (short and name in OVER_TAPS_INSIDE):
            torch.testing.assert_close(y_BTC.transpose(0, 1), expected, rtol=1e-5, atol=1e-5)
    if {"y_incremental", "y_step_by_step"} & case.outputs.keys():
        check_steps(x_BTC, kernel_BTGK, y_BTC)


def kernel_of(case: Case) -> tuple[Tensor, Tensor]:
    """Input (B, T, C) and kernels (B, T, G, K) of a case, by its configuration."""
    config = case.config
    shape = (config["heads"], config["kernel_size"])
    x_BTC = case.inputs["x"].transpose(0, 1)
    if config["kind"] == "lightweight":
        kernel = case.state["weight"].reshape(shape).expand(*x_BTC.shape[:2], *shape)
    else:
        asking = case.inputs.get("query", case.inputs["x"]).transpose(0, 1)
        predicted = F.linear(
            asking, case.state["weight_linear.weight"], case.state.get("weight_linear.bias")
        )
        if config.get("in_proj"):
            x_BTC, predicted = predicted.split([x_BTC.shape[-1], shape[0] * shape[1]], -1)
        kernel = predicted.unflatten(-1, shape)
    return x_BTC, kernel.softmax(-1) if config["weight_softmax"] else kernel


def check_steps(x_BTC: Tensor, kernel_BTGK: Tensor, y_BTC: Tensor) -> None:
    """One position at a time over our state."""
    taps = kernel_BTGK.shape[-1]
    state = InputState(taps - 1)
    for t in range(x_BTC.shape[1]):
        seen_BSC = state.append(x_BTC[:, t : t + 1])
        y = dynamic_convolution(seen_BSC, kernel_BTGK[:, t : t + 1], taps - seen_BSC.shape[1])
        torch.testing.assert_close(y, y_BTC[:, t : t + 1])


def check_encoder_layer(case: Case) -> None:
    """A whole encoder layer of ours with the reference's parameters."""
    config, state = case.config, case.state
    attention = DynamicConvolution(
        config["embed"],
        2,
        kernel=config["kernel_size"],
        groups=config["heads"],
        glu=config["glu"],
    )
    ffn = FeedForward(config["embed"], config["ffn"])
    layer = EncoderLayer(attention, ffn, 0.0, config["normalize_before"])
    assert layer.self_residual is not None
    assert not state.pop("conv.conv_bias").any()
    modules = {
        "linear1": attention.in_proj,
        "conv.weight_linear": attention.kernel_proj,
        "linear2": attention.out_proj,
        "fc1": ffn.expand,
        "fc2": ffn.contract,
        "layer_norm1": layer.self_residual.norm,
        "layer_norm2": layer.ffn_residual.norm,
    }
    for name, module in modules.items():
        kinds = [key.rpartition(".")[2] for key in state if key.rpartition(".")[0] == name]
        module.load_state_dict({kind: state.pop(f"{name}.{kind}") for kind in kinds})
    assert not state
    x_BTC, valid_BT = case.inputs["x"].transpose(0, 1), ~case.inputs["padding_mask"].bool()
    where = Sequence1D(x_BTC.shape[1], x_BTC.shape[1])
    masked = layer(x_BTC, where, AttentionMask(valid_BT)).transpose(0, 1)
    free = layer(x_BTC, where, AttentionMask()).transpose(0, 1)
    torch.testing.assert_close(masked, case.outputs["y"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(free, case.outputs["y_without_mask"], rtol=1e-5, atol=1e-5)
