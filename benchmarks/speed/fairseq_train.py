"""Training a Transformer on Multi30k: our Trainer against ``fairseq-train``.

Both read the same binarised folder: 3 + 3 layers of width 256 with feed-forward 1024, shared
embeddings, sinusoidal positions, dropout and label smoothing 0.1, Adam, fp32, batches bounded by
the same number of padded tokens. Each side trains in a process of its own, in turns. What is
compared is the rate of real target tokens (padding left out, the end symbol included), by the wall
clock from the end of the warm-up updates to the last one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import torch

from ...tasks.registry import TASKS
from .fairseq_folder import (
    LANGUAGES,
    binarised,
    check_exit,
    fairseq_process,
    need_fairseq,
    scratch_folder,
)
from .measure import Comparison, in_process, in_turns
from .report import as_json, parser, run_benchmark, save, show

LOG_EVERY = 5
"""Updates between two lines of fairseq's log."""


@dataclass(frozen=True)
class Recipe:
    """What both sides train, and how long.

    Attributes:
        folder: binarised data.
        max_tokens: bound on sentences times the longest side in a batch.
        heads, layers, dim, ffn_dim: sizes; layers of encoder and of decoder.
        warmup, updates: updates before the clock starts, and while it runs; multiples of 5.
        threads: CPU threads.
    """

    folder: Path
    max_tokens: int
    heads: int
    layers: int
    dim: int
    ffn_dim: int
    warmup: int
    updates: int
    threads: int

    def ours(self) -> dict[str, Any]:
        """As settings of the translation task."""
        sites = dict.fromkeys(("encoder_self", "decoder_self", "cross"), "dot")
        return {
            **sites,
            "dataset": "multi30k",
            "root": self.folder,
            "positions": "sinusoidal-fairseq",
            "max_tokens": self.max_tokens,
            "heads": self.heads,
            "encoder_layers": self.layers,
            "decoder_layers": self.layers,
            "dim": self.dim,
            "ffn_dim": self.ffn_dim,
            "max_steps": self.warmup + self.updates,
            "learning_rate": 5e-4,
            "warmup_steps": 4000,
            "adam_beta2": 0.98,
            "adam_epsilon": 1e-8,
        }

    def theirs(self) -> list[str]:
        """As options of ``fairseq-train``."""
        sides = [
            f"--{side}-{option}={value}"
            for side in ("encoder", "decoder")
            for option, value in (
                ("embed-dim", self.dim),
                ("ffn-embed-dim", self.ffn_dim),
                ("layers", self.layers),
                ("attention-heads", self.heads),
            )
        ]
        return [
            str(self.folder),
            f"--source-lang={LANGUAGES[0]}",
            f"--target-lang={LANGUAGES[1]}",
            "--arch=transformer",
            *sides,
            "--share-all-embeddings",
            "--dropout=0.1",
            "--criterion=label_smoothed_cross_entropy",
            "--label-smoothing=0.1",
            "--optimizer=adam",
            "--adam-betas=(0.9, 0.98)",
            "--lr=5e-4",
            "--lr-scheduler=inverse_sqrt",
            "--warmup-updates=4000",
            f"--max-tokens={self.max_tokens}",
            f"--max-update={self.warmup + self.updates}",
            "--cpu",
            "--disable-validation",
            "--log-format=json",
            f"--log-interval={LOG_EVERY}",
        ]


@dataclass(frozen=True)
class Run:
    """One side's turn, after the warm-up.

    Attributes:
        tokens: target tokens.
        seconds: by the wall clock.
        cpu_seconds: processor time of the training process, its data workers left out; nan where
            the system doesn't tell.
        reported: target tokens a second as the program itself says, if it does.
    """

    tokens: float
    seconds: float
    cpu_seconds: float
    reported: float = math.nan

    @property
    def rate(self) -> float:
        """Target tokens a second."""
        return self.tokens / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Target tokens a second of processor time."""
        return self.tokens / self.cpu_seconds


class Moment(NamedTuple):
    """A reading of the wall clock and of a process's processor time, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, process: int) -> Moment:
        """Now, for another process."""
        cpu = math.nan
        with contextlib.suppress(OSError):  # Linux: user and system time, in clock ticks
            text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
            ticks = text.rpartition(")")[2].split()[11:13]
            cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), cpu)


class Stopwatch(lightning.Callback):
    """Counts target tokens and wall-clock time of the updates after the warm-up."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.tokens = 0
        self.start = self.stop = Moment(0.0, 0.0)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Called after each update."""
        self.stop = Moment(time.perf_counter(), time.process_time())
        if trainer.global_step == self.warmup:
            self.start = self.stop
        elif trainer.global_step > self.warmup:
            self.tokens += batch.tokens


def train_ours(recipe: Recipe) -> Run:
    """Train with Lightning; run it in a process of its own."""
    torch.set_num_threads(recipe.threads)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    entry = TASKS["translation"]
    config = entry.config(**recipe.ours())
    data = entry.data(config)
    task = entry.build(config, data)
    watch = Stopwatch(recipe.warmup)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=recipe.warmup + recipe.updates,
        limit_val_batches=0,
        use_distributed_sampler=False,
        callbacks=[watch],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data)
    return run_between(watch.start, watch.stop, watch.tokens)


def train_theirs(recipe: Recipe) -> Run:
    """Train with ``fairseq-train``, reading its log as it comes.

    Raises:
        UsageError: it failed.
    """
    lines: list[str] = []
    stamps: dict[int, Moment] = {}
    logged: list[dict[str, str]] = []
    arguments = [*recipe.theirs(), "--no-save"]
    with fairseq_process("train", arguments, recipe.threads) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            entry = log_entry(line)
            if entry is not None:
                stamps[int(entry["num_updates"])] = Moment.of(process.pid)
                logged.append(entry)
        check_exit("train", process.wait(), lines)
    return run_of_log(logged, stamps, recipe)


def log_entry(line: str) -> dict[str, str] | None:
    """The values of one line of fairseq's JSON training log; None for any other line."""
    _, mark, text = line.partition("| train_inner | ")
    return json.loads(text) if mark else None


def run_of_log(logged: Sequence[dict[str, str]], stamps: dict[int, Moment], recipe: Recipe) -> Run:
    """Sum up fairseq's log: tokens a batch (wpb) are means over ``LOG_EVERY`` updates."""
    first, last = recipe.warmup, recipe.warmup + recipe.updates
    used = [entry for entry in logged if first < int(entry["num_updates"]) <= last]
    tokens = [float(entry["wpb"]) * LOG_EVERY for entry in used]
    reported = sum(part / float(entry["wps"]) for part, entry in zip(tokens, used, strict=True))
    return run_between(stamps[first], stamps[last], sum(tokens), sum(tokens) / reported)


def run_between(start: Moment, stop: Moment, tokens: float, reported: float = math.nan) -> Run:
    """The turn between two moments."""
    return Run(tokens, stop.wall - start.wall, stop.cpu - start.cpu, reported)


def compare(ours: Sequence[Run], theirs: Sequence[Run]) -> list[Comparison]:
    """The rows of the table; only the first one has a target."""
    rates = [[run.rate for run in side] for side in (ours, theirs)]
    per_cpu = [[run.cpu_rate for run in side] for side in (ours, theirs)]
    reported = [run.reported for run in theirs]
    unit = "target tokens/s"
    return [
        Comparison("training, wall clock", unit, rates[0], rates[1], target=1.0),
        Comparison(
            "training, processor time", unit, per_cpu[0], per_cpu[1], note="tells on a busy machine"
        ),
        Comparison("training, fairseq's own figure", unit, rates[0], reported),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    need_fairseq()
    with scratch_folder(options.scratch) as scratch:
        recipe = Recipe(
            folder=binarised(options.root, scratch, options.vocabulary_size),
            max_tokens=options.max_tokens,
            heads=options.heads,
            layers=options.layers,
            dim=options.dim,
            ffn_dim=4 * options.dim,
            warmup=LOG_EVERY * max(1, options.warmup // LOG_EVERY),
            updates=LOG_EVERY * max(1, options.updates // LOG_EVERY),
            threads=options.threads,
        )
        ours, theirs = in_turns(
            options.rounds,
            partial(in_process, train_ours, recipe),
            partial(train_theirs, recipe),
        )
    rows = compare(ours, theirs)
    sizes = [f"{side[0].tokens / recipe.updates:.0f}" for side in (ours, theirs)]
    print(
        f"{recipe.layers}+{recipe.layers} layers, d={recipe.dim}, ffn {recipe.ffn_dim}, "
        f"{recipe.heads} heads, vocabulary {options.vocabulary_size}, max_tokens "
        f"{recipe.max_tokens}, {recipe.threads} threads; {recipe.updates} updates after "
        f"{recipe.warmup} of warm-up, {options.rounds} turns; target tokens an update: "
        f"{sizes[0]} ours, {sizes[1]} theirs"
    )
    print(show(rows, "attnbench", "fairseq-train"))
    save(options.json, as_json("fairseq_train", vars(options), rows))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("fairseq_train", __doc__, rounds=3)
    made.add_argument("--root", type=Path, help="folder of Multi30k's text")
    made.add_argument("--scratch", type=Path, help="keep prepared files there for another run")
    made.add_argument("--max-tokens", type=int, default=2048, help="padded tokens a batch (2048)")
    made.add_argument("--vocabulary-size", type=int, default=8000, help="joint subwords (8000)")
    made.add_argument("--layers", type=int, default=3, help="of encoder and of decoder (3)")
    made.add_argument("--dim", type=int, default=256, help="model width (256)")
    made.add_argument("--heads", type=int, default=8, help="attention heads (8)")
    made.add_argument("--warmup", type=int, default=10, help="updates before the clock (10)")
    made.add_argument("--updates", type=int, default=40, help="updates on the clock (40)")
    return made.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
