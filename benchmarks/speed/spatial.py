"""The terms on feature maps against mmcv's GeneralizedAttention, forward and backward.

Both are whole residual modules, (B, C, H, W) to (B, C, H, W) with a learnt gate, on the maps of
conv4 and conv5 at 800 x 1333. First both get the same weights and must give the same outputs and
gradients. Of mmcv's sixteen types four are wrong where a map isn't square (0100, 0110, 1100 and
1110) and 0000 averages all cells, which is not "no attention"; the other eleven are compared.
Targets, as shares of mmcv's: with E1, E2 or E4 0.55 of the time and 0.35 of the memory, with E3
alone 1.0 of both. And ``terms(1111)`` may take 3 times as long as ``dot``.

Times are taken in turns in this process; memory is the growth at its peak, each side in a fresh
process: of resident memory, or of what torch has allocated on a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...models.attention.terms import TermsAttention
from ...models.layers.spatial import Grids, SpatialAttention, build_spatial
from ..errors import UsageError
from ..peak import peak_bytes, reset_peak
from .geometry import cpu_seconds
from .measure import Comparison, calls_for, in_tidy_process, in_turns, peak_growth, seconds
from .report import as_json, parser, run_benchmark, save, show

MMCV, DOT = "mmcv", "dot"
ROWS = ["0001", "0010", "0011", "0101", "0111", "1000", "1001", "1010", "1011", "1101", "1111"]
"""Types of mmcv's that are right on any map, and are attention."""

BASE = 1000.0
"""mmcv's longest wavelength over 2 pi."""

TIME, MEMORY, KEY_ONLY, AGAINST_DOT = 0.55, 0.35, 1.0, 3.0
"""At most these shares of the other side's."""

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Size:
    """Sizes of one measurement: images B, map, stride of the keys, heads H, width C; where."""

    batch: int
    height: int
    width: int
    key_stride: int
    heads: int
    dim: int
    threads: int
    device: str

    def input(self) -> Tensor:
        """The map, (B, C, H, W)."""
        shape = (self.batch, self.dim, self.height, self.width)
        return torch.randn(shape, device=self.device).requires_grad_()


def ours(spec: str, size: Size) -> SpatialAttention:
    """Our module of a spec."""
    module = build_spatial(spec, size.dim, heads=size.heads, key_stride=size.key_stride, gate="one")
    if module is None:
        raise UsageError(f"{spec} is no attention")
    return module.to(size.device)


def mmcvs(bits: str, size: Size) -> nn.Module:
    """mmcv's module, with its gate open."""
    try:
        made = importlib.import_module("mmcv.cnn.bricks").GeneralizedAttention
    except ImportError as error:
        raise UsageError(
            "the package mmcv-lite isn't there: pip install 'attnbench[mmcv]'"
        ) from error
    module = made(size.dim, num_heads=size.heads, kv_stride=size.key_stride, attention_type=bits)
    nn.init.ones_(module.gamma)
    return module.to(size.device)


def spec_of(bits: str) -> str:
    """Our spec of one of mmcv's types: energies without a divisor, and its wavelengths."""
    return f"terms({bits},scale=false,base={BASE:g})"


def callee(side: str, bits: str, size: Size) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """The function from map to map of a side, and the module that holds its parameters."""
    torch.manual_seed(0)
    if side == MMCV:
        module = mmcvs(bits, size)
        return module, module
    module = ours(DOT if side == DOT else spec_of(bits), size)
    return partial(module, grids=Grids()), module


def step(call: Callable[[Tensor], Tensor], module: nn.Module, x_BCHW: Tensor) -> list[Tensor]:
    """One forward and backward pass: the output, then the gradients of input and parameters."""
    y_BCHW = call(x_BCHW)
    wanted = [x_BCHW, *module.parameters()]
    found = [y_BCHW.detach(), *torch.autograd.grad(y_BCHW.square().mean(), wanted)]
    if x_BCHW.is_cuda:
        torch.cuda.synchronize(x_BCHW.device)
    return found


def worker(side: str, bits: str, size: Size) -> Callable[[], object]:
    """A function that does one step of a side."""
    return partial(step, *callee(side, bits, size), size.input())


def paired(attention: TermsAttention, theirs: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """Our parameters and what they are in terms of mmcv's, by our names.

    mmcv takes query minus key, so its sines have the other sign.
    """
    named = dict(theirs.named_parameters())
    shape = (attention.heads, attention.head_dim)
    values = {
        f"{name}_proj.weight": named[f"{name}_conv.weight"].flatten(1)
        for name in ("query", "key", "value")
        if f"{name}_conv.weight" in named
    }
    values["out_proj.weight"] = named["proj_conv.weight"].flatten(1)
    values["out_proj.bias"] = named["proj_conv.bias"]
    for mine, other in (("content_bias_HE", "appr_bias"), ("relative_bias_HE", "geom_bias")):
        if other in named:
            values[mine] = named[other].reshape(shape)
    if "appr_geom_fc_x.weight" in named:
        both = [named[f"appr_geom_fc_{axis}.weight"] for axis in "xy"]
        sign = torch.ones(both[0].shape[1], device=both[0].device)
        sign[: len(sign) // 2] = -1
        values["relative_proj.weight"] = torch.cat([one * sign for one in both], 1)
    mine = dict(attention.named_parameters())
    if mine.keys() != values.keys():
        raise RuntimeError(f"parameters differ: {sorted(mine.keys() ^ values.keys())}")
    return {name: (mine[name], value) for name, value in values.items()}


def check_equal(bits: str, size: Size) -> float:
    """The largest difference of output and gradients, relative to each tensor's largest value.

    Raises:
        RuntimeError: the sides don't compute the same.
    """
    (our_call, our_module), (their_call, their_module) = (
        callee(side, bits, size) for side in (spec_of(bits), MMCV)
    )
    assert isinstance(our_module, SpatialAttention)
    attention = our_module.attention
    assert isinstance(attention, TermsAttention)
    pairs = paired(attention, their_module)
    with torch.no_grad():
        for mine, value in pairs.values():
            mine.copy_(value)
    x_BCHW = size.input()
    mine = step(our_call, our_module, x_BCHW)
    other = step(their_call, their_module, x_BCHW)
    worst = max(apart(mine[place], other[place]) for place in (0, 1))
    # Their gradients follow from ours by the chain rule through ``paired``.
    gradients = {id(p): g for p, g in zip(our_module.parameters(), mine[2:], strict=True)}
    values = [value for _, value in pairs.values()]
    upstream = [gradients[id(parameter)] for parameter, _ in pairs.values()]
    named = [(p, g) for p, g in zip(their_module.parameters(), other[2:], strict=True)]
    derived = torch.autograd.grad(values, [p for p, _ in named], upstream, allow_unused=True)
    for found, (parameter, expected) in zip(derived, named, strict=True):
        if found is None:  # the gate
            assert our_module.gate is not None and parameter.shape == our_module.gate.shape
            found = gradients[id(our_module.gate)]
        worst = max(worst, apart(found, expected))
    if worst > TOLERANCE:
        raise RuntimeError(f"{bits}: mmcv gives other values: {worst:.2g} apart")
    return worst


def apart(mine: Tensor, other: Tensor) -> float:
    """The largest difference relative to the largest value."""
    return float((mine - other).abs().max() / other.abs().max().clamp_min(1e-12))


def peak_of(side: str, bits: str, size: Size) -> int:
    """Peak memory growth in bytes of one step, at least one page, in a fresh process."""
    return max(in_tidy_process(_peak_here, side, bits, size), mmap.PAGESIZE)


def _peak_here(side: str, bits: str, size: Size) -> int:
    torch.set_num_threads(size.threads)
    small = worker(side, bits, replace(size, batch=1, height=3, width=5))
    full = worker(side, bits, size)
    device = torch.device(size.device)
    if device.type != "cuda":
        return peak_growth(small, full)
    small()
    reset_peak(device)
    before = torch.cuda.memory_allocated(device)
    full()
    return peak_bytes(device) - before


def compare(
    side: str, bits: str, size: Size, rounds: int, clock: Callable[..., float]
) -> list[Comparison]:
    """Time, and against mmcv memory."""
    mine, other = worker(spec_of(bits), bits, size), worker(side, bits, size)
    times = calls_for(mine, 0.2)
    other()
    pair = in_turns(rounds, partial(clock, mine, times), partial(clock, other, times))
    what = f"{bits}, {size.height}x{size.width}, key stride {size.key_stride}"
    if side == DOT:
        return [row(f"{what}: time | dot", "s", pair, AGAINST_DOT)]
    peaks = in_turns(
        max(1, rounds // 3),
        partial(peak_of, spec_of(bits), bits, size),
        partial(peak_of, side, bits, size),
    )
    only = bits == "0010"
    return [
        row(f"{what}: time", "s", pair, KEY_ONLY if only else TIME),
        row(f"{what}: memory", "bytes", peaks, KEY_ONLY if only else MEMORY),
    ]


def row(
    what: str, unit: str, pair: tuple[Sequence[float], Sequence[float]], share: float
) -> Comparison:
    """A comparison that wants at most ``share`` of the other side's."""
    found = Comparison(what, unit, *pair, target=round(1 / share, 2))
    return replace(found, note=f"{1 / found.ratio:.2f} of theirs, at most {share:g} wanted")


def main(arguments: Sequence[str] | None = None) -> None:
    """Check, measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    clock = cpu_seconds if options.cpu_time else seconds
    rows: list[Comparison] = []
    worst = 0.0
    common = (options.heads, options.dim, options.threads, options.device)
    for height, width in options.maps:
        for stride in options.strides:
            size = Size(options.batch, height, width, stride, *common)
            for bits in options.rows:
                worst = max(worst, check_equal(bits, size))
                found = compare(MMCV, bits, size, options.rounds, clock)
                if bits == "1111":
                    found += compare(DOT, bits, size, options.rounds, clock)
                for one in found:  # the whole takes long
                    print(f"{one.what}: {one.note}", file=sys.stderr, flush=True)
                rows += found
    print(
        f"attention on maps, forward and backward: batch {options.batch}, {options.heads} heads, "
        f"C={options.dim}, {options.device}, {options.threads} threads, {options.rounds} turns, "
        f"{'CPU' if options.cpu_time else 'wall-clock'} time; values and gradients agree to "
        f"{worst:.1g}"
    )
    print(show(rows, "attnbench", "mmcv"))
    save(options.json, as_json("spatial", vars(options), rows, largest_difference=worst))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("spatial", __doc__, rounds=3)
    made.add_argument("--rows", nargs="+", default=ROWS, help=f"types ({' '.join(ROWS)})")
    made.add_argument(
        "--maps", type=_map, nargs="+", default=[(25, 42), (50, 84)], help="(25x42 50x84)"
    )
    made.add_argument("--strides", type=int, nargs="+", default=[1, 2], help="of the keys (1 2)")
    made.add_argument("--batch", type=int, default=1, help="images (1)")
    made.add_argument("--heads", type=int, default=8, help="attention heads (8)")
    made.add_argument("--dim", type=int, default=256, help="channels (256)")
    made.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    made.add_argument("--cpu-time", action="store_true", help="for a CPU that is busy")
    options: argparse.Namespace = made.parse_args(arguments)
    numbers = [options.batch, options.heads, options.rounds, options.threads, *options.strides]
    if min(*numbers, *(side for one in options.maps for side in one)) < 1:
        raise UsageError("sizes, strides and turns must be 1 or more")
    if options.dim < 4 or options.dim % 4 or options.dim % options.heads:
        raise UsageError("--heads and 4 must divide --dim")
    if unknown := sorted(set(options.rows) - set(ROWS)):
        raise UsageError(f"{unknown[0]} can't be compared with mmcv: choose from {' '.join(ROWS)}")
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"there is no GPU for --device {options.device}: leave it out")
    if device.type == "cuda" and options.cpu_time:
        raise UsageError("--cpu-time is for CPUs: leave it out")
    return options


def _map(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    try:
        return int(height), int(width)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no map such as 25x42") from None


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
