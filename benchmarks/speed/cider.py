"""CIDEr-D of one step of self-critical training, against pycocoevalcap's scorer.

Both sides get the same real captions as word ids with the end (0) as a word, the same document
frequencies, and must give the same scores before anything is measured. A step is 64 images with
6 hypotheses each; ours are references whose words were exchanged at random. Our references are
prepared once a data set, as training does; pycocoevalcap makes their vectors anew for every
hypothesis. A further line counts our preparing in. Times are taken in turns in this process.
"""

from __future__ import annotations

import argparse
import importlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...datamodules.caption_coco import read_coco
from ...tasks.metrics.captions import CiderDScorer, DocumentFrequencies, ptb_tokenize
from ..errors import UsageError
from .measure import Comparison, calls_for, in_turns, seconds
from .report import as_json, parser, run_benchmark, save, show

TARGET = 20.0
END = 0
SHARED = "../shared/data/captioning/coco_val2017/annotations/captions_val2017.json"

Ids = list[int]


@dataclass(frozen=True)
class Step:
    """What one step scores.

    Attributes:
        references: of each image of the data set, without the end.
        hypotheses: with the end.
        images: the image of each hypothesis.
    """

    references: list[list[Ids]]
    hypotheses: list[Ids]
    images: np.ndarray[Any, np.dtype[np.int64]]


def make_step(
    references: list[list[Ids]], words: int, images: int, samples: int, seed: int = 0
) -> Step:
    """Choose images and make hypotheses: a reference with a third of its words exchanged."""
    rng = np.random.default_rng(seed)
    index = np.repeat(rng.choice(len(references), images, replace=False), samples)
    hypotheses = []
    for image in index.tolist():
        caption = np.array(references[image][rng.integers(len(references[image]))])
        exchanged = rng.random(len(caption)) < 1 / 3
        caption[exchanged] = rng.integers(1, words + 1, int(exchanged.sum()))
        hypotheses.append([*caption.tolist(), END])
    return Step(references, hypotheses, index)


def read_references(path: Path, captions: int) -> tuple[list[list[Ids]], int]:
    """PTB tokens of each image's first captions as ids, and the number of different words."""
    words: dict[str, int] = {}
    references = [
        [
            [words.setdefault(token, len(words) + 1) for token in ptb_tokenize(text)]
            for text in image.raw[:captions]
        ]
        for image in read_coco(path).images
    ]
    return references, len(words)


def theirs(step: Step) -> Callable[[], np.ndarray[Any, Any]]:
    """A function that scores the step by pycocoevalcap, given the frequencies.

    Raises:
        UsageError: pycocoevalcap isn't installed.
    """
    try:
        scorer = importlib.import_module("pycocoevalcap.cider.cider_scorer")
    except ImportError:
        raise UsageError(
            "this compares with pycocoevalcap, which isn't installed; install "
            "attnbench[java-metrics]"
        ) from None

    def text(caption: Sequence[int]) -> str:
        return " ".join(map(str, caption))

    closed = [[text([*caption, END]) for caption in captions] for captions in step.references]
    counted: dict[tuple[str, ...], float] = defaultdict(float)
    for captions in closed:
        for ngram in {ngram for caption in captions for ngram in scorer.precook(caption)}:
            counted[ngram] += 1
    hypotheses = [text(caption) for caption in step.hypotheses]
    images = step.images.tolist()

    class Given(scorer.CiderScorer):
        """The tool takes log N from its own list, so that list says how many images there are."""

        def compute_cider(self) -> Any:
            self.crefs = _Counted(self.crefs, len(closed))
            return super().compute_cider()

    def score() -> np.ndarray[Any, Any]:
        tool = Given()
        tool.document_frequency = counted
        for hypothesis, image in zip(hypotheses, images, strict=True):
            tool += (hypothesis, closed[image])
        return np.array(tool.compute_cider())

    return score


class _Counted(list[Any]):
    """A list that says another length."""

    def __init__(self, items: Sequence[Any], length: int) -> None:
        super().__init__(items)
        self._length = length

    def __len__(self) -> int:
        return self._length


def ours(step: Step) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Functions that score the step: references prepared before, and prepared in it."""
    scorer = CiderDScorer(DocumentFrequencies.count(step.references, END))
    prepared = scorer.prepare(step.references)
    images, place = np.unique(step.images, return_inverse=True)

    def with_preparing() -> Any:
        few = scorer.prepare([step.references[image] for image in images.tolist()])
        return scorer.score(step.hypotheses, few, place)

    return partial(scorer.score, step.hypotheses, prepared, step.images), with_preparing


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    options = _options(arguments)
    references, words = read_references(options.captions, options.references)
    if len(references) < options.images:
        raise UsageError(f"{options.captions} has only {len(references)} images; lower --images")
    step = make_step(references, words, options.images, options.samples)
    slow = theirs(step)
    fast, with_preparing = ours(step)
    expected = slow()
    worst = max(float(np.abs(made() - expected).max()) for made in (fast, with_preparing))
    if worst > 1e-9:
        raise RuntimeError(f"the two sides give other scores: {worst:.2g} apart")
    rows = []
    for what, work, target in (
        ("references prepared", fast, TARGET),
        ("preparing counted in", with_preparing, None),
    ):
        times = calls_for(work, 0.1)
        pair = in_turns(options.rounds, partial(seconds, work, times), partial(seconds, slow))
        rows.append(Comparison(what, "s", *pair, target=target))
    print(
        f"CIDEr-D of {options.images} images x {options.samples} hypotheses, up to "
        f"{options.references} references, {len(references):,} images counted, "
        f"{options.rounds} turns; mean score {expected.mean():.3f}, scores agree to {worst:.1g}"
    )
    print(show(rows, "attnbench", "pycocoevalcap"))
    save(options.json, as_json("cider", vars(options), rows, largest_difference=worst))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    made = parser("cider", __doc__, threads=1, rounds=7)
    made.add_argument(
        "--captions",
        type=Path,
        default=Path(__file__).resolve().parents[2] / SHARED,
        metavar="FILE",
        help=f"captions in COCO's JSON form ({SHARED})",
    )
    made.add_argument("--images", type=int, default=64, help="images a step (64)")
    made.add_argument("--samples", type=int, default=6, help="hypotheses an image (6)")
    made.add_argument("--references", type=int, default=5, help="references an image (5)")
    options = made.parse_args(arguments)
    if min(options.images, options.samples, options.references, options.rounds) < 1:
        raise UsageError("sizes must be 1 or more")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
