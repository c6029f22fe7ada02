"""Our kernel paths side by side, over lengths and batches: the figures behind the choice of one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ...models.attention import AttentionMask, Sequence1D, build_attention
from ...models.attention.contract import Attention
from ...models.attention.kernels import Path, force_path
from .measure import calls_for, seconds

PATHS: tuple[Path, ...] = ("explicit", "mask", "fold", "blocks")
ROUNDS = 3
AT_LEAST = 0.05
"""Seconds that each path runs in one turn."""

Case = tuple[str, str]
CASES: tuple[Case, ...] = (
    ("terms(1111)", "train"),
    ("terms(1111)", "train causal"),
    ("terms(1111)", "train dropout"),
    ("terms(1111)", "infer"),
    ("dot", "train"),
    ("dot", "infer"),
)
"""The variant, and how it is run; ``train`` is forward and backward."""


def measure_paths(
    lengths: Sequence[int], tokens: Sequence[int], heads: int, dim: int
) -> Iterator[dict[str, Any]]:
    """Median seconds of each path, the paths in turns, for every case, length and batch.

    Args:
        lengths: sentence lengths L.
        tokens: tokens of a batch; it has ``tokens / L`` sentences, at least one.
        heads, dim: sizes of the module.
    """
    for spec, mode in CASES:
        for length in lengths:
            for batch in sorted({max(1, total // length) for total in tokens}):
                times = _time(mode, spec, (batch, length, heads, dim))
                yield {"spec": spec, "mode": mode, "length": length, "batch": batch, **times}


def path_line(row: dict[str, Any] | None) -> str:
    """One line of the table: milliseconds of each path and the fastest; without a row the head."""
    if row is None:
        titles = "".join(f"{path + ' ms':>13}" for path in PATHS)
        return f"{'':26}{'L':>5}{'batch':>7}{titles}  fastest"
    best = min(PATHS, key=lambda path: row[path])
    times = "".join(f"{row[path] * 1e3:13.2f}" for path in PATHS)
    what = f"{row['spec']} {row['mode']}"
    return f"{what:26}{row['length']:5}{row['batch']:7}{times}  {best}"


def _time(mode: str, spec: str, size: tuple[int, int, int, int]) -> dict[Path, float]:
    batch, length, heads, dim = size
    dropout = 0.1 if "dropout" in mode else 0.0
    attention = build_attention(spec, dim=dim, heads=heads, dropout=dropout)
    attention.train(mode.startswith("train"))
    x_BLD = torch.randn(batch, length, dim, requires_grad=True)
    valid_BL = torch.ones(batch, length, dtype=torch.bool)
    valid_BL[:, -1] = length == 1  # the last token is padding, as in most batches
    causal = "causal" in mode
    work: dict[Path, Callable[[], object]] = {
        path: partial(_step, path, attention, x_BLD, valid_BL, causal) for path in PATHS
    }
    return _in_turns(work)


def _in_turns(work: dict[Path, Callable[[], object]]) -> dict[Path, float]:
    times = {path: calls_for(run, AT_LEAST) for path, run in work.items()}
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
