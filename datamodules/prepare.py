"""From a corpus to ids: subwords and vocabularies, encoded splits, what is dropped and why."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from .cache import CachedText, load_encoded, save_encoded
from .corpus import IdCorpus, TextCorpus, find_split
from .errors import DataError
from .files import reading, sha256_file
from .moses import TextStyle, detect_style
from .store import StoreBuilder, TokenStore
from .subword import LearnedBpe, Subword, Words, detect_marker, read_subword
from .translation_config import TranslationDataConfig
from .vocabulary import SPECIALS, Vocabulary

_PAIRS_AT_ONCE = 10_000
_SAMPLE = 2000
_FORMAT = 1  # of the cache; counts up when encoding changes


@dataclass(frozen=True)
class Codec:
    """Both ways between text and ids.

    Attributes:
        subword: how lines are cut into pieces.
        style: whether lines are raw text or Moses tokens.
        source_vocabulary: ids of source pieces.
        target_vocabulary: ids of target pieces; the same object where the two are joined.
    """

    subword: Subword
    style: TextStyle
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def encode(self, pairs: Iterable[tuple[str, str]]) -> tuple[TokenStore, TokenStore]:
        """Encode pairs of lines, some thousands at a time."""
        source = StoreBuilder(len(self.source_vocabulary))
        target = StoreBuilder(len(self.target_vocabulary))
        for chunk in _chunks(pairs):
            sides = ((source, self.source_vocabulary), (target, self.target_vocabulary))
            for side, (builder, vocabulary) in enumerate(sides):
                pieces = self.subword.encode_all([pair[side] for pair in chunk])
                builder.add(vocabulary.encode(cut) for cut in pieces)
        return source.finish(), target.finish()

    def decode(self, ids: Iterable[int]) -> str:
        """Give the line of target ids, in the corpus's own style, subwords joined."""
        return self.subword.decode(self.target_vocabulary.pieces(ids))


@dataclass(frozen=True)
class Encoded:
    """A split as ids.

    Attributes:
        name: its name on disk.
        source: N source sentences.
        target: N target sentences.
        lines: line number of each pair in the split, from 0, int64 (N).
        dropped: pairs left out, by reason.
        text: target lines as on disk, for splits that are evaluated against; None in training.
    """

    name: str
    source: TokenStore
    target: TokenStore
    lines: np.ndarray
    dropped: dict[str, int]
    text: list[str] | None = None


def filter_training(
    name: str, source: TokenStore, target: TokenStore, config: TranslationDataConfig
) -> Encoded:
    """Drop training pairs with an empty side, too long ones, and those of unlike lengths."""
    shorter = np.minimum(source.lengths, target.lengths) - 1
    longer = np.maximum(source.lengths, target.lengths) - 1
    empty = shorter == 0
    too_long = ~empty & (longer + 1 > config.max_length)
    unlike = np.zeros_like(empty)
    if config.max_ratio is not None:
        unlike = ~empty & ~too_long & (longer > config.max_ratio * shorter)
    too_big = ~empty & ~too_long & ~unlike & (longer + 1 > config.max_tokens)
    rows = np.flatnonzero(~(empty | too_long | unlike | too_big))
    reasons = {
        "empty source or target": empty,
        f"longer than max_length={config.max_length}": too_long,
        f"lengths differ more than max_ratio={config.max_ratio}": unlike,
        f"longer than max_tokens={config.max_tokens}": too_big,
    }
    dropped = {reason: int(hit.sum()) for reason, hit in reasons.items() if hit.any()}
    if not len(rows):
        counts = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
        raise DataError(f"No training pair of split {name!r} is left after filtering: {counts}.")
    return Encoded(name, source.select(rows), target.select(rows), rows, dropped)


def prepare_ids(config: TranslationDataConfig, corpus: IdCorpus) -> Codec:
    """Tell from the dictionary and the first lines how a binarised corpus was written."""
    # The smallest first: a split is read as a whole to check its ids.
    split = next(filter(None, (corpus.validation, *corpus.tests, corpus.training)), None)
    if split is None:
        raise DataError(f"{config.root} has neither a train, valid nor test split.")
    vocabulary = corpus.target_vocabulary
    subword = Words(detect_marker(vocabulary.symbols[len(SPECIALS) :]))
    _, target = corpus.stores(split)
    first = (target[row].tolist() for row in range(min(len(target), _SAMPLE)))
    style = detect_style(subword.decode(vocabulary.pieces(ids)) for ids in first)
    return Codec(subword, style, corpus.source_vocabulary, vocabulary)


def prepare_text(
    config: TranslationDataConfig, corpus: TextCorpus, root: Path
) -> tuple[Codec, Callable[[], tuple[TokenStore, TokenStore]]]:
    """Learn or read subwords and vocabulary, and encode the training text.

    With a cache folder the result is looked up there by the hash of the files and of everything
    that decides the ids, so that a stale result is never read.

    Returns:
        The codec, and what gives the encoded training text.
    """
    split = find_split(corpus, "train", root)
    given = _given_subword(config)
    entry = None
    if config.cache is not None:
        entry = config.cache / _cache_key(config, corpus, split, given)
        cached = load_encoded(entry)
        codec = _codec_again(cached, given) if cached is not None else None
        if cached is not None and codec is not None:
            return codec, lambda: (cached.source, cached.target)

    def pairs() -> Iterator[tuple[str, str]]:
        return islice(corpus.pairs(split), config.train_lines)

    marker, style = _look_at(pairs, given)
    subword = given or _make_subword(config, pairs, marker)
    vocabulary = _make_vocabulary(config, subword, pairs, limited=given is None and not marker)
    codec = Codec(subword, style, vocabulary, vocabulary)
    source, target = codec.encode(pairs())
    if entry is None:
        return codec, lambda: (source, target)
    meta = {"marker": marker, "style": {"kind": style.kind, "why": style.why}}
    if isinstance(subword, LearnedBpe):
        meta["bpe"] = subword.text
    saved = save_encoded(entry, source, target, vocabulary, meta)
    return codec, lambda: (saved.source, saved.target)


def _given_subword(config: TranslationDataConfig) -> Subword | None:
    if config.subword in ("learn", "none"):
        return None
    path = Path(config.subword)
    with reading(path):
        return read_subword(path)


def _look_at(
    pairs: Callable[[], Iterator[tuple[str, str]]], given: Subword | None
) -> tuple[str | None, TextStyle]:
    """Tell from the first lines whether the text is cut into subwords and Moses-tokenised."""
    sample = [line for pair in islice(pairs(), _SAMPLE) for line in pair]
    marker = detect_marker(piece for line in sample for piece in line.split())
    if marker is not None and given is not None:
        raise DataError(
            f"The text is already cut into subwords marked {marker}; set subword=none, or give "
            "the text before they were applied."
        )
    words = Words(marker)
    return marker, detect_style(words.decode(line.split()) if marker else line for line in sample)


def _make_subword(
    config: TranslationDataConfig,
    pairs: Callable[[], Iterator[tuple[str, str]]],
    marker: str | None,
) -> Subword:
    """Learn, unless the text is cut into subwords already or words are asked for."""
    if marker is not None or config.subword == "none":
        return Words(marker)
    return LearnedBpe.learn((line for pair in pairs() for line in pair), config.vocabulary_size)


def _codec_again(cached: CachedText, given: Subword | None) -> Codec | None:
    """Make the codec of a cache entry; None if its description is damaged or not ours."""
    meta = cached.meta
    try:
        again = LearnedBpe(meta["bpe"]) if "bpe" in meta else Words(meta["marker"])
        style = TextStyle(**meta["style"])
    except Exception:  # the tokenizer's library raises bare ones
        return None
    words = "bpe" in meta or meta["marker"] is None or isinstance(meta["marker"], str)
    if not words or style.kind not in ("raw", "moses") or not isinstance(style.why, str):
        return None
    return Codec(given or again, style, cached.vocabulary, cached.vocabulary)


def _make_vocabulary(
    config: TranslationDataConfig,
    subword: Subword,
    pairs: Callable[[], Iterator[tuple[str, str]]],
    *,
    limited: bool,
) -> Vocabulary:
    """Read the given dictionary, or take the subwords' own pieces, or count those of training."""
    if config.dictionary is not None:
        return Vocabulary.from_file(config.dictionary)
    if subword.symbols is not None:
        return Vocabulary(subword.symbols)
    counts: Counter[str] = Counter()
    for chunk in _chunks(pairs()):
        for pieces in subword.encode_all([line for pair in chunk for line in pair]):
            counts.update(pieces)
    return Vocabulary.from_counts(counts, config.vocabulary_size if limited else None)


def _cache_key(
    config: TranslationDataConfig, corpus: TextCorpus, split: str, given: Subword | None
) -> str:
    """Hash everything that decides the ids of the training text."""
    subword = given.sha256 if given else [config.subword, config.vocabulary_size]
    parts = [
        _FORMAT,
        config.languages,
        [sha256_file(path) for path in corpus.files(split)],
        config.train_lines,
        subword,
        sha256_file(config.dictionary) if config.dictionary else None,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    source = iter(pairs)
    while chunk := list(islice(source, _PAIRS_AT_ONCE)):
        yield chunk
