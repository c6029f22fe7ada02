"""The segmentation DataModule: from a folder in a published layout to crops and whole images."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np

from .demo.segmentation import write_segmentation_demo
from .errors import DataError
from .module import ResumableDataModule
from .registry import dataset_entry
from .segmentation_card import SegmentationCard, SegmentationSplitCard
from .segmentation_config import SegmentationDataConfig
from .segmentation_crops import Crops
from .segmentation_loader import (
    SegmentationLoader,
    SegmentationPlan,
    SegmentationSplit,
    StatefulSegmentationLoader,
)
from .segmentation_open import open_segmentation
from .segmentation_records import LabelledImage, SegmentationSet
from .segmentation_survey import Survey, hash_images, survey, threads


class SegmentationData(ResumableDataModule):
    """Images with a class for each pixel, read when they are first asked for.

    A split is named as on disk, or by its role: ``train``, ``val`` and ``test`` are what is
    trained, validated and tested on. For Cityscapes the role ``test`` is its split ``val``, and the
    images whose labels are not public are the split ``server``.

    Batches depend on the config's seed and the epoch alone, not on `workers`; in distributed
    training each rank takes its own share of the images.

    Args:
        config: where the data are and how they are cut and batched.
    """

    def __init__(self, config: SegmentationDataConfig) -> None:
        super().__init__(config.dataset, config.root)
        self.config = config
        self._splits: dict[str, SegmentationSplit] = {}
        self._surveys: dict[str, Survey] = {}
        self._hashes: dict[str, tuple[dict[str, str], bool]] = {}

    def write_demo(self, root: Path) -> Path:
        """Write the segmentation demo into a folder."""
        return write_segmentation_demo(root)

    @cached_property
    def _set(self) -> SegmentationSet:
        return open_segmentation(self.config, self.root)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the K classes."""
        return self._set.classes

    @property
    def palette(self) -> np.ndarray:
        """Red, green and blue of each class for pictures, uint8 (K, 3)."""
        return np.array(self._set.palette, np.uint8)

    @property
    def label_ids(self) -> tuple[int, ...]:
        """The value of each class in the data set's own label files, as its server wants them."""
        return self._set.label_ids

    def find(self, split: str) -> str:
        """Give the name of a split by its role or its name.

        Raises:
            DataError: there is no such split, with those that exist.
        """
        entry, there = dataset_entry(self.config.dataset), self._set.splits
        roles = {"val": entry.validation, "test": self.config.test_split or entry.test}
        name = roles.get(split, split)
        if name not in there:
            hint = " Set test_split to one of them." if split == "test" else ""
            raise DataError(f"{self.root} has no split {name!r}; found: {', '.join(there)}.{hint}")
        return name

    def has_labels(self, split: str) -> bool:
        """Tell whether a split can be scored."""
        return self.find(split) not in self._set.unlabelled

    def check_labels(self, split: str) -> None:
        """Refuse a split that has no labels to train on or to score with.

        Raises:
            DataError: with the reason.
        """
        name = self.find(split)
        if name in self._set.unlabelled:
            raise DataError(
                f"Split {name!r} can't be scored or trained on: {self._set.unlabelled[name]}."
            )
        if not self._survey(name).pixels_C.any():
            raise DataError(
                f"No pixel of split {name!r} has a class: all label files of it are void, such as "
                f"{self._images(name)[0].labels}; give the set's real labels."
            )

    def class_pixels(self, split: str) -> list[int]:
        """Give the number of labelled pixels of each class of a split."""
        return self._survey(self.find(split)).pixels_C.tolist()

    def names(self, split: str) -> list[str]:
        """Give the names of a split's images, in order; predictions are named so."""
        return [image.name for image in self._images(self.find(split))]

    def read(self, split: str, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Read one image as stored: uint8 (H, W, 3) in RGB, and its classes, uint8 (H, W).

        Raises:
            DataError: a file can't be read, or the two differ in size.
        """
        return self._split(split).read(number)

    def _images(self, name: str) -> tuple[LabelledImage, ...]:
        limit = self.config.train_images if name == "train" else self.config.eval_images
        return self._set.splits[name][:limit]

    def _survey(self, name: str) -> Survey:
        if name not in self._surveys:
            self._surveys[name] = survey(
                SegmentationSplit(self._images(name), self._set.code),
                len(self.classes),
                threads(self.config.workers),
            )
        return self._surveys[name]

    def _split(self, split: str) -> SegmentationSplit:
        name = self.find(split)
        if name not in self._splits:
            small = self._survey(name).bytes_decoded < self.config.memory_mib << 20
            self._splits[name] = SegmentationSplit(self._images(name), self._set.code, keep=small)
        return self._splits[name]

    def setup(self, stage: str | None = None) -> None:
        """Read what a stage needs, so that bad data stop it before it starts."""
        for split in {"fit": ("train", "val"), "validate": ("val",)}.get(stage or "fit", ("test",)):
            self.check_labels(split)

    def verify(self) -> None:
        """Read all images and labels of all splits.

        Raises:
            DataError: one can't be read, or a split to train, validate or test on is missing.
        """
        for split in ("train", "val", "test"):
            self.check_labels(split)
        for name in self._set.splits:
            split = self._split(name)
            for number in range(len(split)):
                split.read(number)

    def train_dataloader(self) -> StatefulSegmentationLoader:
        """Give the training batches, going on where a loaded state stopped."""
        self.check_labels("train")
        plan = self._plan(Crops.of(self.config))
        return self.resumed(StatefulSegmentationLoader(self._split("train"), plan))

    def val_dataloader(self) -> SegmentationLoader:
        """Give the validation images, one a batch."""
        self.check_labels("val")
        return self.predict_dataloader("val")

    def test_dataloader(self) -> SegmentationLoader:
        """Give the images of the test split, one a batch."""
        self.check_labels("test")
        return self.predict_dataloader("test")

    def predict_dataloader(self, split: str = "test") -> SegmentationLoader:
        """Give any split's images at their stored size and in order, one a batch."""
        return SegmentationLoader(self._split(split), self._plan(None))

    def _plan(self, crops: Crops | None) -> SegmentationPlan:
        config = self.config
        return SegmentationPlan(
            batch_size=config.batch_size if crops else 1,
            seed=config.seed,
            workers=config.workers,
            crops=crops,
            normalisation=config.normalisation,
            **self.share,
        )

    def _roles(self) -> dict[str, str]:
        """Give the splits that a run uses, by role."""
        return {role: self.find(role) for role in ("train", "val", "test")}

    def _hashed(self, name: str) -> tuple[dict[str, str], bool]:
        if name not in self._hashes:
            self._hashes[name] = hash_images(self._images(name))
        return self._hashes[name]

    def _fingerprint(self, names: list[str]) -> dict[str, str]:
        listed = repr((self._set.classes, self._set.label_ids, sorted(self._set.code.void)))
        hashes = {"classes": hashlib.sha256(listed.encode()).hexdigest()}
        for name in dict.fromkeys(names):
            found = self._hashed(name)[0]
            hashes |= {f"{name} {what}": digest for what, digest in found.items()}
        return hashes

    def fingerprint(self) -> dict[str, str]:
        """Give SHA-256 hashes of the classes and of the images and labels of each split used."""
        return self._fingerprint(list(self._roles().values()))

    def training_fingerprint(self) -> dict[str, str]:
        """Give the part of the hashes that training depends on."""
        return self._fingerprint(["train"])

    def card(self) -> SegmentationCard:
        """Read the headers of all images and all labels, and describe all splits."""
        entry, found, roles = dataset_entry(self.config.dataset), self._set, self._roles()
        for role in roles:
            self.check_labels(role)
        whole = all(self._hashed(name)[1] for name in roles.values())
        unlabelled = [f"{name}: {reason}" for name, reason in found.unlabelled.items()]
        return SegmentationCard(
            dataset=entry.name,
            title=entry.title,
            format=found.format,
            classes=list(found.classes),
            label_ids=list(found.label_ids),
            splits={name: self._split_card(name) for name in found.splits},
            tested=roles["test"],
            files=self.fingerprint(),
            hashed="names and all bytes" if whole else "names and sizes in bytes",
            notes=[*found.notes, *unlabelled, *self._remarks(roles)],
        )

    def _remarks(self, roles: dict[str, str]) -> list[str]:
        """Say what a reader of results should know: equal splits, and classes that never occur."""
        notes = []
        if roles["val"] == roles["test"]:
            notes.append(f"{roles['test']} is both validated and tested on")
        for name in dict.fromkeys(roles.values()):
            pixels_C = self._survey(name).pixels_C
            absent = [self.classes[number] for number in np.flatnonzero(pixels_C == 0)]
            if absent:
                notes.append(f"{name} has no pixel of {', '.join(absent)}")
        return notes

    def _split_card(self, name: str) -> SegmentationSplitCard:
        seen = self._survey(name)
        counted = int(seen.pixels_C.sum())
        return SegmentationSplitCard(
            images=len(self._images(name)),
            dropped=dict(self._set.dropped.get(name, {})),
            sizes={f"{w}x{h}": number for (w, h), number in seen.sizes.most_common()},
            labelled=name not in self._set.unlabelled,
            void=seen.void / max(1, seen.void + counted),
            shares=(seen.pixels_C / max(1, counted)).tolist(),
        )
