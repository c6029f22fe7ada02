"""terms(1111), forward and backward, against a dense implementation of the same formula.

Both sides get the same weights and input, and must give the same values and gradients before
anything is measured. Times are taken in turns in this process; memory is the growth of resident
memory at its peak, each side in a fresh process. ``--paths`` times our own kernels instead, over
sentence lengths and batch sizes: the figures behind the choice in ``models/attention/kernels.py``.
"""

from __future__ import annotations

import argparse
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...models.attention import Sequence1D, build_attention
from ...models.attention.terms import TermsAttention
from ..errors import UsageError
from .dense import dense_terms
from .kernel_paths import measure_paths, path_line
from .measure import Comparison, calls_for, in_process, in_turns, peak_growth, seconds
from .report import as_json, parser, run_benchmark, save, show

OURS = "ours"
DENSE = {"dense": False, "dense, projected first": True}
"""The other sides: name, and whether the encodings are projected before they are spread."""
TARGET = 5.0


@dataclass(frozen=True)
class Size:
    """Sizes of one measurement: sentences B, tokens L, heads H, width D, CPU threads."""

    batch: int
    length: int
    heads: int
    dim: int
    threads: int

    def build(self) -> tuple[TermsAttention, Tensor]:
        """The module and its input, the same in every process."""
        torch.manual_seed(0)
        attention = build_attention("terms(1111)", dim=self.dim, heads=self.heads)
        assert isinstance(attention, TermsAttention)
        return attention, torch.randn(self.batch, self.length, self.dim, requires_grad=True)


def step(side: str, attention: TermsAttention, x_BLD: Tensor) -> list[Tensor]:
    """One forward and backward pass: the context and all gradients."""
    if side == OURS:
        length = x_BLD.shape[1]
        context_BLD = attention(x_BLD, geometry=Sequence1D(length, length)).context_BQD
    else:
        context_BLD = dense_terms(attention, x_BLD, project_first=DENSE[side])
    inputs = [x_BLD, *attention.parameters()]
    gradients = torch.autograd.grad(context_BLD.square().mean(), inputs)
    return [context_BLD.detach(), *gradients]


def worker(side: str, size: Size) -> Callable[[], object]:
    """A function that does one step at this size."""
    return partial(step, side, *size.build())


def check_equal(size: Size) -> float:
    """The largest difference of values and gradients, relative to each tensor's largest value.

    Raises:
        RuntimeError: the sides don't compute the same.
    """
    attention, x_BLD = size.build()
    ours = step(OURS, attention, x_BLD)
    worst = 0.0
    for side in DENSE:
        for mine, other in zip(ours, step(side, attention, x_BLD), strict=True):
            worst = max(worst, float((mine - other).abs().max() / other.abs().max()))
    if worst > 1e-3:
        raise RuntimeError(f"the dense implementation gives other values: {worst:.2g} apart")
    return worst


def peak_of(side: str, size: Size) -> int:
    """Peak memory growth in bytes of one step, at least one page; run it in its own process."""
    torch.set_num_threads(size.threads)
    small = Size(1, 8, size.heads, size.dim, size.threads)
    return max(peak_growth(worker(side, small), worker(side, size)), mmap.PAGESIZE)


def compare(size: Size, rounds: int) -> list[Comparison]:
    """Time and memory against each dense side."""
    rows = []
    ours = worker(OURS, size)
    times = calls_for(ours, 0.2)
    for side in DENSE:
        theirs = worker(side, size)
        theirs()
        pair = in_turns(rounds, partial(seconds, ours, times), partial(seconds, theirs))
        memory = in_turns(
            max(1, rounds // 3),
            partial(in_process, peak_of, OURS, size),
            partial(in_process, peak_of, side, size),
        )
        what = f"batch {size.batch}, {side}"
        rows.append(Comparison(f"{what}: time", "s", *pair, target=TARGET))
        rows.append(Comparison(f"{what}: peak memory", "bytes", *memory, target=TARGET))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    if options.paths:
        print(path_line(None))
        found = []
        for row in measure_paths(options.lengths, options.tokens, options.heads, options.dim):
            print(path_line(row), flush=True)
            found.append(row)
        save(options.json, as_json("kernel_paths", vars(options), [], paths=found))
        return
    rows: list[Comparison] = []
    worst = 0.0
    for batch in options.batch:
        size = Size(batch, options.length, options.heads, options.dim, options.threads)
        worst = max(worst, check_equal(size))
        rows += compare(size, options.rounds)
    print(
        f"terms(1111), forward and backward: L={options.length}, {options.heads} heads, "
        f"d={options.dim}, {options.threads} threads, {options.rounds} turns; "
        f"values and gradients agree to {worst:.1g}"
    )
    print(show(rows, "attnbench", "dense"))
    save(options.json, as_json("terms", vars(options), rows, largest_difference=worst))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("terms", __doc__, rounds=5)
    made.add_argument("--batch", type=int, nargs="+", default=[1, 4], help="sentences (1 4)")
    made.add_argument("--length", type=int, default=256, help="tokens a sentence (256)")
    made.add_argument("--heads", type=int, default=8, help="attention heads (8)")
    made.add_argument("--dim", type=int, default=512, help="model width (512)")
    made.add_argument("--paths", action="store_true", help="time our own kernels instead")
    made.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[16, 32, 64, 128, 256, 512, 1024],
        help="with --paths: tokens a sentence (16 32 … 1024)",
    )
    made.add_argument(
        "--tokens",
        type=int,
        nargs="+",
        default=[256, 2048],
        help="with --paths: tokens a batch (256 2048)",
    )
    options: argparse.Namespace = made.parse_args(arguments)
    numbers = [options.length, options.heads, options.rounds, options.threads]
    if (
        min(*numbers, *options.batch, *options.lengths, *options.tokens) < 1
        or options.dim % options.heads
    ):
        raise UsageError("sizes must be 1 or more, and --heads must divide --dim")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
