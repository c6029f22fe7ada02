"""Dynamic convolution (Wu et al., ICLR 2019) against loops."""

import pytest
import torch

from attnbench.models.attention import AttentionMask, SiteError, SpecError, build_attention
from attnbench.models.attention.bands import BLOCK, dynamic_convolution
from attnbench.models.attention.dynamic import DynamicConvolution
from attnbench.models.attention.kernels import Path, force_path
from tests.models.attention import naive
from tests.models.attention.compare import assert_same, disturbed, padding, relative_error


def dynamic_module(spec: str, **sizes: int) -> DynamicConvolution:
    module = disturbed(spec, **sizes)
    assert isinstance(module, DynamicConvolution)
    return module


@pytest.mark.parametrize("path", ["explicit", "mask"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 4, 13])
@pytest.mark.parametrize("options", ["", ",glu=false", ",softmax=false"])
def test_convolution(options: str, kernel: int, causal: bool, path: Path) -> None:
    """Also kernels longer than the sequence (7) and even ones."""
    module = dynamic_module(f"dynamic(groups=2,kernel={kernel}{options})", dim=4)
    x = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    valid = padding(7, 4)
    mask = AttentionMask(valid, causal=causal)

    def fast() -> torch.Tensor:
        with force_path(path):
            return module(x, mask=mask).context_BQD

    assert_same(module, {"x": x}, fast, lambda: naive.dynamic(module, x, valid, causal=causal)[0])


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 63, 111])
@pytest.mark.parametrize("taps", [1, 2, 3, 31])
def test_the_band_form_equals_the_unfolded_form(length: int, taps: int) -> None:
    for padding_left in {0, taps // 2, taps - 1}:
        x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
        kernel = torch.randn(2, length, 3, taps, dtype=torch.float64, requires_grad=True)
        band = dynamic_convolution(x, kernel, padding_left)
        unfolded = dynamic_convolution(x, kernel, padding_left, unfold=True)
        torch.testing.assert_close(band, unfolded)
        cotangent = torch.randn_like(band)
        ours = torch.autograd.grad((band * cotangent).sum(), (x, kernel))
        theirs = torch.autograd.grad((unfolded * cotangent).sum(), (x, kernel))
        assert all(relative_error(a, b) < 1e-12 for a, b in zip(ours, theirs, strict=True))


def test_weights_are_the_kernels() -> None:
    module = dynamic_module("dynamic(groups=2,kernel=5)")
    x = torch.randn(2, 7, 8).double()
    valid = padding(7, 4)
    output = module(x, mask=AttentionMask(valid), need_weights=True)
    _, kernels = naive.dynamic(module, x, valid, causal=False)
    assert output.weights is not None and output.weights.shape == (2, 2, 7, 5)
    torch.testing.assert_close(output.weights, kernels)
    torch.testing.assert_close(output.weights.sum(-1), torch.ones(2, 2, 7).double())


@pytest.mark.parametrize("kernel", [1, 2, 3, 9])
def test_the_state_holds_the_last_inputs_only(kernel: int) -> None:
    module = dynamic_module(f"dynamic(groups=2,kernel={kernel})")
    x = torch.randn(2, 6, 8).double()
    full, _ = naive.dynamic(module, x, torch.ones(2, 6, dtype=torch.bool), causal=True)
    state = module.begin()
    for t in range(6):
        step = module(x[:, t : t + 1], state=state).context_BQD
        torch.testing.assert_close(step, full[:, t : t + 1])
        assert state.nbytes == 2 * min(kernel - 1, t + 1) * 8 * 8


def test_several_positions_a_step() -> None:
    module = dynamic_module("dynamic(groups=2,kernel=4)")
    x = torch.randn(2, 9, 8).double()
    full = module(x, mask=AttentionMask(causal=True)).context_BQD
    state = module.begin()
    steps = [module(part, state=state).context_BQD for part in x.split([1, 5, 3], 1)]
    torch.testing.assert_close(torch.cat(steps, 1), full)


def test_dropout_drops_taps_in_training_only() -> None:
    module = build_attention("dynamic(groups=2,kernel=3)", dim=8, heads=2, dropout=0.5)
    x = torch.randn(2, 6, 8)
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


def test_it_reads_no_memory() -> None:
    module = build_attention("dynamic(groups=2)", dim=8, heads=2)
    memory = torch.randn(2, 3, 8)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module(torch.randn(2, 3, 8), memory)
    with pytest.raises(SiteError, match="can't read another sequence"):
        module.begin(memory)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dynamic(kernel=0)", "kernel is 1 or more, not 0"),
        ("dynamic(kernel=2.5)", "kernel is a whole number, not 2.5"),
        ("dynamic(kernel=true)", "kernel is a whole number, not true"),
        ("dynamic(groups=3)", "3 groups don't divide the width 8; choose a divisor"),
    ],
)
def test_options_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_attention(spec, dim=8, heads=2)
