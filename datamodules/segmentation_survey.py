"""Reading a split's headers and labels once: sizes, classes and hashes."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .files import reading
from .images import image_size
from .prefetch import ahead
from .segmentation_loader import SegmentationSplit, check_size
from .segmentation_records import IGNORED, LabelCode, LabelledImage

_WHOLE = 256 << 20


@dataclass(frozen=True)
class Survey:
    """What a split holds.

    Attributes:
        sizes: number of images by width and height.
        pixels_C: pixels of each class.
        void: pixels that are ignored; 0 without labels.
        bytes_decoded: bytes of all decoded images and labels.
    """

    sizes: Counter[tuple[int, int]]
    pixels_C: np.ndarray
    void: int

    @property
    def bytes_decoded(self) -> int:
        """Bytes of all images and label maps, decoded."""
        return sum(4 * width * height * number for (width, height), number in self.sizes.items())


def survey(split: SegmentationSplit, classes: int, workers: int) -> Survey:
    """Read the header of each image and all labels of a split.

    Args:
        split: the images.
        classes: number of classes.
        workers: threads that read labels.

    Raises:
        DataError: a header or a label file that can't be read, or labels that are not as large as
            their image.
    """
    sizes: Counter[tuple[int, int]] = Counter()
    counts = np.zeros(256, np.int64)
    found = ahead(
        lambda item: _look(item, split.code), split.images, workers=workers, depth=4 * workers
    )
    for size, pixels in found:
        sizes[size] += 1
        counts += pixels
    return Survey(sizes, counts[:classes], int(counts[IGNORED]))


def _look(item: LabelledImage, code: LabelCode) -> tuple[tuple[int, int], np.ndarray]:
    size = image_size(item.image)
    if item.labels is None:
        return size, np.zeros(256, np.int64)
    labels_HW = code.read(item.labels)
    check_size(item, size, labels_HW.shape[::-1])
    return size, np.bincount(labels_HW.ravel(), minlength=256)


def hash_images(images: Sequence[LabelledImage]) -> tuple[dict[str, str], bool]:
    """Hash the images and the labels of a split, each by names and bytes in order.

    Of more than 256 MiB of files, sizes stand for the bytes, as reading all of them would take
    minutes at each start.

    Returns:
        SHA-256 of ``images`` and ``labels`` (where there are some); and whether all bytes count.
    """
    paths = {
        "images": [item.image for item in images],
        "labels": [item.labels for item in images if item.labels is not None],
    }
    hashes = {}
    with reading(images[0].image.parent):
        whole = sum(path.stat().st_size for each in paths.values() for path in each) <= _WHOLE
        for name, each in paths.items():
            digest = hashlib.sha256()
            for path in each:
                digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
                if whole:
                    digest.update(path.read_bytes())
            if each:
                hashes[name] = digest.hexdigest()
    return hashes, whole


def threads(workers: int) -> int:
    """Say how many threads read labels: at least as many as there are cores, up to eight."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(workers, min(8, cores or 1))
