"""The captioning DataModule: from a folder in a published layout to batches and references."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from .caption_card import CaptionCard, CaptionSplitCard
from .caption_config import CaptionDataConfig
from .caption_features import PreparedFeatures
from .caption_loader import BatchPlan, CaptionLoader, CaptionSplit, StatefulCaptionLoader
from .caption_open import open_captions
from .caption_records import CaptionImage, CaptionSet, some
from .caption_vocabulary import CaptionVocabulary
from .demo.captioning import write_captioning_demo
from .errors import DataError
from .features.matching import match_names
from .features.store import FeatureStore, header_facts
from .files import sha256_file
from .module import ResumableDataModule
from .registry import dataset_entry

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class _Split:
    """Images of a split that have features, in the order of the file, and their encoding."""

    images: list[CaptionImage]
    encoded: CaptionSplit
    dropped: dict[str, int]


class CaptionData(ResumableDataModule):
    """Images with captions and features of one data set, read when they are first asked for.

    Images without captions and captions without words are left out and counted in the card.
    Images without features are refused unless ``missing_features=leave_out``.

    Batches depend on the config's seed and the epoch alone; in distributed training each rank takes
    its own share of the images.

    Args:
        config: where the data are and how they are cut and batched.
    """

    def __init__(self, config: CaptionDataConfig) -> None:
        super().__init__(config.dataset, config.root)
        self.config = config
        self._splits: dict[str, _Split] = {}

    def write_demo(self, root: Path) -> Path:
        """Write the captioning demo into a folder."""
        return write_captioning_demo(root)

    @cached_property
    def _captions(self) -> CaptionSet:
        return open_captions(self.config, self.root)

    @cached_property
    def _used(self) -> list[CaptionImage]:
        return [image for image in self._captions.images if image.split]

    @cached_property
    def _features(self) -> PreparedFeatures:
        return PreparedFeatures(self.config, self.root, self._used)

    @property
    def store(self) -> FeatureStore:
        """The packed features."""
        return self._features.store

    @cached_property
    def _names(self) -> tuple[str, dict[int | str, str]]:
        """The scheme by which images are named among the features, and each image's name."""
        scheme, names = match_names(self._used, self.store.places.keys())
        return scheme, {image.id: name for image, name in zip(self._used, names, strict=True)}

    @cached_property
    def vocabulary(self) -> CaptionVocabulary:
        """Words and their ids: those the files fix, or counted."""
        if self._captions.vocabulary is not None:
            return CaptionVocabulary(self._captions.vocabulary)
        everything = [tokens for image in self._captions.images for tokens in image.tokens]
        if self.config.count_splits == "all":
            return CaptionVocabulary.count(everything, self.config.min_count)
        training = [t for image in self._images("train") for t in image.tokens]
        return CaptionVocabulary.count(training, self.config.min_count, everything)

    @property
    def feature_dim(self) -> int:
        """Features of a region."""
        return self.store.dim

    @property
    def has_boxes(self) -> bool:
        """Whether regions have boxes."""
        return self.store.has_boxes

    def _images(self, split: str) -> list[CaptionImage]:
        """Give the images of a split as the file lists them, up to the configured number."""
        if split not in SPLITS:
            raise DataError(f"There is no split {split!r}; there are {', '.join(SPLITS)}.")
        found = [image for image in self._captions.images if image.split == split]
        if not found:
            there = [name for name in SPLITS if any(i.split == name for i in self._used)]
            raise DataError(
                f"{self._captions.files[0]} has no images of split {split!r} (only "
                f"{', '.join(there) or 'images without a split'}); give split_file."
            )
        limit = self.config.train_images if split == "train" else self.config.eval_images
        return found[:limit]

    def setup(self, stage: str | None = None) -> None:
        """Read what a stage needs, so that bad data stop it before it starts."""
        for split in {"fit": ("train", "val"), "validate": ("val",)}.get(stage or "fit", ("test",)):
            self._split(split)

    def _split(self, split: str) -> _Split:
        if split not in self._splits:
            self._splits[split] = self._read(split)
        return self._splits[split]

    def _read(self, split: str) -> _Split:
        images = self._images(split)
        places, (_, names) = self.store.places, self._names
        kept = [image for image in images if names[image.id] in places]
        missing = [image.id for image in images if names[image.id] not in places]
        if missing and (self.config.missing_features == "refuse" or not kept):
            rest = "add them" + ", or set missing_features=leave_out" * bool(kept)
            raise DataError(
                f"{len(missing):,} of {len(images):,} images of {split} have no features in "
                f"{self._features.source}, {some(missing)}; {rest}."
            )
        words, most = self.vocabulary, self.config.max_length
        ids = [[words.encode(tokens)[:most] for tokens in image.tokens] for image in kept]
        if not all(any(each) for each in ids):
            bare = [image.id for image, each in zip(kept, ids, strict=True) if not any(each)]
            raise DataError(
                f"None of the words said of {len(bare):,} images of {split}, {some(bare)}, is in "
                "the vocabulary, which has no UNK: give the vocabulary that was made from these "
                "captions."
            )
        return _Split(
            images=kept,
            encoded=CaptionSplit(
                store=self.store,
                places=np.array([places[names[image.id]] for image in kept]),
                ids=ids,
                sizes_N2=self._sizes(kept),
            ),
            dropped={f"no features, {some(missing)}": len(missing)} if missing else {},
        )

    def _sizes(self, images: list[CaptionImage]) -> np.ndarray:
        """Give each image's width and height: from features, captions, or its boxes' extent."""
        sizes = np.ones((len(images), 2), np.float32)
        for row, image in enumerate(images):
            place = self.store.places[self._names[1][image.id]]
            known = self.store.sizes[place]
            boxes = self.store.of(place)[1]
            if known.all():
                sizes[row] = known
            elif image.size is not None:
                sizes[row] = image.size
            elif boxes is not None:
                sizes[row] = np.maximum(boxes[:, 2:].max(0), 1)
        return sizes

    def train_dataloader(self) -> StatefulCaptionLoader:
        """Give the training batches, going on where a loaded state stopped."""
        return self.resumed(StatefulCaptionLoader(self._split("train").encoded, self._plan(True)))

    def val_dataloader(self) -> CaptionLoader:
        """Give the validation batches."""
        return self.predict_dataloader("val")

    def test_dataloader(self) -> CaptionLoader:
        """Give the batches of the test split."""
        return self.predict_dataloader("test")

    def predict_dataloader(self, split: str = "test") -> CaptionLoader:
        """Give any split's batches in the order of the file."""
        return CaptionLoader(self._split(split).encoded, self._plan(False))

    def _plan(self, shuffle: bool) -> BatchPlan:
        return BatchPlan(
            batch_size=self.config.batch_size,
            captions_per_image=self.config.captions_per_image,
            max_regions=self.config.max_regions,
            seed=self.config.seed,
            shuffle=shuffle,
            **self.share,
        )

    def decode(self, ids: Iterable[int] | Tensor) -> str:
        """Give ids, up to the first 0, as words separated by spaces."""
        return " ".join(self.vocabulary.decode(ids.tolist() if isinstance(ids, Tensor) else ids))

    def references(self, split: str) -> list[list[str]]:
        """Give the captions of each image of a split as they were written, in order."""
        return [list(image.raw) for image in self._split(split).images]

    def image_ids(self, split: str) -> list[int | str]:
        """Give the ids of a split's images, in order."""
        return [image.id for image in self._split(split).images]

    def train_references(self) -> list[list[list[int]]]:
        """Give the ids of all captions of each training image, not cut, for n-gram counts."""
        words = self.vocabulary
        return [[words.encode(t) for t in image.tokens] for image in self._split("train").images]

    def fingerprint(self) -> dict[str, str]:
        """Give SHA-256 hashes: of each annotation file, the features and the vocabulary."""
        hashes = {_relative(path, self.root): sha256_file(path) for path in self._captions.files}
        hashes |= {f"features {name}": h for name, h in self.store.header.sha256.items()}
        hashes["vocabulary"] = self.vocabulary.fingerprint()
        return hashes

    def training_fingerprint(self) -> dict[str, str]:
        """Give the part of the hashes that training depends on: all, as splits share files."""
        return self.fingerprint()

    def card(self) -> CaptionCard:
        """Read all splits that are there and describe them."""
        entry, captions = dataset_entry(self.config.dataset), self._captions
        scheme = self._names[0]
        there = [name for name in SPLITS if any(i.split == name for i in self._used)]
        named = [] if scheme == "id" else [f"features are named by {scheme}"]
        return CaptionCard(
            dataset=entry.name,
            title=entry.title,
            format=captions.format,
            vocabulary_size=len(self.vocabulary),
            vocabulary_rule=self._rule(),
            vocabulary_sha256=self.vocabulary.fingerprint(),
            features=header_facts(self.store.header),
            splits={name: self._split_card(name) for name in there},
            files={_relative(path, self.root): sha256_file(path) for path in captions.files},
            notes=[*captions.notes, *named, *self.store.header.notes],
        )

    def _rule(self) -> str:
        if self._captions.vocabulary is not None:
            return "words and ids as the files fix them"
        where = "all splits" if self.config.count_splits == "all" else "train"
        return f"words that occur more than {self.config.min_count} times in {where}"

    def _split_card(self, name: str) -> CaptionSplitCard:
        split, unk, most = self._split(name), self.vocabulary.unk, self.config.max_length
        captions = [ids for each in split.encoded.ids for ids in each]
        return CaptionSplitCard(
            images=len(split.images),
            captions=len(captions),
            dropped=split.dropped,
            mean=float(np.mean([len(ids) for ids in captions])),
            longest=max(len(t) for image in split.images for t in image.tokens),
            cut=sum(len(t) > most for image in split.images for t in image.tokens),
            unknown=sum(ids.count(unk) for ids in captions) if unk is not None else 0,
        )


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
