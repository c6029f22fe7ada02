"""The detection DataModule: from a folder in a published layout to batches of images with boxes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from .caption_records import some
from .demo.detection import write_detection_demo
from .detection_batch import DetectionTarget
from .detection_card import DetectionCard, DetectionSplitCard, describe_split
from .detection_config import DetectionDataConfig
from .detection_loader import (
    DetectionLoader,
    DetectionPlan,
    StatefulDetectionLoader,
    target_of,
)
from .detection_open import open_detection
from .detection_records import NO_SIZE, OUTSIDE, STRAY, DetectionImage, DetectionSet, role_of
from .errors import DataError
from .files import reading, sha256_file
from .module import ResumableDataModule
from .registry import dataset_entry

SPLITS = ("train", "val", "test")


class DetectionData(ResumableDataModule):
    """Images with boxes of one data set, read when they are first asked for.

    Training leaves out crowds, and images without other boxes unless ``empty_images``, and clips
    boxes to their image. Evaluation keeps all images, crowds, and boxes as they are annotated.

    Batches depend on the config's seed and the epoch alone; in distributed training each rank takes
    its own share of the images.

    Args:
        config: where the data are and how they are batched.
    """

    def __init__(self, config: DetectionDataConfig) -> None:
        super().__init__(config.dataset, config.root)
        self.config = config
        self._records: dict[str, list[DetectionImage]] = {}

    def write_demo(self, root: Path) -> Path:
        """Write the detection demo into a folder."""
        return write_detection_demo(root)

    @cached_property
    def _set(self) -> DetectionSet:
        return open_detection(self.config, self.root)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; class i has label i + 1."""
        return self._set.classes

    @property
    def category_ids(self) -> tuple[int, ...]:
        """Id of each class in the data set's own files, for results."""
        return self._set.category_ids

    def split_name(self, split: str) -> str:
        """Give the name on disk of ``train``, ``val`` or ``test``.

        Raises:
            DataError: there is none, or there are several and none has the name of the registry.
        """
        if split not in SPLITS:
            raise DataError(f"There is no split {split!r}; there are {', '.join(SPLITS)}.")
        entry = dataset_entry(self.config.dataset)
        preferred = {"train": "train", "val": entry.validation, "test": entry.test}[split]
        there = list(self._set.splits)
        found = [name for name in there if role_of(name) == split]
        if preferred in there and (len(found) != 1 or role_of(preferred) == split):
            return preferred
        if not found:  # COCO 2014 is tested on val2014, as 2017 is on val2017
            found = [name for name in there if role_of(name) == role_of(preferred)]
        if len(found) != 1:
            what = f"several splits for {split}" if found else f"no split for {split}"
            raise DataError(
                f"{self.root} has {what} ({', '.join(found or there) or 'nothing'} is there); "
                "expected one with such a name: name the folder or file of annotations with "
                "annotations=, or add a list of its images, train.txt, val.txt and test.txt."
            )
        return found[0]

    def images(self, split: str) -> list[DetectionImage]:
        """Give the images that a split uses, in order.

        Raises:
            DataError: no such split, images without file, or none left.
        """
        if split not in self._records:
            self._records[split] = self._read(split)
        return self._records[split]

    def _read(self, split: str) -> list[DetectionImage]:
        name = self.split_name(split)
        everything = self._set.splits[name].images
        found = [image for image in everything if image.file is not None]
        missing = [image.name for image in everything if image.file is None]
        if missing and (self.config.missing == "refuse" or not found):
            rest = "put them there" + ", or set missing=leave_out" * bool(found)
            raise DataError(
                f"{len(missing):,} of {len(everything):,} images of {name} have no file below "
                f"{self.root}, {some(missing)}; {rest}."
            )
        if split == "train" and not self.config.empty_images:
            found = [image for image in found if not image.crowd_N.all()]
        if not found:
            raise DataError(self._nothing(name, bool(everything)))
        limit = self.config.train_images if split == "train" else self.config.eval_images
        return found[:limit]

    def _nothing(self, name: str, images: bool) -> str:
        """Say why a split has nothing to work with."""
        if not images:
            return f"The split {name} in {self.root} has no image at all; add some to it."
        counts = self._set.splits[name].counts
        said = [f"{counts[what]:,} {what}" for what in (NO_SIZE, OUTSIDE, STRAY) if counts[what]]
        why = f" ({'; '.join(said)})" if said else ""
        return (
            f"The split {name} in {self.root} has no image with a box{why}; correct its "
            "annotations, or set empty_images=true to train without any."
        )

    def setup(self, stage: str | None = None) -> None:
        """Read what a stage needs, so that bad data stop it before it starts."""
        for split in {"fit": ("train", "val"), "validate": ("val",)}.get(stage or "fit", ("test",)):
            self.images(split)

    def train_dataloader(self) -> StatefulDetectionLoader:
        """Give the training batches, going on where a loaded state stopped."""
        return self.resumed(StatefulDetectionLoader(self.images("train"), self._plan(True)))

    def val_dataloader(self) -> DetectionLoader:
        """Give the validation batches."""
        return self.predict_dataloader("val")

    def test_dataloader(self) -> DetectionLoader:
        """Give the batches of the test split."""
        return self.predict_dataloader("test")

    def predict_dataloader(self, split: str = "test") -> DetectionLoader:
        """Give any split's batches in order, without augmentation, crowds included."""
        return DetectionLoader(self.images(split), self._plan(False))

    def _plan(self, shuffle: bool) -> DetectionPlan:
        config = self.config
        return DetectionPlan(
            batch_size=config.batch_size,
            seed=config.seed,
            shuffle=shuffle,
            group_by_aspect=config.group_by_aspect,
            horizontal_flip=config.horizontal_flip,
            vertical_flip=config.vertical_flip,
            jitter=config.jitter,
            workers=config.workers,
            **self.share,
        )

    def image_ids(self, split: str) -> list[int | str]:
        """Give the ids of a split's images in order, as the data set's files have them."""
        return [image.id for image in self.images(split)]

    def targets(self, split: str) -> list[DetectionTarget]:
        """Give the boxes of a split's images in order as annotated, crowds included."""
        return [target_of(image) for image in self.images(split)]

    def sizes(self, split: str) -> list[tuple[int, int]]:
        """Give width and height of a split's images in order, in pixels."""
        return [image.size for image in self.images(split)]

    def _there(self) -> dict[str, str]:
        """Give the name on disk of each split that is there."""
        found = {}
        for split in SPLITS:
            try:
                found[split] = self.split_name(split)
            except DataError:
                continue
        return found

    @cached_property
    def _hashes(self) -> dict[str, dict[str, str]]:
        """Give hashes by the name of a split on disk, and under an empty name the shared ones."""
        hashes = {"": {_relative(path, self.root): sha256_file(path) for path in self._set.files}}
        for split, name in self._there().items():
            files = self._set.splits[name].files
            if len(files) > 5:
                annotations = {f"annotations of {name}": _together(files, self.root)}
            else:
                annotations = {_placed(path, self.root): sha256_file(path) for path in files}
            images = {f"images of {name}": _names_and_sizes(self.images(split), self.root)}
            hashes[name] = annotations | images
        return hashes

    def fingerprint(self) -> dict[str, str]:
        """Give SHA-256 hashes of the annotations, and of names and sizes of the images in use.

        The pixels themselves are not hashed: reading all of COCO takes many minutes.
        """
        return {what: value for part in self._hashes.values() for what, value in part.items()}

    def training_fingerprint(self) -> dict[str, str]:
        """Give the part of the hashes that training depends on."""
        return self._hashes[""] | self._hashes[self.split_name("train")]

    def card(self) -> DetectionCard:
        """Describe all splits that are there."""
        entry, found, there = dataset_entry(self.config.dataset), self._set, self._there()
        splits = {split: self._split_card(split, name) for split, name in there.items()}
        return DetectionCard(
            dataset=entry.name,
            title=entry.title,
            format=found.format,
            classes=found.classes,
            category_ids=found.category_ids,
            splits=splits,
            files=self.fingerprint(),
            notes=[*found.notes, *self._remarks(there)],
        )

    def _split_card(self, split: str, name: str) -> DetectionSplitCard:
        found, used = self._set.splits[name], self.images(split)
        bare = 0
        if split == "train" and not self.config.empty_images:
            bare = sum(i.file is not None and bool(i.crowd_N.all()) for i in found.images)
        return describe_split(name, found, used, self.classes, bare)

    def _remarks(self, there: dict[str, str]) -> list[str]:
        notes = []
        if there.get("val") and there.get("val") == there.get("test"):
            notes.append(f"validation and test are the same images, {there['val']}")
        files = {name: {i.file for i in self.images(split)} for split, name in there.items()}
        names = list(files)
        for place, first in enumerate(names):
            for second in names[place + 1 :]:
                if both := len(files[first] & files[second]):
                    notes.append(f"{both:,} images are in both {first} and {second}")
        if "train" in there:
            labels = {int(label) for image in self.images("train") for label in image.labels_N}
            bare = [name for i, name in enumerate(self.classes, 1) if i not in labels]
            if bare:
                notes.append(f"{len(bare):,} classes have no box in training, {some(bare)}")
        return notes


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _placed(path: Path, root: Path) -> str:
    """Name a file; outside of the root with its folder, since splits may name theirs alike."""
    outside = f"{path.parent.name}/{path.name}"
    return _relative(path, root) if path.is_relative_to(root) else outside


def _together(paths: Sequence[Path], root: Path) -> str:
    """Hash many files as one: each one's name and hash."""
    lines = [f"{_relative(path, root)} {sha256_file(path)}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _names_and_sizes(images: Sequence[DetectionImage], root: Path) -> str:
    """Hash each image file's name and size in bytes."""
    digest = hashlib.sha256()
    for image in images:
        if image.file is not None:
            with reading(image.file):
                size = image.file.stat().st_size
            digest.update(f"{_relative(image.file, root)} {size}\n".encode())
    return digest.hexdigest()
