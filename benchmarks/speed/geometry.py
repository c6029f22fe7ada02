"""An encoder layer that is aware of boxes against the plain one, forward and backward.

Both are whole layers of the captioner (self-attention, feed-forward network, norms, dropout) on
the same regions; the relations between the boxes are made anew for every call, which a model does
once a batch. Targets: at most 1.6 times the plain layer's time, and at most one tensor of
batch x regions x regions x geometry_dim numbers more at the peak of memory. The plain layer of
``ngsa`` is ``nsa``, that of the others ``dot``. Times are taken in turns in this process; memory is
the growth of resident memory at its peak, each side in a fresh process that gives every tensor
back to the system when it is done with it.
"""

from __future__ import annotations

import argparse
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...models.attention import AttentionMask, Boxes, build_attention, traits_of
from ...models.attention.gsa import GeometryAttention, NormalisedGeometryAttention
from ...models.layers import EncoderLayer, FeedForward
from ..errors import UsageError
from .measure import Comparison, calls_for, in_tidy_process, in_turns, peak_growth, seconds
from .report import as_json, parser, run_benchmark, save, show

SPECS = ("gsa(query)", "gsa(key)", "gsa(content)", "gsa(query+key)", "ngsa(query)", "relation")
SLOWDOWN = 1.6
"""At most so many times the plain layer's time."""


@dataclass(frozen=True)
class Size:
    """Sizes of one measurement: images B, regions N, heads H, width D, CPU threads."""

    batch: int
    regions: int
    heads: int
    dim: int
    threads: int


def step(layer: EncoderLayer, x_BND: Tensor, boxes_BN4: Tensor, valid_BN: Tensor) -> list[Tensor]:
    """One forward and backward pass: the output and all gradients."""
    y_BND = layer(x_BND, Boxes(boxes_BN4, valid_BN), AttentionMask(valid_BN))
    inputs = [x_BND, *layer.parameters()]
    return [y_BND.detach(), *torch.autograd.grad(y_BND.square().mean(), inputs)]


def worker(spec: str, size: Size) -> Callable[[], object]:
    """A function that does one step of a layer at this size; a third of the regions is padding
    in every second image."""
    torch.manual_seed(0)
    attention = build_attention(spec, dim=size.dim, heads=size.heads)
    layer = EncoderLayer(attention, FeedForward(size.dim, 4 * size.dim), 0.1, False)
    x_BND = torch.randn(size.batch, size.regions, size.dim, requires_grad=True)
    corners = 500 * torch.rand(size.batch, size.regions, 2)
    boxes_BN4 = torch.cat([corners, corners + 1 + 100 * torch.rand_like(corners)], -1)
    valid_BN = torch.ones(size.batch, size.regions, dtype=torch.bool)
    valid_BN[1::2, size.regions - size.regions // 3 :] = False
    return partial(step, layer, x_BND, boxes_BN4, valid_BN)


def embedding_bytes(spec: str, size: Size) -> int:
    """Bytes of one embedding of all pairs of boxes, (B, N, N, G), in float32."""
    with torch.device("meta"):
        attention = build_attention(spec, dim=size.dim, heads=size.heads)
    geometry = (
        attention.geometry.geometry_dim
        if isinstance(attention, GeometryAttention | NormalisedGeometryAttention)
        else getattr(attention, "geometry_dim", 64)
    )
    return 4 * size.batch * size.regions**2 * geometry


def plain_of(spec: str) -> str:
    """The spec of the same layer without geometry."""
    return "nsa" if spec.startswith("ngsa") else "dot"


def peak_of(spec: str, size: Size) -> int:
    """Peak memory growth in bytes of one step, measured in a fresh process."""
    return in_tidy_process(_peak_here, spec, size)


def _peak_here(spec: str, size: Size) -> int:
    torch.set_num_threads(size.threads)
    small = Size(1, 4, size.heads, size.dim, size.threads)
    return peak_growth(worker(spec, small), worker(spec, size))


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """CPU seconds of one call on all threads: other work on the machine hardly counts."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def compare(spec: str, size: Size, rounds: int, clock: Callable[..., float]) -> list[Comparison]:
    """Time and memory of one spec against the plain layer."""
    other = plain_of(spec)
    aware, plain = worker(spec, size), worker(other, size)
    times = calls_for(plain, 0.3)
    aware()
    pair = in_turns(rounds, partial(clock, aware, times), partial(clock, plain, times))
    row = Comparison(f"{spec}: time", "s", *pair, target=1 / SLOWDOWN)
    note = f"{1 / row.ratio:.2f} times the plain layer's, at most {SLOWDOWN} wanted"
    rows = [Comparison(row.what, row.unit, row.ours, row.theirs, row.target, note)]
    peaks = in_turns(
        max(1, rounds // 3),
        partial(peak_of, spec, size),
        partial(peak_of, other, size),
    )
    more = [max(one - two, mmap.PAGESIZE) for one, two in zip(*peaks, strict=True)]
    one_tensor = [embedding_bytes(spec, size)] * len(more)
    note = "more than the plain layer | one embedding of all pairs"
    return [*rows, Comparison(f"{spec}: memory", "bytes", more, one_tensor, 1.0, note)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    size = Size(options.batch, options.regions, options.heads, options.dim, options.threads)
    clock = cpu_seconds if options.cpu_time else seconds
    rows = [row for spec in options.specs for row in compare(spec, size, options.rounds, clock)]
    print(
        f"encoder layer, forward and backward: {size.regions} regions, batch {size.batch}, "
        f"{size.heads} heads, d={size.dim}, {size.threads} threads, {options.rounds} turns, "
        f"{'CPU' if options.cpu_time else 'wall-clock'} time"
    )
    print(show(rows, "with boxes", "without"))
    save(options.json, as_json("geometry", vars(options), rows))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("geometry", __doc__, rounds=5)
    made.add_argument("--batch", type=int, default=50, help="images (50)")
    made.add_argument("--regions", type=int, default=36, help="regions an image (36)")
    made.add_argument("--heads", type=int, default=8, help="attention heads (8)")
    made.add_argument("--dim", type=int, default=512, help="model width (512)")
    made.add_argument("--specs", nargs="+", default=SPECS, help=f"({' '.join(SPECS)})")
    made.add_argument("--cpu-time", action="store_true", help="for a machine that is busy")
    options: argparse.Namespace = made.parse_args(arguments)
    numbers = [options.batch, options.regions, options.heads, options.dim]
    if min(*numbers, options.rounds, options.threads) < 1 or options.dim % options.heads:
        raise UsageError("sizes must be 1 or more, and --heads must divide --dim")
    for spec in options.specs:
        if Boxes.name not in traits_of(spec).geometry:
            raise UsageError(f"{spec} reads no boxes: name specs such as {', '.join(SPECS)}")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
