"""Beam search with the same weights: our translation task against fairseq's generator.

A small Transformer is trained with ``fairseq-train`` for some hundred updates (or ``--checkpoint``
names one) and imported. Then both sides translate Multi30k's test_2016_flickr in turns, in one
process, with beam 4 and equal options and batch sizes; batches are collated beforehand and loading
is left out, as in fairseq-generate's own timing. The best hypotheses are compared one by one; where
they differ, both are scored anew in float64.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...datamodules.batch import TranslationBatch
from ...datamodules.translation import TranslationData
from ...datamodules.vocabulary import EOS
from ...models.checkpoint import load_tensors_and_options
from ...models.decoding import LengthPenalty
from ...models.fairseq_import import load_fairseq_checkpoint
from ...models.translator import Translator
from ...tasks.translation import TranslationTask
from ...tasks.translation_config import TranslationConfig
from ..errors import UsageError
from .fairseq_folder import binarised, need_fairseq, run_fairseq, scratch_folder
from .fairseq_train import Recipe
from .measure import Comparison, in_turns, seconds
from .report import as_json, parser, run_benchmark, save, show

Hypotheses = dict[int, tuple[int, ...]]
"""By line number: the best hypothesis, without the end symbol."""
TARGET = 1.5
TIE = 1e-5
"""Gap of scores below which float32's rounding decides."""
SHOWN = 10
"""Differences that are printed."""


@dataclass(frozen=True)
class Search:
    """How both sides search.

    Attributes:
        beam: beams.
        alpha: exponent of the length penalty ``power``.
        longest: most symbols of an output. One for all: fairseq's limits by source length hang
            on the longest source of the batch, ours never look at the other sentences.
        sentences: sentences a batch.
    """

    beam: int = 4
    alpha: float = 0.6
    longest: int = 60
    sentences: int = 64


@dataclass(frozen=True)
class Difference:
    """Two hypotheses of one sentence that differ.

    Attributes:
        line: line number from 0.
        ours, theirs: their scores under the length penalty, computed in float64.
    """

    line: int
    ours: float
    theirs: float

    @property
    def gap(self) -> float:
        """How much better our hypothesis is."""
        return self.ours - self.theirs


class Ours:
    """Our translation task with the imported weights."""

    def __init__(self, checkpoint: Path, folder: Path, search: Search) -> None:
        model_config, weights = load_fairseq_checkpoint(checkpoint)
        shared = TranslationConfig.model_fields.keys() & vars(model_config).keys()
        self.config = TranslationConfig(
            **{name: getattr(model_config, name) for name in shared},
            dataset="multi30k",
            root=folder,
            max_sentences=search.sentences,
            max_tokens=2**20,
            beam=search.beam,
            length_penalty="power",
            length_alpha=search.alpha,
            max_length_ratio=0.0,
            max_length_extra=search.longest,
        )
        sizes = model_config.source_vocabulary, model_config.target_vocabulary
        self.task = TranslationTask(self.config, *sizes).eval()
        self.task.model.load_state_dict(weights)
        self.batches = list(TranslationData(self.config).predict_dataloader("test"))

    def translate(self) -> Hypotheses:
        """Translate the test split."""
        said = self.task.translate_all(self.batches)
        return {line: tuple(tokens) for line, tokens in said.items()}


class Theirs:
    """fairseq's generator, prepared as ``fairseq-generate`` does."""

    def __init__(self, checkpoint: Path, folder: Path, search: Search) -> None:
        logging.disable(logging.INFO)  # fairseq and hydra tell everything, and set their own levels
        from fairseq import options, tasks  # type: ignore[import-not-found]
        from fairseq.dataclass.utils import (  # type: ignore[import-not-found]
            convert_namespace_to_omegaconf,
        )

        arguments = [
            str(folder),
            f"--path={checkpoint}",
            f"--beam={search.beam}",
            f"--lenpen={search.alpha}",
            "--max-len-a=0",
            f"--max-len-b={search.longest}",
            f"--batch-size={search.sentences}",
            "--cpu",
        ]
        parsed: Any = options.parse_args_and_arch(options.get_generation_parser(), arguments)
        config: Any = convert_namespace_to_omegaconf(parsed)
        self.task: Any = tasks.setup_task(config.task)
        # fairseq's own loading needs full unpickling, which torch refuses by default.
        stored = load_tensors_and_options(checkpoint)
        model = self.task.build_model(stored["cfg"]["model"])
        model.load_state_dict(stored["model"])
        model.eval()
        model.prepare_for_inference_(config)
        self.models = [model]
        self.task.load_dataset("test")
        self.generator: Any = self.task.build_generator(self.models, config.generation)
        iterator = self.task.get_batch_iterator(
            self.task.dataset("test"), max_sentences=search.sentences
        )
        self.samples = list(iterator.next_epoch_itr(shuffle=False))
        logging.disable(logging.NOTSET)

    def translate(self) -> Hypotheses:
        """Translate the test split."""
        said: Hypotheses = {}
        for sample in self.samples:
            found = self.task.inference_step(self.generator, self.models, sample)
            for line, best in zip(sample["id"].tolist(), found, strict=True):
                said[line] = tuple(best[0]["tokens"].tolist()[:-1])
        return said


def timed(side: Ours | Theirs, kept: list[Hypotheses]) -> float:
    """Sentences a second of one pass; the hypotheses are appended to ``kept``."""
    spent = seconds(lambda: kept.append(side.translate()))
    return len(kept[-1]) / spent


def differences(ours: Ours, mine: Hypotheses, theirs: Hypotheses) -> list[Difference]:
    """The sentences whose hypotheses differ, both scored by our model in float64."""
    lines = {line for line in mine if mine[line] != theirs[line]}
    score = scorer(ours)
    found = []
    for batch in ours.batches:
        for row, line in enumerate(batch.index_B.tolist()):
            if line in lines:
                pair = [score(batch, row, said[line]) for said in (mine, theirs)]
                found.append(Difference(line, *pair))
    return sorted(found, key=lambda one: one.line)


def scorer(ours: Ours) -> Callable[[TranslationBatch, int, Sequence[int]], float]:
    """A function that scores a hypothesis of one row of a batch, in float64."""
    model = Translator(ours.task.model.config).double().eval()
    model.load_state_dict(ours.task.model.state_dict())
    penalty = LengthPenalty(ours.config.length_penalty, ours.config.length_alpha)

    @torch.no_grad()
    def score(batch: TranslationBatch, row: int, tokens: Sequence[int]) -> float:
        source_1S = batch.source_BS[row][batch.source_valid_BS[row]][None]
        output_T1 = torch.tensor([*tokens, EOS])[:, None]
        input_1T = torch.tensor([[EOS, *tokens]])
        valid_1S = torch.ones_like(source_1S, dtype=torch.bool)
        logits_TV: Tensor = model(source_1S, valid_1S, input_1T)[0]
        total = logits_TV.log_softmax(-1).gather(1, output_T1).sum()
        return penalty.score(float(total), len(output_T1))

    return score


def explain(found: Sequence[Difference], total: int) -> str:
    """How many hypotheses are equal, and what is known about each of the others."""
    lines = [f"{total - len(found)} of {total} hypotheses are equal"]
    for one in found[:SHOWN]:
        better = "ours" if one.gap > 0 else "theirs"
        why = f"{better} is better" if abs(one.gap) > TIE else "a tie within float32's rounding"
        lines.append(
            f"  line {one.line + 1}: score {one.ours:.6f} ours, {one.theirs:.6f} theirs, "
            f"gap {one.gap:+.2g}: {why}"
        )
    if len(found) > SHOWN:
        lines.append(f"  and {len(found) - SHOWN} more, all in the JSON file")
    return "\n".join(lines)


def trained(recipe: Recipe, scratch: Path) -> Path:
    """A checkpoint of ``fairseq-train``; one that was trained before is used again."""
    name = f"checkpoint.{recipe.layers}x{recipe.dim}x{recipe.heads}.{recipe.updates}"
    folder = scratch / name
    path = folder / "checkpoint_last.pt"
    if not path.is_file():
        quick = ["--lr=2e-3", f"--warmup-updates={max(1, recipe.updates // 3)}"]
        saving = [f"--save-dir={folder}", "--no-epoch-checkpoints"]
        run_fairseq("train", [*recipe.theirs(), *quick, *saving], recipe.threads)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, compare the hypotheses, print the table, write the JSON file."""
    options = _options(arguments)
    need_fairseq()
    torch.set_num_threads(options.threads)
    search = Search(options.beam, sentences=options.sentences)
    with scratch_folder(options.scratch) as scratch:
        folder = binarised(options.root, scratch, options.vocabulary_size)
        recipe = _recipe(options, folder)
        checkpoint = options.checkpoint or trained(recipe, scratch)
        sides = Ours(checkpoint, folder, search), Theirs(checkpoint, folder, search)
        kept: tuple[list[Hypotheses], list[Hypotheses]] = ([], [])
        rates = in_turns(
            options.rounds, *(partial(timed, side, k) for side, k in zip(sides, kept, strict=True))
        )
        mine, other = kept[0][-1], kept[1][-1]
        if mine.keys() != other.keys():
            raise UsageError("the two sides translated different sentences")
        found = differences(sides[0], mine, other)
    words = sum(map(len, mine.values())) / len(mine)
    print(
        f"{len(mine)} sentences of test_2016_flickr, beam {search.beam}, length penalty power "
        f"{search.alpha}, {search.sentences} sentences a batch, {options.threads} threads, "
        f"{options.rounds} turns; {words:.1f} tokens a hypothesis"
    )
    rows = [Comparison("generation", "sentences/s", *rates, target=TARGET)]
    print(show(rows, "attnbench", "fairseq"))
    print(explain(found, len(mine)))
    save(
        options.json,
        as_json(
            "fairseq_generate",
            vars(options),
            rows,
            sentences=len(mine),
            different=[{**vars(one), "gap": one.gap} for one in found],
        ),
    )


def _recipe(options: Any, folder: Path) -> Recipe:
    dim = options.dim
    made = Recipe(folder, 2048, options.heads, options.layers, dim, 4 * dim, 0, 0, options.threads)
    return replace(made, updates=options.updates)


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("fairseq_generate", __doc__, rounds=3)
    made.add_argument("--root", type=Path, help="folder of Multi30k's text")
    made.add_argument("--scratch", type=Path, help="keep prepared files there for another run")
    made.add_argument("--checkpoint", type=Path, help="a .pt of fairseq-train on the same folder")
    made.add_argument("--updates", type=int, default=400, help="updates to train without one (400)")
    made.add_argument("--vocabulary-size", type=int, default=8000, help="joint subwords (8000)")
    made.add_argument("--layers", type=int, default=3, help="of encoder and of decoder (3)")
    made.add_argument("--dim", type=int, default=256, help="model width (256)")
    made.add_argument("--heads", type=int, default=8, help="attention heads (8)")
    made.add_argument("--beam", type=int, default=4, help="beams (4)")
    made.add_argument("--sentences", type=int, default=64, help="sentences a batch (64)")
    return made.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
