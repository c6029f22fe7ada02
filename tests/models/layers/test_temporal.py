"""Temporal convolution: a loop over steps, real steps and the step to read behind it."""

import pytest
import torch

from attnbench.models.layers.temporal import ConvolutionPadding, TemporalConvolution


@pytest.mark.parametrize(
    ("kernel", "padding"), [(1, "same"), (3, "same"), (1, "none"), (4, "none")]
)
def test_it_is_a_sum_over_neighbours(kernel: int, padding: ConvolutionPadding) -> None:
    convolution = TemporalConvolution(5, 3, kernel, padding).double()
    x = torch.randn(2, 7, 5).double()
    y = convolution(x)
    before = (kernel - 1) // 2 if padding == "same" else 0
    assert y.shape == (2, 7 if padding == "same" else 8 - kernel, 3)
    for step in range(y.shape[1]):
        expected = torch.zeros(2, 3).double()
        for tap in range(kernel):
            source = step + tap - before
            if 0 <= source < 7:
                expected += x[:, source] @ convolution.conv.weight[:, :, tap].T
        torch.testing.assert_close(y[:, step], expected)


def test_a_shrinking_convolution_moves_masks_and_the_step_that_is_read() -> None:
    convolution = TemporalConvolution(5, 3, 3, "none")
    valid = torch.tensor(
        [
            [1, 1, 1, 1, 1, 1],
            [1, 1, 1, 1, 0, 0],
            [0, 0, 1, 1, 1, 1],
            [1, 1, 0, 0, 0, 0],  # shorter than the kernel
            [0, 0, 0, 0, 0, 0],
            [1, 1, 1, 1, 1, 1],  # a step in the middle, and the first one
            [1, 1, 1, 1, 1, 1],
        ],
        dtype=torch.bool,
    )
    shrunk = convolution.valid(valid)
    assert shrunk.int().tolist() == [
        *([1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0] * 4, [0] * 4, [1] * 4, [1] * 4)
    ]
    read_at = convolution.read_at(torch.tensor([5, 3, 5, 1, -1, 3, 0]), shrunk)
    assert read_at.tolist() == [3, 1, 3, -1, -1, 2, 0]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_stream_shorter_than_the_kernel_keeps_one_step_that_is_not_real(steps: int) -> None:
    convolution = TemporalConvolution(5, 3, 3, "none")
    assert convolution(torch.randn(2, steps, 5)).shape == (2, 1, 3)
    assert convolution.valid(torch.ones(2, steps, dtype=torch.bool)).tolist() == [[False], [False]]


def test_no_steps_at_all_become_one_that_is_not_real() -> None:
    convolution = TemporalConvolution(5, 3, 3, "same")
    assert not convolution(torch.randn(2, 0, 5)).any()
    assert convolution.valid(torch.ones(2, 0, dtype=torch.bool)).tolist() == [[False], [False]]


@pytest.mark.parametrize(("kernel", "padding"), [(0, "none"), (2, "same")])
def test_kernels_that_do_not_fit_are_refused(kernel: int, padding: ConvolutionPadding) -> None:
    with pytest.raises(ValueError, match=f"1 or more, not {kernel}"):
        TemporalConvolution(5, 3, kernel, padding)
