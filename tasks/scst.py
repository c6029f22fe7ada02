"""Self-critical sequence training: the caption metric itself as the objective.

"Self-critical Sequence Training for Image Captioning" (Rennie et al., CVPR 2017, arXiv
1612.00563), equations 6 to 9: captions w are drawn from the model, and the loss
-(r(w) - b) log p(w) raises the probability of those that score better than the baseline b.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..models.decoding import greedy_search, sample
from .errors import ConfigError
from .metrics.captions.cider import CiderDScorer, PreparedReferences
from .metrics.captions.errors import CaptionScoreError
from .metrics.captions.frequencies import DocumentFrequencies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..datamodules.caption_batch import CaptionBatch
    from ..datamodules.captions import CaptionData
    from ..models.captioner import Captioner
    from .captioning_config import CaptioningConfig

END = 0
"""Id of start, end and padding of captions."""


class Rewards:
    """CIDEr-D of captions of training images, as word ids, computed in a thread.

    The end symbol is part of every scored string, as in the public self-critical code: without it
    captions that break off score as well as whole ones. A caption that was cut at the longest
    length has none.

    Args:
        scorer: CIDEr-D with document frequencies that count the end.
        references: of the training images, by their position in the split.
    """

    def __init__(self, scorer: CiderDScorer, references: PreparedReferences) -> None:
        self._scorer, self._references = scorer, references
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rewards")

    @classmethod
    def of(cls, config: CaptioningConfig, data: CaptionData) -> Self:
        """Rewards with the document frequencies of ``frequencies_of``. Raises as it does."""
        scorer = CiderDScorer(frequencies_of(config, data))
        return cls(scorer, scorer.prepare(data.train_references()))

    @property
    def signature(self) -> str:
        """What rewards are, with a hash of the document frequencies, for the record."""
        return f"cider_d|ids with the end|df:{self._scorer.frequencies.fingerprint()[:16]}"

    def submit(self, captions: Sequence[Sequence[int]], images: np.ndarray) -> Future[np.ndarray]:
        """Begin to score captions, the end included where they have one; one image each."""
        return self._pool.submit(self._scorer.score, captions, self._references, images)


def frequencies_of(config: CaptioningConfig, data: CaptionData) -> DocumentFrequencies:
    """Count n-grams of the training captions, or read the counts that the config names.

    Raises:
        ConfigError: the file of counts can't be used, leaves the end of captions out, so that
            they are another metric's, or belongs to another vocabulary.
    """
    path = config.document_frequencies
    if path is None:
        return DocumentFrequencies.count(data.train_references(), END)
    try:
        frequencies = DocumentFrequencies.from_pickle(path)
    except CaptionScoreError as error:
        raise ConfigError(f"document_frequencies: {error}") from None
    if frequencies.end != END:
        raise ConfigError(
            f"document_frequencies={path} doesn't count the end of captions (id 0), which rewards "
            "need: make it with self-critical's prepro_ngrams, or leave it out"
        )
    known, largest = len(data.vocabulary), max(max(ngram) for ngram in frequencies)
    if largest >= known:
        raise ConfigError(
            f"document_frequencies={path} counts a word of id {largest}, but the vocabulary ends "
            f"at {known - 1}: give the vocabulary it was made with, or leave it out"
        )
    return frequencies


@dataclass(frozen=True)
class SelfCriticalStep:
    """One step's loss, with gradient, and the means of reward, baseline and their difference."""

    loss: Tensor
    reward: float
    baseline: float
    advantage: float


@dataclass(frozen=True)
class _Samples:
    """S captions of each of B images, up to T positions.

    `output_BST` holds word ids, the end, then zeros. `scored_BST` is True where a symbol was
    chosen freely: at words and ends, not at an end that the length limit forced.
    """

    output_BST: Tensor
    scored_BST: Tensor

    def captions(self) -> list[list[int]]:
        """Ids of each caption, image by image, the end included unless it was forced."""
        return [
            row[chosen].tolist()
            for row, chosen in zip(
                self.output_BST.flatten(0, 1).cpu(),
                self.scored_BST.flatten(0, 1).cpu(),
                strict=True,
            )
        ]


def image_of(batch: CaptionBatch) -> dict[str, Any]:
    """The arguments of a ``Captioner`` that tell it the images."""
    names = ("features_BNF", "valid_BN", "boxes_BN4", "size_B2")
    return {name: getattr(batch, name) for name in names}


def self_critical_loss(
    model: Captioner,
    batch: CaptionBatch,
    rewards: Rewards,
    config: CaptioningConfig,
    seed: int,
) -> SelfCriticalStep:
    """Sample captions, score them against the baseline, and weigh their log-probabilities.

    Captions are drawn without gradient and without dropout, and scored again in one pass with
    gradient, all positions at once: on a CPU a sixth faster than keeping the graph of every
    decoding step, and free to have dropout or not. Rewards are computed meanwhile. The loss is the
    mean over all chosen symbols, as in the public self-critical code.

    Args:
        model: left in the mode it came in.
        batch: its images' positions in the training split choose the references.
        rewards: scores captions.
        config: number of samples, baseline, longest caption.
        seed: of the samples.
    """
    images = batch.index_B.cpu().numpy()
    with _evaluating(model), torch.no_grad():
        samples = _draw(model, batch, config, seed)
        own = rewards.submit(samples.captions(), images.repeat(config.samples))
        greedy = None
        if config.baseline == "greedy":
            greedy = rewards.submit(_greedy(model, batch, config), images)
    with _evaluating(model, wanted=not config.scst_dropout):
        log_probability_M = _log_probabilities(model, batch, samples)
    reward_BS = own.result().reshape(len(batch), config.samples)
    if greedy is not None:
        baseline_BS = np.broadcast_to(greedy.result()[:, None], reward_BS.shape)
    else:
        others = reward_BS.sum(1, keepdims=True) - reward_BS
        baseline_BS = others / (config.samples - 1)
    advantage_BS = torch.from_numpy(reward_BS - baseline_BS).to(log_probability_M)
    advantage_M = advantage_BS[..., None].expand_as(samples.scored_BST)[samples.scored_BST]
    return SelfCriticalStep(
        loss=-(advantage_M * log_probability_M).mean(),
        reward=float(reward_BS.mean()),
        baseline=float(baseline_BS.mean()),
        advantage=float((reward_BS - baseline_BS).mean()),
    )


def _draw(model: Captioner, batch: CaptionBatch, config: CaptioningConfig, seed: int) -> _Samples:
    drawn = sample(
        model,
        model.start(**image_of(batch)),
        items=len(batch),
        width=config.samples,
        seed_I=[(seed * 1_000_003 + image) % 2**63 for image in batch.index_B.tolist()],
        bos=END,
        eos=END,
        pad=None,
        max_length_I=config.max_words,
        device=batch.features_BNF.device,
    )
    shape = (len(batch), config.samples, -1)
    scored_NT = drawn.valid_NT.clone()
    scored_NT[:, config.max_words :] = False
    return _Samples(drawn.tokens_NT.view(shape), scored_NT.view(shape))


def _greedy(model: Captioner, batch: CaptionBatch, config: CaptioningConfig) -> list[list[int]]:
    """The greedy caption of each image, the end included unless the length limit forced it."""
    found = greedy_search(
        model,
        model.start(**image_of(batch)),
        items=len(batch),
        bos=END,
        eos=END,
        pad=None,
        max_length_I=config.max_words,
        device=batch.features_BNF.device,
    )
    return [list(one.tokens[: config.max_words]) for one in found]


def _log_probabilities(model: Captioner, batch: CaptionBatch, samples: _Samples) -> Tensor:
    """Of every freely chosen symbol (M), with gradient, as the samples were drawn."""
    output_BST = samples.output_BST
    input_BST = functional.pad(output_BST[..., :-1], (1, 0), value=END)
    features_BSTD = model.features(input_BCT=input_BST, **image_of(batch))
    chosen_BST = samples.scored_BST
    logits_MV = model.output(features_BSTD[chosen_BST]).float()
    first_BST = torch.zeros_like(chosen_BST)
    first_BST[..., 0] = True
    # The first symbol is never the end.
    forbidden_MV = torch.zeros_like(logits_MV, dtype=torch.bool)
    forbidden_MV[first_BST[chosen_BST], END] = True
    logits_MV = logits_MV.masked_fill(forbidden_MV, -torch.inf)
    return -functional.cross_entropy(logits_MV, output_BST[chosen_BST], reduction="none")


@contextmanager
def _evaluating(model: nn.Module, wanted: bool = True) -> Iterator[None]:
    """The model without dropout, if that is wanted; in its former mode afterwards."""
    training = model.training
    model.train(training and not wanted)
    try:
        yield
    finally:
        model.train(training)
