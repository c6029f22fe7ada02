"""Our kernel paths side by side, over lengths and batches: the figures behind the choice of one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, get_args

import torch
from torch import Tensor

from ...models.attention import AttentionMask, Sequence1D, build_attention
from ...models.attention.contract import Attention
from ...models.attention.kernels import Path, force_path
from .measure import calls_for, seconds
from .report import align

PATHS: tuple[Path, ...] = get_args(Path)
ROUNDS = 5
LARGEST = 2**25
"""Scores B x H x Q x K above which a size is left out."""

Case = tuple[str, str, bool]
CASES: tuple[Case, ...] = (
    ("train", "terms(1111)", False),
    ("train, dropout", "terms(1111)", False),
    ("train, causal", "terms(1111)", True),
    ("train", "dot", False),
    ("infer", "terms(1111)", False),
    ("infer", "dot", False),
)
"""What is run, the variant, and whether the future is hidden."""


def measure_paths(
    lengths: Sequence[int], batches: Sequence[int], heads: int, dim: int
) -> list[dict[str, Any]]:
    """Median seconds of each path at each size and case, the paths in turns."""
    found = []
    for mode, spec, causal in CASES:
        for length in lengths:
            for batch in batches:
                if batch * heads * length**2 > LARGEST:
                    continue
                times = _time(mode, spec, causal, (batch, length, heads, dim))
                found.append(
                    {"mode": mode, "spec": spec, "length": length, "batch": batch, **times}
                )
    return found


def show_paths(found: Sequence[dict[str, Any]]) -> str:
    """A table: milliseconds of each path, and the fastest."""
    lines = [["", "L", "batch", *(f"{path} ms" for path in PATHS), "fastest"]]
    for row in found:
        best = min(PATHS, key=lambda path: row[path])
        times = [f"{row[path] * 1e3:.2f}" for path in PATHS]
        what = f"{row['spec']} {row['mode']}"
        lines.append([what, str(row["length"]), str(row["batch"]), *times, best])
    return align(lines)


def _time(mode: str, spec: str, causal: bool, size: tuple[int, int, int, int]) -> dict[Path, float]:
    batch, length, heads, dim = size
    dropout = 0.1 if "dropout" in mode else 0.0
    attention = build_attention(spec, dim=dim, heads=heads, dropout=dropout)
    attention.train(mode.startswith("train"))
    x_BLD = torch.randn(batch, length, dim, requires_grad=True)
    valid_BL = torch.ones(batch, length, dtype=torch.bool)
    valid_BL[:, -1] = length == 1  # the last token is padding, as in most batches
    work = {path: partial(_step, path, attention, x_BLD, valid_BL, causal) for path in PATHS}
    return _in_turns(work)


def _in_turns(work: dict[Path, Callable[[], object]]) -> dict[Path, float]:
    times = {path: calls_for(run, 0.05) for path, run in work.items()}
    values: dict[Path, list[float]] = {path: [] for path in work}
    for _ in range(ROUNDS):
        for path, run in work.items():
            gc.collect()
            values[path].append(seconds(run, times[path]))
    return {path: median(found) for path, found in values.items()}


def _step(path: Path, attention: Attention, x_BLD: Tensor, valid_BL: Tensor, causal: bool) -> None:
    length = x_BLD.shape[1]
    mask = AttentionMask(None if causal else valid_BL, causal=causal)
    geometry = Sequence1D(length, length)
    with force_path(path), torch.set_grad_enabled(attention.training):
        context_BLD = attention(x_BLD, geometry=geometry, mask=mask).context_BQD
        if attention.training:
            torch.autograd.grad(context_BLD.mean(), [x_BLD, *attention.parameters()])
