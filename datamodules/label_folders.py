"""Reader of plain folders of images and label images, such as CamVid in SegNet's copy.

Images and labels share their names but for the ending, in either of two layouts: ``train`` beside
``trainannot``, and so on for ``val`` and ``test``; or ``images/train`` beside ``labels/train``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .errors import DataError
from .files import reading
from .image_files import ENDINGS, visible
from .label_classes import ClassList
from .segmentation_records import LabelCode, LabelledImage, SegmentationSet, pair

CAMVID = ClassList(
    source="CamVid",
    values=tuple(range(11)),
    names=(
        "sky",
        "building",
        "pole",
        "road",
        "pavement",
        "tree",
        "sign",
        "fence",
        "car",
        "pedestrian",
        "bicyclist",
    ),
    palette=(
        (128, 128, 128),
        (128, 0, 0),
        (192, 192, 128),
        (128, 64, 128),
        (60, 40, 222),
        (128, 128, 0),
        (192, 128, 128),
        (64, 64, 128),
        (64, 0, 128),
        (64, 64, 0),
        (0, 128, 192),
    ),
    void=frozenset({11}),
)
"""The eleven classes of SegNet's copy, whose label 11 is void."""

_SPLITS = ("train", "val", "test")


def holds_label_folders(root: Path) -> bool:
    """Tell whether a folder has one of the two layouts, with any split."""
    return any(images.is_dir() for _, images, _ in _places(root))


def open_label_folders(
    root: Path, classes: ClassList, *, leave_out: bool = False
) -> SegmentationSet:
    """Find images and labels in plain folders; a split without a label folder has no labels.

    Args:
        root: the folder.
        classes: what the label values mean.
        leave_out: leave out images without labels and labels without an image, and count them.

    Raises:
        DataError: there is no folder of images, an empty one, two images of one name, or something
            without a partner.
    """
    splits: dict[str, tuple[LabelledImage, ...]] = {}
    unlabelled: dict[str, str] = {}
    dropped: dict[str, Mapping[str, int]] = {}
    with reading(root):
        places = [place for place in _places(root) if place[1].is_dir()]
        if not places:
            raise DataError(
                f"{root} has neither train and trainannot nor images/train and labels/train; give "
                "the folder that holds them as root."
            )
        for split, images_folder, labels_folder in places:
            images = _by_stem(images_folder)
            if not images:
                raise DataError(
                    f"{images_folder} has no image; add images, or remove the empty folder."
                )
            if not labels_folder.is_dir():
                splits[split] = tuple(LabelledImage(name, p, None) for name, p in images.items())
                unlabelled[split] = f"there is no folder {labels_folder}"
                continue
            splits[split], dropped[split] = pair(
                split,
                images,
                _by_stem(labels_folder),
                leave_out=leave_out,
                folder=labels_folder,
                ending=".png",
            )
    return SegmentationSet(
        format="image and label folders",
        classes=classes.names,
        palette=classes.palette,
        label_ids=classes.values,
        code=LabelCode(
            name=f"the labels of {classes.source}",
            classes={value: number for number, value in enumerate(classes.values)},
            void=classes.void,
            hint="correct the file, or declare the value in classes_file or void_values",
        ),
        splits=splits,
        unlabelled=unlabelled,
        dropped=dropped,
    )


def _places(root: Path) -> list[tuple[str, Path, Path]]:
    """Give each split with its folder of images and its folder of labels, there or not."""
    if (root / "images").is_dir():
        return [(split, root / "images" / split, root / "labels" / split) for split in _SPLITS]
    return [(split, root / split, root / f"{split}annot") for split in _SPLITS]


def _by_stem(folder: Path) -> dict[str, Path]:
    """Give the image files of a folder by name without ending; other files are passed over."""
    found: dict[str, Path] = {}
    for path in visible(folder.iterdir()):
        if path.suffix.lower() not in ENDINGS or path.is_dir():
            continue
        if path.stem in found:
            raise DataError(
                f"{found[path.stem]} and {path.name} differ in their endings only, so that nobody "
                "can tell which one is meant; remove one."
            )
        found[path.stem] = path
    return found
