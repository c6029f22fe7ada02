"""Caption metrics as torchmetrics classes: raw captions in, scores of the whole set out.

All tokenise by the PTB rules and give the reference code's scale: 0 to 1, CIDEr 0 to 10. They
can be updated in several processes; what they keep is tensors that are added or joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from .bleu import ORDERS, bleu, bleu_counts
from .cider import CiderDScorer, CiderScorer
from .errors import CaptionScoreError, check_pairs
from .ptb import ptb_tokenize
from .rouge import rouge_l
from .text import cider_of_tokens

TokenLists = list[list[str]]


class CaptionMetric(Metric):
    """What the caption metrics share: checked input, tokenised once."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def update(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Add images.

        Args:
            hypotheses: one caption for each image, which may be empty.
            references: for each image one or more captions.

        Raises:
            CaptionScoreError: the lists differ in length, or an image has no reference.
        """
        check_pairs(hypotheses, references)
        given = [ptb_tokenize(caption) for caption in hypotheses]
        truth = [[ptb_tokenize(caption) for caption in captions] for captions in references]
        self.add(given, truth)

    def add(self, hypotheses: TokenLists, references: list[TokenLists]) -> None:
        """Add tokenised images to the state."""
        raise NotImplementedError


class CaptionBleu(CaptionMetric):
    """BLEU-1 to BLEU-4 of the whole set: ``{"bleu1": …, "bleu4": …}``."""

    counts: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        zeros = torch.zeros(2 * ORDERS + 2, dtype=torch.long)
        self.add_state("counts", zeros, dist_reduce_fx="sum")

    def add(self, hypotheses: TokenLists, references: list[TokenLists]) -> None:
        """Add the counts of these images."""
        self.counts += torch.from_numpy(bleu_counts(hypotheses, references)).to(self.counts.device)

    def compute(self) -> dict[str, Tensor]:
        """Give the four scores."""
        scores = bleu(self.counts.tolist())
        return {f"bleu{n}": _scalar(score) for n, score in enumerate(scores, start=1)}


class RougeL(CaptionMetric):
    """Mean ROUGE-L of all images."""

    total: Tensor
    images: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def add(self, hypotheses: TokenLists, references: list[TokenLists]) -> None:
        """Add the scores of these images."""
        self.total += sum(map(rouge_l, hypotheses, references))
        self.images += len(hypotheses)

    def compute(self) -> Tensor:
        """Give the mean.

        Raises:
            CaptionScoreError: no image was added.
        """
        if not self.images:
            raise _nothing()
        return self.total / self.images


class Cider(CaptionMetric):
    """Mean CIDEr of all images; document frequencies are counted over all their references.

    Args:
        corpus: the captions of other images to count document frequencies over.
    """

    scorer = CiderScorer
    text: list[Tensor]

    def __init__(self, corpus: Sequence[Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Captions as UTF-8 bytes, an image a line: tensors can be joined over processes.
        self.add_state("text", [], dist_reduce_fx="cat")
        self.set_dtype(torch.uint8)  # what a process without images joins an empty tensor of
        self.corpus: list[TokenLists] | None = None
        if corpus is not None:
            self.corpus = [[ptb_tokenize(text) for text in captions] for captions in corpus]

    def add(self, hypotheses: TokenLists, references: list[TokenLists]) -> None:
        """Keep these images' tokens."""
        lines = [
            "\t".join(" ".join(tokens) for tokens in (hypothesis, *captions)) + "\n"
            for hypothesis, captions in zip(hypotheses, references, strict=True)
        ]
        data = np.frombuffer("".join(lines).encode(), np.uint8)
        self.text.append(torch.from_numpy(data.copy()).to(self.device))

    def compute(self) -> Tensor:
        """Give the mean.

        Raises:
            CaptionScoreError: no image was added.
        """
        joined = dim_zero_cat(self.text).cpu().numpy().tobytes() if len(self.text) else b""
        images = [
            [caption.split(" ") if caption else [] for caption in line.split("\t")]
            for line in joined.decode().split("\n")[:-1]
        ]
        if not images:
            raise _nothing()
        hypotheses, references = [image[0] for image in images], [image[1:] for image in images]
        return _scalar(
            cider_of_tokens(self.scorer, hypotheses, references, self.corpus).mean().item()
        )


class CiderD(Cider):
    """Mean CIDEr-D of all images: what papers and COCO's evaluation call CIDEr."""

    scorer = CiderDScorer


def _scalar(score: float) -> Tensor:
    return torch.tensor(score, dtype=torch.float64)


def _nothing() -> CaptionScoreError:
    return CaptionScoreError("no caption was scored yet; update the metric with images first")
