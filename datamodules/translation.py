"""The translation DataModule: from a folder in a published layout to batches and references."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from .batching import TokenBatches
from .corpus import IdCorpus, TextCorpus, find_split
from .demo.translation import write_translation_demo
from .errors import DataError
from .files import sha256_file
from .loader import PairLoader, Pairs, StatefulPairLoader
from .module import ResumableDataModule
from .open_corpus import open_corpus
from .prepare import Codec, Encoded, filter_training, prepare_ids, prepare_text
from .registry import dataset_entry
from .store import TokenStore
from .subword import Words
from .translation_card import SideCard, TranslationCard, TranslationSplitCard
from .translation_config import TranslationDataConfig
from .vocabulary import Vocabulary


class TranslationData(ResumableDataModule):
    """Sentence pairs of one data set, read when they are first asked for.

    Training pairs with an empty side, or longer than allowed, are dropped and counted in the card.
    Evaluated splits keep every line, empty ones too (an empty source is ``</s>`` alone), so that
    line n of the output belongs to line n of the file.

    Batches depend on the config's seed and the epoch alone; in distributed training each rank takes
    its own share of them.

    Args:
        config: where the data are and how they are cut and batched.
    """

    def __init__(self, config: TranslationDataConfig) -> None:
        super().__init__(config.dataset, config.root)
        self.config = config
        self._splits: dict[str, Encoded] = {}

    def write_demo(self, root: Path) -> Path:
        """Write the translation demo into a folder."""
        return write_translation_demo(root)

    @cached_property
    def _corpus(self) -> TextCorpus | IdCorpus:
        return open_corpus(self.config, self.root)

    @cached_property
    def _prepared(self) -> tuple[Codec, Any]:
        corpus = self._corpus
        if _holds_ids(corpus):
            ids = cast(IdCorpus, corpus)
            return prepare_ids(self.config, ids), lambda: ids.stores(self.find("train"))
        return prepare_text(self.config, cast(TextCorpus, corpus), self.root)

    @property
    def _codec(self) -> Codec:
        return self._prepared[0]

    @property
    def vocabulary(self) -> Vocabulary:
        """The target vocabulary, which is the source's too unless a folder brings separate ones."""
        return self._codec.target_vocabulary

    @property
    def target_vocabulary(self) -> Vocabulary:
        """The target vocabulary."""
        return self._codec.target_vocabulary

    @property
    def source_vocabulary(self) -> Vocabulary:
        """The source vocabulary."""
        return self._codec.source_vocabulary

    @property
    def test_splits(self) -> list[str]:
        """Names of the test splits, the default one first."""
        return list(self._corpus.tests)

    def setup(self, stage: str | None = None) -> None:
        """Read what a stage needs, so that bad data stop it before it starts."""
        for split in {"fit": ("train", "val"), "validate": ("val",)}.get(stage or "fit", ("test",)):
            self.encoded(split)

    def encoded(self, split: str) -> Encoded:
        """Give a split as ids.

        Args:
            split: ``train``, ``val``, ``test``, or the name of a test split.

        Raises:
            DataError: there is no such split, or a file of it can't be read.
        """
        name = self.find(split)
        if name not in self._splits:
            training = name == self._corpus.training
            self._splits[name] = self._read_training(name) if training else self._read(name)
        return self._splits[name]

    def find(self, split: str) -> str:
        """Give the name on disk of ``train``, ``val``, ``test`` or a split's own name.

        Raises:
            DataError: there is no such split.
        """
        return find_split(self._corpus, split, self.root)

    def _read_training(self, name: str) -> Encoded:
        source, target = self._prepared[1]()
        if self.config.train_lines is not None:
            rows = np.arange(min(len(source), self.config.train_lines))
            source, target = source.select(rows), target.select(rows)
        return filter_training(name, source, target, self.config)

    def _read(self, name: str) -> Encoded:
        limit = self.config.eval_lines
        if _holds_ids(self._corpus):
            source, target = cast(IdCorpus, self._corpus).stores(name)
            rows = np.arange(len(source))[:limit]
            source, target = source.select(rows), target.select(rows)
            text = [self._codec.decode(target[row].tolist()) for row in rows]
        else:
            pairs = list(islice(cast(TextCorpus, self._corpus).pairs(name), limit))
            source, target = self._codec.encode(pairs)
            text = [self._joined(line) for _, line in pairs]
        return Encoded(name, source, target, np.arange(len(source)), {}, text)

    def _joined(self, line: str) -> str:
        """Join the subwords of text that is cut on disk; other text stays as it is."""
        subword = self._codec.subword
        marked = isinstance(subword, Words) and subword.marker is not None
        return subword.decode(line.split()) if marked else line

    def train_dataloader(self) -> StatefulPairLoader:
        """Give the training batches, going on where a loaded state stopped."""
        return self.resumed(StatefulPairLoader(*self._pairs("train", shuffle=True)))

    def val_dataloader(self) -> PairLoader:
        """Give the validation batches."""
        return PairLoader(*self._pairs("val", shuffle=False))

    def test_dataloader(self) -> PairLoader:
        """Give the batches of the test split."""
        return PairLoader(*self._pairs("test", shuffle=False))

    def predict_dataloader(self, split: str = "test") -> PairLoader:
        """Give any split's batches for decoding; ``index_B`` puts the results into file order."""
        return PairLoader(*self._pairs(split, shuffle=False))

    def _pairs(self, split: str, *, shuffle: bool) -> tuple[Pairs, TokenBatches]:
        encoded = self.encoded(split)
        batches = TokenBatches(
            encoded.source.lengths,
            encoded.target.lengths,
            max_tokens=self.config.max_tokens,
            max_sentences=self.config.max_sentences,
            seed=self.config.seed,
            shuffle=shuffle,
            **self.share,
            too_long="error",  # in training they are dropped before, and counted
            name=f"split {encoded.name!r}",
        )
        return Pairs(encoded.source, encoded.target, encoded.lines), batches

    def decode(self, ids: Iterable[int] | Tensor) -> str:
        """Give target ids, up to the first ``</s>``, as plain text."""
        line = self._codec.decode(_as_list(ids))
        return self._codec.style.plain(line, self.config.target_language)

    def decode_tokens(self, ids: Iterable[int] | Tensor) -> str:
        """Give target ids, up to the first ``</s>``, as Moses tokens separated by spaces."""
        line = self._codec.decode(_as_list(ids))
        return self._codec.style.tokens(line, self.config.target_language)

    def references(self, split: str) -> list[str]:
        """Give the target lines of an evaluated split as plain text, in file order."""
        language = self.config.target_language
        return [self._codec.style.plain(line, language) for line in self._text(split)]

    def reference_tokens(self, split: str) -> list[str]:
        """Give the target lines of an evaluated split as Moses tokens, in file order."""
        language = self.config.target_language
        return [self._codec.style.tokens(line, language) for line in self._text(split)]

    def _text(self, split: str) -> list[str]:
        encoded = self.encoded(split)
        if encoded.text is None:
            raise DataError(f"Split {encoded.name!r} is trained on; it has no references.")
        return encoded.text

    def fingerprint(self) -> dict[str, str]:
        """Give SHA-256 hashes: of each file read, the subwords and the vocabularies."""
        hashes = dict(self._file_hashes)
        hashes["subword"] = self._codec.subword.sha256
        hashes["target vocabulary"] = self.target_vocabulary.sha256
        hashes["source vocabulary"] = self.source_vocabulary.sha256
        return hashes

    def training_fingerprint(self) -> dict[str, str]:
        """Give the part of the hashes that training depends on."""
        corpus = self._corpus
        files = [] if corpus.training is None else corpus.files(corpus.training)
        used = {path.relative_to(self.root).as_posix() for path in files}
        used |= {"subword", "target vocabulary", "source vocabulary"}
        return {name: value for name, value in self.fingerprint().items() if name in used}

    @cached_property
    def _file_hashes(self) -> dict[str, str]:
        corpus = self._corpus
        used = [name for name in (corpus.training, corpus.validation, *corpus.tests[:1]) if name]
        paths = dict.fromkeys(path for name in used for path in corpus.files(name))
        return {path.relative_to(self.root).as_posix(): sha256_file(path) for path in paths}

    def card(self) -> TranslationCard:
        """Read train, validation and the default test split, as far as there, and describe them."""
        entry, corpus, codec = dataset_entry(self.config.dataset), self._corpus, self._codec
        roles = {"train": corpus.training, "val": corpus.validation}
        roles |= {name: name for name in corpus.tests[:1]}
        splits = {role: _split_card(self.encoded(name)) for role, name in roles.items() if name}
        separate = codec.source_vocabulary != codec.target_vocabulary
        others = corpus.tests[1:]
        notes = [f"further test splits: {', '.join(others)}"] if others else []
        return TranslationCard(
            dataset=entry.name,
            title=entry.title,
            format=corpus.format,
            languages=self.config.languages,
            text=codec.style.kind,
            text_evidence=codec.style.why,
            subword=codec.subword.kind,
            vocabulary_size=len(codec.target_vocabulary),
            vocabulary_sha256=codec.target_vocabulary.sha256,
            source_vocabulary_size=len(codec.source_vocabulary) if separate else None,
            source_vocabulary_sha256=codec.source_vocabulary.sha256 if separate else None,
            splits=splits,
            files=self._file_hashes,
            notes=[*corpus.notes, *notes],
        )


def _holds_ids(corpus: TextCorpus | IdCorpus) -> bool:
    return hasattr(corpus, "stores")


def _as_list(ids: Iterable[int] | Tensor) -> list[int]:
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)


def _split_card(split: Encoded) -> TranslationSplitCard:
    empty = (split.source.lengths == 1) | (split.target.lengths == 1)
    return TranslationSplitCard(
        name=split.name,
        pairs=len(split.lines),
        dropped=split.dropped,
        empty=int(empty.sum()),
        source=_side_card(split.source),
        target=_side_card(split.target),
    )


def _side_card(store: TokenStore) -> SideCard:
    return SideCard(
        mean=float(store.lengths.mean()),
        longest=int(store.lengths.max()),
        unknown=store.unknown(),
    )
