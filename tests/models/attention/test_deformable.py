"""1-D deformable convolution (Dai et al., ICCV 2017) against loops and torchvision."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.models.attention import AttentionMask, SiteError, SpecError, build_attention
from attnbench.models.attention.deformable import DeformableConvolution, sample_linear
from tests.models.attention import naive
from tests.models.attention.compare import assert_same, disturbed, padding, relative_error


def deformable_module(kernel: int = 3, *, amount: float = 0.5) -> DeformableConvolution:
    module = disturbed(f"deformable(kernel={kernel})", amount=amount)
    assert isinstance(module, DeformableConvolution)
    return module


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("amount", [0.1, 1.0])
def test_convolution(kernel: int, causal: bool, amount: float) -> None:
    """Offsets within a token and far beyond both ends of the sequence."""
    module = deformable_module(kernel, amount=amount)
    x = torch.randn(2, 7, 8, dtype=torch.float64, requires_grad=True)
    valid = padding(7, 4)
    assert_same(
        module,
        {"x": x},
        lambda: module(x, mask=AttentionMask(valid, causal=causal)).context_BQD,
        lambda: naive.deformable(module, x, valid, causal=causal),
    )


def test_training_begins_from_an_ordinary_convolution() -> None:
    module = build_attention("deformable", dim=8, heads=2)
    assert isinstance(module, DeformableConvolution)
    x = torch.randn(2, 9, 8)
    convolved = F.conv1d(x.transpose(1, 2), module.weight_DDK, module.bias_D, padding=1)
    torch.testing.assert_close(module(x).context_BQD, convolved.transpose(1, 2))
    convolved = F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), module.weight_DDK, module.bias_D)
    causal = module(x, mask=AttentionMask(causal=True)).context_BQD
    torch.testing.assert_close(causal, convolved.transpose(1, 2))


def test_the_offsets_learn_ten_times_slower() -> None:
    module = build_attention("terms(1111)+deformable", dim=8, heads=2)
    slow = {
        name: getattr(parameter, "lr_scale")  # noqa: B009
        for name, parameter in module.named_parameters()
        if hasattr(parameter, "lr_scale")
    }
    assert slow == {"fronts.0.offset_weight_KDK": 0.1, "fronts.0.offset_bias_K": 0.1}


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_torchvision_on_a_map_of_height_one(kernel: int) -> None:
    ops = pytest.importorskip("torchvision.ops")
    module = deformable_module(kernel, amount=0.7)
    x = torch.randn(2, 11, 8, dtype=torch.float64, requires_grad=True)

    def reference() -> Tensor:
        offset_BKT = module.offsets(x, 11, causal=False).transpose(1, 2)
        # Per tap dy, then dx.
        both = torch.stack([torch.zeros_like(offset_BKT), offset_BKT], 2).flatten(1, 2)
        y_BDT = ops.deform_conv2d(
            x.transpose(1, 2)[:, :, None],
            both[:, :, None],
            module.weight_DDK[:, :, None],
            module.bias_D,
            padding=(0, kernel // 2),
        )[:, :, 0]
        return y_BDT.transpose(1, 2)

    assert_same(module, {"x": x}, lambda: module(x).context_BQD, reference)


@pytest.mark.parametrize("from_left", [False, True])
def test_sampling(from_left: bool) -> None:
    """A hat of width 1 around each place, value and gradient; 0 outside."""
    x = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    place = (9 * torch.rand(2, 40, dtype=torch.float64) - 2).requires_grad_()
    hat = (1 - (place[..., None] - torch.arange(6)).abs()).clamp_min(0)
    ours, reference = sample_linear(x, place, from_left=from_left), hat @ x
    torch.testing.assert_close(ours, reference)
    cotangent = torch.randn_like(reference)
    for a, b in zip(
        torch.autograd.grad((ours * cotangent).sum(), (x, place)),
        torch.autograd.grad((reference * cotangent).sum(), (x, place)),
        strict=True,
    ):
        assert relative_error(a, b) < 1e-12


@pytest.mark.parametrize("from_left", [False, True])
@pytest.mark.parametrize("place", [-1e30, -2.0, -1.0, 6.0, 7.5, 1e30, float("inf")])
def test_far_places_read_zero(place: float, from_left: bool) -> None:
    x = torch.randn(1, 6, 3)
    assert (sample_linear(x, torch.tensor([[place]]), from_left=from_left) == 0).all()


def test_whole_places_are_exact_far_into_a_long_sequence() -> None:
    """Half precision could not count so far."""
    module = build_attention("deformable", dim=8, heads=2)
    x = torch.randn(1, 2000, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = module(x).context_BQD.float()
    assert relative_error(low, module(x).context_BQD) < 0.02


def test_causal_sampling_never_passes_the_query() -> None:
    """Offsets that pull forward end at the query; the future gets no gradient at all."""
    module = deformable_module(3, amount=0.1)
    with torch.no_grad():
        module.offset_bias_K.fill_(50.0)
    x = torch.randn(1, 7, 8, dtype=torch.float64, requires_grad=True)
    y = module(x, mask=AttentionMask(causal=True)).context_BQD
    torch.testing.assert_close(
        y, F.linear(x, module.weight_DDK.sum(-1), module.bias_D), rtol=1e-10, atol=1e-10
    )
    (gradient,) = torch.autograd.grad(y[:, 3].sum(), x)
    assert (gradient[:, 4:] == 0).all()


def test_zero_offsets_train_on_the_past_only() -> None:
    """At the start every tap stands at a whole position, where left and right slopes differ."""
    module = build_attention("deformable", dim=8, heads=2).double()
    x = torch.randn(1, 7, 8, dtype=torch.float64)
    gradients = []
    for future in (0.0, 5.0):
        changed = x.clone()
        changed[:, 4:] += future
        module.zero_grad()
        module(changed, mask=AttentionMask(causal=True)).context_BQD[:, :4].sum().backward()
        found = [parameter.grad for parameter in module.parameters()]
        gradients.append([gradient.clone() for gradient in found if gradient is not None])
    for without, with_future in zip(*gradients, strict=True):
        torch.testing.assert_close(without, with_future)


def test_aux_says_how_far_the_offsets_reach() -> None:
    module = build_attention("dot+deformable", dim=8, heads=2)
    x = torch.randn(2, 5, 8)
    assert module(x).aux["offset_abs_mean"] == 0
    bias = dict(module.named_parameters())["fronts.0.offset_bias_K"]
    with torch.no_grad():
        bias.copy_(torch.tensor([1.0, -2.0, 3.0]))
    torch.testing.assert_close(module(x).aux["offset_abs_mean"], torch.tensor(2.0))


def test_it_reads_no_memory() -> None:
    module = build_attention("deformable", dim=8, heads=2)
    memory = torch.randn(2, 3, 8)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module(torch.randn(2, 3, 8), memory)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module.begin(memory)


@pytest.mark.parametrize("kernel", ["2", "0", "-3"])
def test_options_out_of_range(kernel: str) -> None:
    with pytest.raises(SpecError, match="kernel is an odd number of taps"):
        build_attention(f"deformable(kernel={kernel})", dim=8, heads=2)
