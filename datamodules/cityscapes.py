"""Reader of Cityscapes: ``leftImg8bit/{train,val,test}/<city>/`` and the same below ``gtFine``.

Labels are read from ``*_gtFine_labelIds.png``, as the archive has them, or from
``*_gtFine_labelTrainIds.png``, as many training codes want them made: which of the two there is, is
detected by name, and the values are checked when they are read, since files of one kind under the
other's name are a known trap. The labels of the test images are not public; the archive has dummies
in their place. So the images of ``val`` are tested on, as in the papers, and those of ``test`` can
be predicted only, under the name `SERVER`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from .errors import DataError
from .files import reading
from .image_files import visible
from .segmentation_records import LabelCode, LabelledImage, SegmentationSet, pair

IMAGES, LABELS = "leftImg8bit", "gtFine"
"""Names of the folders."""

SERVER = "server"
"""Name of the split whose labels only the benchmark's server has."""


class Class(NamedTuple):
    """One of the 19 evaluated classes: its name, labelId and colour."""

    name: str
    label_id: int
    colour: tuple[int, int, int]


CLASSES: tuple[Class, ...] = (
    Class("road", 7, (128, 64, 128)),
    Class("sidewalk", 8, (244, 35, 232)),
    Class("building", 11, (70, 70, 70)),
    Class("wall", 12, (102, 102, 156)),
    Class("fence", 13, (190, 153, 153)),
    Class("pole", 17, (153, 153, 153)),
    Class("traffic light", 19, (250, 170, 30)),
    Class("traffic sign", 20, (220, 220, 0)),
    Class("vegetation", 21, (107, 142, 35)),
    Class("terrain", 22, (152, 251, 152)),
    Class("sky", 23, (70, 130, 180)),
    Class("person", 24, (220, 20, 60)),
    Class("rider", 25, (255, 0, 0)),
    Class("car", 26, (0, 0, 142)),
    Class("truck", 27, (0, 0, 70)),
    Class("bus", 28, (0, 60, 100)),
    Class("train", 31, (0, 80, 100)),
    Class("motorcycle", 32, (0, 0, 230)),
    Class("bicycle", 33, (119, 11, 32)),
)
"""In the order of their train ids."""

Kind = Literal["labelIds", "labelTrainIds"]
CODES: dict[Kind, LabelCode] = {
    "labelIds": LabelCode(
        name="labelIds (0 to 33)",
        classes={known.label_id: number for number, known in enumerate(CLASSES)},
        void=frozenset(range(34)) - {known.label_id for known in CLASSES},
        hint="if the file holds train ids, name it *_gtFine_labelTrainIds.png; otherwise copy it "
        "from the archive again",
    ),
    "labelTrainIds": LabelCode(
        name="labelTrainIds (0 to 18 and 255)",
        classes={number: number for number in range(len(CLASSES))},
        void=frozenset({255}),
        hint="if the file holds labelIds, name it *_gtFine_labelIds.png; otherwise make the train "
        "ids again",
    ),
}
_IMAGE = "_leftImg8bit.png"
_SPLITS = ("train", "val", "test")


def open_cityscapes(
    root: Path, *, leave_out: bool = False, with_test: bool = False
) -> SegmentationSet:
    """Find images and labels of a folder in the layout of Cityscapes.

    Args:
        root: the folder of ``leftImg8bit`` and ``gtFine``, which may also lie one folder deeper, as
            in ``leftImg8bit_trainvaltest``.
        leave_out: leave out images without labels and labels without an image, and count them.
        with_test: the labels of ``test`` are real ones, and the split is called so.

    Raises:
        DataError: a folder is missing or empty, or something has no partner.
    """
    with reading(root):
        images_root, labels_root = _folder(root, IMAGES), _folder(root, LABELS)
        images = {split: _images(images_root / split) for split in _SPLITS}
        labelled = _SPLITS if with_test else _SPLITS[:2]
        images = {split: found for split, found in images.items() if found}
        labels: dict[str, dict[Kind, dict[str, Path]]] = {
            split: {kind: _labels(labels_root / split, kind) for kind in CODES}
            for split in labelled
            if split in images
        }
    if not labels:
        raise DataError(
            f"{images_root} has no images in train/<city> or val/<city> that end in {_IMAGE}; "
            "unpack leftImg8bit_trainvaltest.zip there."
        )
    kind, note = _choose(images, labels)
    splits: dict[str, tuple[LabelledImage, ...]] = {}
    dropped = {}
    for split, found in labels.items():
        splits[split], dropped[split] = pair(
            split,
            images[split],
            found[kind],
            leave_out=leave_out,
            folder=labels_root / split,
            ending=f"_gtFine_{kind}.png",
        )
    unlabelled = {}
    if "test" in images and not with_test:
        splits[SERVER] = tuple(
            LabelledImage(name, path, None) for name, path in images["test"].items()
        )
        unlabelled[SERVER] = (
            "the labels of Cityscapes' test images are not public, the label files of that split "
            "are dummies; test on val, and send the predictions of this split to the server"
        )
    return SegmentationSet(
        format=f"Cityscapes folders, {kind}",
        classes=tuple(known.name for known in CLASSES),
        palette=tuple(known.colour for known in CLASSES),
        label_ids=tuple(known.label_id for known in CLASSES),
        code=CODES[kind],
        splits={split: _named(found) for split, found in splits.items()},
        unlabelled=unlabelled,
        dropped=dropped,
        notes=tuple(filter(None, [note])),
    )


def _folder(root: Path, name: str) -> Path:
    """Find one of the two folders, in the root or one folder deeper."""
    places = [root / name, *(path / name for path in visible(root.iterdir()) if path.is_dir())]
    for place in places:
        if place.is_dir():
            return place
    raise DataError(
        f"{root} has no folder {name}; give the folder that leftImg8bit_trainvaltest.zip and "
        "gtFine_trainvaltest.zip of Cityscapes were unpacked in as root."
    )


def _images(folder: Path) -> dict[str, Path]:
    """Give the images below a split's folder, by city and frame: ``ulm/ulm_000000_000019``."""
    return _by_name(folder, _IMAGE)


def _labels(folder: Path, kind: Kind) -> dict[str, Path]:
    return _by_name(folder, f"_gtFine_{kind}.png")


def _by_name(folder: Path, ending: str) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    cities = [path for path in visible(folder.iterdir()) if path.is_dir()]
    return {
        f"{city.name}/{path.name.removesuffix(ending)}": path
        for city in cities
        for path in visible(city.iterdir())
        if path.name.endswith(ending)
    }


def _named(images: tuple[LabelledImage, ...]) -> tuple[LabelledImage, ...]:
    """Drop the city's folder from the names where the frames' own names are unlike each other."""
    plain = [image.name.rpartition("/")[2] for image in images]
    if len(set(plain)) < len(plain):
        plain = [image.name.replace("/", "_") for image in images]
    return tuple(
        LabelledImage(name, image.image, image.labels)
        for name, image in zip(plain, images, strict=True)
    )


def _choose(
    images: dict[str, dict[str, Path]], labels: dict[str, dict[Kind, dict[str, Path]]]
) -> tuple[Kind, str]:
    """Choose the kind of label files of which fewest are missing; labelIds of equals."""
    missing: dict[Kind, int] = {
        kind: sum(
            name not in found[kind] for split, found in labels.items() for name in images[split]
        )
        for kind in CODES
    }
    kind: Kind = min(CODES, key=lambda kind: missing[kind])
    other: Kind = "labelTrainIds" if kind == "labelIds" else "labelIds"
    there = sum(len(found[other]) for found in labels.values())
    return kind, f"{there:,} {other} files are there too and not read" if there else ""
