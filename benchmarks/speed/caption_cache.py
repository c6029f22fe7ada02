"""Beam search of captions with what decoding caches, against computing everything anew.

The cached side is the suite's own: the encoder's output is projected to keys and values once an
image, all beams of an image share them, and the decoder keeps the keys and values of the words
before. The other side runs the whole model on the whole caption so far for every beam at every
step, as a model without a state has to. Both give the same captions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...models.captioner import Captioner, CaptionerConfig
from ...models.decoding import Hypothesis, LengthPenalty, StepModel, beam_search
from ..errors import UsageError
from .measure import Comparison, in_turns, seconds
from .report import as_json, parser, run_benchmark, save, show

END = 0
TARGET = 3.0


@dataclass
class Everything:
    """A decoding state without a cache: the images and the words so far, one row each."""

    image: tuple[Tensor, Tensor, Tensor]
    item_N: Tensor
    words_NT: Tensor

    def select(self, rows_N: Tensor, items_I: Tensor | None) -> None:
        """As in ``DecodingState``; rows carry their image's number, so items may stay."""
        self.item_N, self.words_NT = self.item_N[rows_N], self.words_NT[rows_N]


class Recomputing:
    """The same model as a ``StepModel`` that knows no cache."""

    def __init__(self, model: Captioner) -> None:
        self.model = model

    def start(self, *image: Tensor) -> Everything:
        """The state before the first step, one row an image."""
        features_BNF, valid_BN, boxes_BN4 = image
        item_N = torch.arange(len(features_BNF))
        return Everything(
            (features_BNF, valid_BN, boxes_BN4), item_N, torch.zeros(len(item_N), 0).long()
        )

    def step(self, token_N: Tensor, state: Everything) -> Tensor:
        """Encode every row's image and run the decoder over all its words."""
        state.words_NT = torch.cat([state.words_NT, token_N[:, None]], 1)
        features, valid, boxes = (part[state.item_N] for part in state.image)
        features_N1TD = self.model.features(features, valid, boxes, state.words_NT[:, None])
        return self.model.output(features_N1TD[:, 0, -1])


def build(options: Any) -> tuple[Captioner, tuple[Tensor, Tensor, Tensor]]:
    """A model that ends no caption by itself, and images; the same in every call."""
    torch.manual_seed(0)
    sizes = {"dim": options.dim, "ffn_dim": 4 * options.dim, "heads": options.heads}
    layers = {"encoder_layers": options.layers, "decoder_layers": options.layers}
    config = CaptionerConfig(symbols=options.symbols, encoder_self=options.spec, **sizes, **layers)
    model = Captioner(config).eval()
    with torch.no_grad():
        assert model.output.bias is not None
        model.output.bias[END] = -1e4  # so that every caption has the full length
    corners = torch.rand(options.images, options.regions, 2, 2).sort(2).values
    features_BNF = torch.randn(options.images, options.regions, config.feature_dim)
    valid_BN = torch.ones(options.images, options.regions, dtype=torch.bool)
    return model, (features_BNF, valid_BN, corners.flatten(2) * 300)


def decode(
    model: StepModel[Any], start: Callable[..., Any], image: Sequence[Tensor], words: int, beam: int
) -> list[list[Hypothesis]]:
    """The best caption of each image by beam search."""
    with torch.inference_mode():
        return beam_search(
            model,
            start(*image),
            items=len(image[0]),
            width=beam,
            bos=END,
            eos=END,
            pad=None,
            max_length_I=words,
            length_penalty=LengthPenalty("power", 0.0),
            device="cpu",
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the captions, measure, print the table, write the JSON file."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    model, image = build(options)
    bare = Recomputing(model)
    ours = partial(decode, model, model.start, image, options.words, options.beam)
    theirs = partial(decode, bare, bare.start, image, options.words, options.beam)
    for mine, other in zip(ours(), theirs(), strict=True):
        if mine[0].tokens != other[0].tokens or len(mine[0].tokens) != options.words + 1:
            raise RuntimeError("the two sides give different captions")
    pair = in_turns(options.rounds, partial(seconds, ours), partial(seconds, theirs))
    rows = [
        Comparison(
            f"{options.images} images, {options.words} words: time", "s", *pair, target=TARGET
        )
    ]
    print(
        f"beam {options.beam}, {options.layers} + {options.layers} layers of {options.dim}, "
        f"{options.spec}, {options.regions} regions, {options.threads} threads, "
        f"{options.rounds} turns; both sides give the same captions"
    )
    print(show(rows, "cached", "recomputed"))
    save(options.json, as_json("caption_cache", vars(options), rows))


def _options(arguments: Sequence[str] | None) -> Any:
    made = parser("caption_cache", __doc__, rounds=3)
    for name, default, what in (
        ("images", 10, "images decoded at once"),
        ("words", 20, "words of a caption"),
        ("beam", 3, "beams"),
        ("regions", 36, "regions of an image"),
        ("layers", 4, "layers of encoder and decoder each"),
        ("dim", 512, "model width"),
        ("heads", 8, "attention heads"),
        ("symbols", 9488, "size of the vocabulary"),
    ):
        made.add_argument(f"--{name}", type=int, default=default, help=f"{what} ({default})")
    made.add_argument("--spec", default="ngsa(query)", help="the encoder's attention (ngsa(query))")
    options = made.parse_args(arguments)
    if min(value for value in vars(options).values() if isinstance(value, int)) < 1:
        raise UsageError("sizes must be 1 or more")
    if options.dim % options.heads:
        raise UsageError("--heads must divide --dim")
    return options


if __name__ == "__main__":
    raise SystemExit(run_benchmark(main))
