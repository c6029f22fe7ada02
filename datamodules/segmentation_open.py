"""Opening a segmentation set by its name and what its folder holds."""

from __future__ import annotations

from pathlib import Path

from .cityscapes import IMAGES, LABELS, open_cityscapes
from .errors import DataError
from .files import reading
from .label_classes import ClassList, read_classes
from .label_folders import CAMVID, holds_label_folders, open_label_folders
from .registry import dataset_entry
from .segmentation_config import SegmentationDataConfig
from .segmentation_records import SegmentationSet

_CLASSES = {"camvid": CAMVID}


def open_segmentation(config: SegmentationDataConfig, root: Path) -> SegmentationSet:
    """Find the files of a set; the layout is told by the folder.

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
        in_cityscapes = root.name in (IMAGES, LABELS) or has_segmentation(root)
        plain = holds_label_folders(root) and not in_cityscapes
    leave_out = config.missing == "leave_out"
    if entry.name not in _CLASSES and config.classes_file is None and not plain:
        return open_cityscapes(root, leave_out=leave_out, with_test=entry.name == "demo")
    return open_label_folders(root, _class_list(config, root), leave_out=leave_out)


def has_segmentation(root: Path) -> bool:
    """Tell whether a folder holds images in the layout of Cityscapes, as the demo's does."""
    with reading(root):
        return (root / IMAGES).is_dir()


def _class_list(config: SegmentationDataConfig, root: Path) -> ClassList:
    if config.classes_file is not None:
        return read_classes(root / config.classes_file, config.void_values)
    known = _CLASSES.get(config.dataset)
    if known is None:
        raise DataError(
            f"{root} holds image and label folders, but not what the labels mean; set classes_file "
            "to a list of the classes (a name a line, or value,name)."
        )
    return known
