"""Telling by content what a folder holds, and opening it."""

from __future__ import annotations

from pathlib import Path

from .corpus import IdCorpus, TextCorpus
from .errors import DataError
from .fairseq_data import FairseqData, is_fairseq
from .files import reading
from .parallel_text import ParallelText, holds_text
from .registry import DatasetEntry, dataset_entry
from .translation_config import TranslationDataConfig
from .wmt14 import HuggingFaceText, is_hugging_face


def open_corpus(config: TranslationDataConfig, root: Path) -> TextCorpus | IdCorpus:
    """Open the folder of a translation set, whatever the published layout is.

    Raises:
        DataError: unknown data set, missing or unreadable folder, or nothing in it that can be
            read.
    """
    entry = dataset_entry(config.dataset)
    with reading(root):
        if not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise DataError(
                f"The data folder {root} {what}; give the folder of {entry.name} as root "
                f"(from {entry.source})."
            )
        corpus = _open(config, entry, root)
    if config.test_split is not None:
        if config.test_split not in corpus.tests:
            raise DataError(
                f"{root} has no test split {config.test_split!r}; found: "
                f"{', '.join(corpus.tests) or 'none'}."
            )
        corpus.tests.sort(key=lambda name: name != config.test_split)
    return corpus


def _open(config: TranslationDataConfig, entry: DatasetEntry, root: Path) -> TextCorpus | IdCorpus:
    if is_fairseq(root):
        return FairseqData(root, config.languages, config.reader)
    if not holds_text(root) and is_hugging_face(root):
        return HuggingFaceText(root, config.languages)
    if not holds_text(root):
        source, target = config.languages
        raise DataError(
            f"{root} holds no translation data: expected train.{source} and train.{target}, a "
            "fairseq-preprocessed folder, or a set saved by Hugging Face datasets."
        )
    return ParallelText(
        root,
        config.languages,
        validation=entry.validation,
        test=entry.test,
        variant=config.variant,
    )
