"""Multiply-accumulates by torch's counter over the real modules, against the counts on paper.

With N positions and width C: projections N C^2 each; E1, E2, E4 scores and the weighted sum
N^2 C each, and (2 N - 1) C^2 for the projected relative encodings; E3 alone needs one row of
weights for all queries. Dynamic convolution N C G K + N C K, deformable K N C^2.
"""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnbench.models.attention import build_attention
from attnbench.models.attention.kernels import Path, force_path

N, C = 50, 64


def counted(spec: str, path: Path = "explicit") -> int:
    with torch.device("meta"):
        module = build_attention(spec, dim=C, heads=8)
        x = torch.empty(1, N, C)
    with force_path(path), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() // 2


OFFSETS = N * C * 9  # the convolution that predicts 3 offsets from 3 taps
PROJECTION, SCORES, ENCODINGS = N * C**2, N**2 * C, (2 * N - 1) * C**2


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("none", 0),
        ("dot", 4 * PROJECTION + 2 * SCORES),
        ("nsa", 4 * PROJECTION + 2 * SCORES),
        ("terms(1000)", 4 * PROJECTION + 2 * SCORES),
        ("terms(1010)", 4 * PROJECTION + 2 * SCORES),
        # 2 N - 1 offsets for each query in 1-D, of which N are kept.
        ("terms(1111)", 4 * PROJECTION + 2 * SCORES + ENCODINGS + N * (2 * N - 1) * C),
        ("terms(0010)", 3 * PROJECTION + 2 * N * C),
        ("terms(0001)", 2 * PROJECTION + SCORES + ENCODINGS + (2 * N - 1) * C),
        ("dynamic", 3 * PROJECTION + N * C * 16 * 31 + N * C * 31),
        ("dynamic(kernel=13)", 3 * PROJECTION + N * C * 16 * 13 + N * C * 13),
        ("dynamic(kernel=13,glu=false)", 2 * PROJECTION + N * C * 16 * 13 + N * C * 13),
        ("deformable", 3 * PROJECTION + OFFSETS),
        ("terms(0010)+deformable", 6 * PROJECTION + 2 * N * C + OFFSETS),
    ],
)
def test_counts_on_paper(spec: str, expected: int) -> None:
    assert counted(spec) == expected


@pytest.mark.parametrize("spec", ["terms(1111)", "dynamic", "deformable", "nsa"])
def test_what_runs_costs_about_as_much(spec: str) -> None:
    assert counted(spec, "mask") < 1.2 * counted(spec)
