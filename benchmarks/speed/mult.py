"""A training step of MulT on unaligned streams, against dense attention and against MMSA's MULT.

Sizes are CMU-MOSEI's without alignment (text 50 x 300, audio 500 x 74, vision 500 x 35, the lengths
to which the published files are padded) and the settings the paper's. Ours: batches of items of
similar length, as the loader makes them with ``bucket=length``, trimmed to the longest. ``dense``:
the same model with explicit attention, on the same items padded to the full lengths. ``mmsa``: the
model class of the package MMSA on those padded items, as it trains. Targets: twice as fast as dense
attention with half its peak memory at most, and 1.5 times as fast as MMSA.

How long the items are is said in ``mult_batches``. A padded batch costs the same whatever is in
it, so few of them are timed, but all of ours; memory is that of our longest batch.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from ...models.attention.kernels import force_path
from ...models.mult import MulT, MultConfig
from ...models.streams import MODALITIES, Streams
from ..errors import UsageError
from .measure import Comparison, in_process, in_turns, peak_growth, seconds
from .mult_batches import Batch, Size, batches, draw_lengths, padded
from .report import as_json, parser, run_benchmark, save, show

OURS, DENSE, MMSA = "attnbench", "dense", "mmsa"
TARGETS = {DENSE: (2.0, 2.0), MMSA: (1.5, None)}
"""Ratios of time and of memory to reach, by peer."""


Work = Callable[[], object]


def mmsa_model(config: MultConfig) -> nn.Module:
    """MMSA's MULT with the same sizes and dropouts."""
    try:
        made = importlib.import_module("MMSA.models.singleTask.MULT").MULT
    except ImportError as error:
        raise UsageError(
            "the package MMSA isn't there: pip install 'attnbench[mmsa]', or compare with "
            "--peers dense alone"
        ) from error
    dropouts = {
        "attn_dropout": config.attention_dropout_text,
        "attn_dropout_a": config.attention_dropout_audio,
        "attn_dropout_v": config.attention_dropout_vision,
        "res_dropout": config.residual_dropout,
    }
    same = ("relu_dropout", "embed_dropout", "output_dropout", "text_dropout")
    kernels = {f"conv1d_kernel_size_{name[0]}": config.of("kernel", name) for name in MODALITIES}
    kernels["conv1d_kernel_size_l"] = kernels.pop("conv1d_kernel_size_t")
    model = made(
        argparse.Namespace(
            use_bert=False,
            dst_feature_dim_nheads=(config.dim, config.heads),
            feature_dims=tuple(config.dims[name] for name in MODALITIES),
            nlevels=config.crossmodal_layers,
            attn_mask=True,
            num_classes=1,
            train_mode="regression",
            **dropouts,
            **{name: getattr(config, name) for name in same},
            **kernels,
        )
    )
    ours = parameters(MulT(config))
    if parameters(model) != ours:
        raise UsageError(f"this MMSA's model has {parameters(model)} parameters, ours {ours}")
    return model


def parameters(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def predict(side: str, model: nn.Module, streams: Streams) -> Tensor:
    """Predictions (B, 1) of one side."""
    if side == MMSA:
        return model(*(streams.features[name] for name in MODALITIES))["M"]
    with force_path("explicit") if side == DENSE else contextlib.nullcontext():
        return model(streams).prediction_BO


def step(side: str, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """One update with the L1 loss."""
    streams, labels = batch
    optimizer.zero_grad()
    nn.functional.l1_loss(predict(side, model, streams), labels).backward()
    optimizer.step()


def worker(side: str, size: Size, chosen: Sequence[Batch]) -> Work:
    """A function that does one update on each of these batches."""
    torch.manual_seed(0)
    model = mmsa_model(size.config()) if side == MMSA else MulT(size.config())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def work() -> None:
        for batch in chosen:
            step(side, model, optimizer, batch)

    return work


def batches_of(side: str, size: Size) -> list[Batch]:
    """The batches that are timed: all of ours, some evenly spread padded ones of a peer."""
    made = batches(size)
    if side == OURS:
        return made
    number = min(size.padded, len(made))
    places = [len(made) * (2 * place + 1) // (2 * number) for place in range(number)]
    return [padded(made[place], size) for place in places]


def check_equal(size: Size) -> tuple[float, float]:
    """Largest relative difference of losses and of gradients between ours and dense.

    Without dropout, on the middle and the longest batch.

    Raises:
        RuntimeError: the two don't compute the same.
    """
    dropouts = [one.name for one in dataclasses.fields(MultConfig) if "dropout" in one.name]
    model = MulT(size.config(**dict.fromkeys(dropouts, 0.0)))
    made = batches(size)
    worst = [0.0, 0.0]
    for batch in (made[len(made) // 2], made[-1]):
        found = []
        for side, (streams, labels) in ((OURS, batch), (DENSE, padded(batch, size))):
            loss = nn.functional.l1_loss(predict(side, model, streams), labels)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            found.append((loss.detach(), gradients))
        (ours, our_gradients), (dense, dense_gradients) = found
        worst[0] = max(worst[0], float((ours - dense).abs() / dense.abs()))
        largest = max(float(gradient.abs().max()) for gradient in dense_gradients)
        for one, two in zip(our_gradients, dense_gradients, strict=True):
            worst[1] = max(worst[1], float((one - two).abs().max()) / largest)
    if max(worst) > 1e-3:
        raise RuntimeError(f"dense attention gives another loss or gradient: {worst} apart")
    return worst[0], worst[1]


def peak_of(side: str, size: Size) -> int:
    """Peak memory growth in bytes of one update on the longest batch; in a process of its own."""
    torch.set_num_threads(size.threads)
    tiny = dataclasses.replace(size, batch=2, items=2, text_steps=3, other_steps=4)
    largest = []
    for one in (tiny, size):
        last = batches(one)[-1]
        largest.append(worker(side, one, [last if side == OURS else padded(last, one)]))
    return peak_growth(*largest)


def cpu_seconds(work: Work) -> float:
    """CPU seconds of one call on all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(size: Size, peers: Sequence[str], rounds: int, clock: Callable[[Work], float]) -> Any:
    """Time and memory against each peer, all sides in turns."""
    ours = worker(OURS, size, mine := batches_of(OURS, size))
    rows = []
    for peer in peers:
        theirs = worker(peer, size, other := batches_of(peer, size))
        worker(OURS, size, mine[:1])()  # warm up
        sides = in_turns(rounds, partial(clock, ours), partial(clock, theirs))
        times = [
            [one / len(used) for one in side]
            for side, used in zip(sides, (mine, other), strict=True)
        ]
        memory = in_turns(
            max(1, rounds // 3),
            partial(in_process, peak_of, OURS, size),
            partial(in_process, peak_of, peer, size),
        )
        fast, small = TARGETS[peer]
        rows.append(Comparison(f"{peer}: time of an update", "s", *times, target=fast))
        rows.append(Comparison(f"{peer}: peak memory", "bytes", *memory, target=small))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    size = Size(**{one.name: getattr(options, one.name) for one in dataclasses.fields(Size)})
    if MMSA in options.peers:
        mmsa_model(size.config())
    loss, gradient = check_equal(size)
    rows = compare(
        size, options.peers, options.rounds, cpu_seconds if options.cpu_time else seconds
    )
    lengths = draw_lengths(size)
    real = ", ".join(
        f"{name} {mean(lengths[name].tolist()):.0f} of {size.steps(name)}" for name in MODALITIES
    )
    print(
        f"MulT, one update: batch {size.batch}, d={size.dim}, {size.heads} heads, {size.layers} "
        f"layers; mean steps {real}; {size.threads} threads, {options.rounds} turns, "
        f"{'CPU' if options.cpu_time else 'wall-clock'} time; without dropout ours and dense agree "
        f"to {loss:.1g} in the loss and {gradient:.1g} in gradients"
    )
    print(show(rows, "attnbench", "peer"))
    save(
        options.json,
        as_json("mult", vars(options), rows, largest_difference={"loss": loss, "grad": gradient}),
    )


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("mult", __doc__, rounds=3)
    sizes = {
        "batch": (16, "items a batch"),
        "items": (256, "items of our batches: one pool of the loader holds 16 batches"),
        "padded": (1, "batches of a peer that are timed in a turn"),
        "text_steps": (50, "steps that text is padded to"),
        "other_steps": (500, "steps that audio and vision are padded to"),
        "dim": (40, "model width"),
        "heads": (8, "attention heads"),
        "layers": (4, "layers of each Transformer"),
    }
    for name, (default, text) in sizes.items():
        option = f"--{name.replace('_', '-')}"
        made.add_argument(option, type=int, default=default, help=f"{text} ({default})")
    made.add_argument("--peers", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    made.add_argument("--cpu-time", action="store_true", help="for a machine that is busy")
    options = made.parse_args(arguments)
    numbers = [getattr(options, name) for name in sizes]
    if min(*numbers, options.rounds, options.threads) < 1 or options.dim % options.heads:
        raise UsageError("sizes must be 1 or more, and --heads must divide --dim")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
