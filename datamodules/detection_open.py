"""From a folder to its images and boxes: finds the annotations, tells their format by content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .caption_records import some, split_role
from .coco import CocoFile, is_instances, read_instances
from .detection_config import DetectionDataConfig
from .detection_records import DetectionSet, DetectionSplit, ImageFinder, role_of
from .errors import DataError
from .files import read_lines, reading
from .voc import is_voc, read_voc
from .yolo import is_yolo, read_yolo

_SKIPPED = {"results", "predictions"}
_EXPECTED = (
    "COCO instances JSON (annotations/instances_train2017.json), Pascal VOC (Annotations/*.xml "
    "with ImageSets/Main), or YOLO text (images/train and labels/train)"
)


def open_detection(config: DetectionDataConfig, root: Path) -> DetectionSet:
    """Read all annotations below a folder.

    Raises:
        DataError: no annotations, several kinds of them, or bad content.
    """
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the folder of {config.dataset} as root.")
    with reading(root):
        found = _found(config, root)
        if len(found) != 1:
            given = config.annotations and _below(root, config.annotations)
            raise DataError(_not_one(given or root, list(found)))
        return next(iter(found.values()))()


def has_detection(root: Path) -> bool:
    """Tell whether a folder has annotations with boxes."""
    return root.is_dir() and bool(_readers(root))


def _found(config: DetectionDataConfig, root: Path) -> dict[str, Callable[[], DetectionSet]]:
    given = config.annotations
    if given is None:
        return _readers(root)
    path = _below(root, given)
    if path.is_file():
        return {str(path): lambda: read_coco([path], root)}
    files = _instances(path)
    if files:
        return {str(path): lambda: read_coco(files, root)}
    if is_voc(path.parent) and path.name == "Annotations":
        return {str(path): lambda: read_voc(path.parent)}
    if path.is_dir():
        return _readers(path)
    raise DataError(f"annotations={given} is neither a file nor a folder, in {root} or elsewhere.")


def _instances(folder: Path) -> list[Path]:
    """Files of boxes; where some are called instances, COCO's of stuff and others stay out."""
    files = [path for path in sorted(folder.glob("*.json")) if is_instances(path)]
    return [path for path in files if path.name.startswith("instances_")] or files


def _below(root: Path, given: str) -> Path:
    return root / given if (root / given).exists() else Path(given)


def _readers(root: Path) -> dict[str, Callable[[], DetectionSet]]:
    """Give a reader for each kind of annotations in a folder and the folders in it."""
    found: dict[str, Callable[[], DetectionSet]] = {}
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir() and p.name not in _SKIPPED)]
    files = [path for folder in folders for path in _instances(folder)]
    if files:
        found["COCO JSON"] = lambda: read_coco(files, root)
    for folder in folders:
        if is_voc(folder):
            found[f"Pascal VOC in {folder}"] = lambda folder=folder: read_voc(folder)
    for folder in folders:
        if is_yolo(folder):
            found[f"YOLO in {folder}"] = lambda folder=folder: read_yolo(folder)
    return found


def _not_one(root: Path, found: list[str]) -> str:
    if not found:
        others = sorted(path.name for path in root.glob("**/*.json"))[:3]
        seen = f" (its {', '.join(others)} holds none)" if others else ""
        return f"{root} has no annotations with boxes{seen}; expected {_EXPECTED}."
    return (
        f"{root} has annotations of several kinds ({', '.join(found)}); name the file or folder to "
        "use with annotations=."
    )


def read_coco(paths: list[Path], root: Path) -> DetectionSet:
    """Join files of one data set; a single file may name splits itself or by lists beside it.

    Raises:
        DataError: bad content, other categories in one file than in another, or no splits.
    """
    splits: dict[str, DetectionSplit] = {}
    notes: list[str] = []
    categories: dict[int, str] | None = None
    for path in paths:
        name = path.stem.removeprefix("instances_")
        inside = path.parent != root and role_of(path.parent.name)
        if role_of(name) is None and inside:  # train/_annotations.coco.json
            name = path.parent.name
        content = read_instances(path, ImageFinder(_folders(path, root, name)).find)
        if categories is not None and categories != content.categories:
            raise DataError(
                f"{path} has other categories than {paths[0]}; name the files that belong together "
                "with annotations=, a folder or one file."
            )
        categories = content.categories
        parts = _parts(path, root, name, content, alone=len(paths) == 1)
        doubled = [part for part in parts if part in splits]
        if doubled:
            raise DataError(
                f"{path} is a second file for {doubled[0]}; name the one to use with annotations=."
            )
        splits |= parts
        if content.images and not any(part.counts for part in parts.values()):
            notes += [
                f"{number:,} {what}, in {path.name}" for what, number in content.counts.items()
            ]
            unlisted = len(content.images) - sum(len(part.images) for part in parts.values())
            notes += [f"{unlisted:,} images of {path.name} are in no split"] if unlisted else []
    categories = categories or {}
    return DetectionSet(
        "COCO instances JSON", tuple(categories.values()), tuple(categories), splits, notes=notes
    )


def _folders(path: Path, root: Path, name: str) -> list[Path]:
    """Give the folders where the images of an annotation file may lie."""
    above = path.parent.parent if path.parent != root else root
    bases = [base for base in (root, above) for base in (base / name, base / "images" / name)]
    return [*bases, root / "images", above / "images", path.parent, root]


def _parts(
    path: Path, root: Path, name: str, content: CocoFile, *, alone: bool
) -> dict[str, DetectionSplit]:
    """Divide a file's images by the split each one names, by lists, or not at all."""
    whole = DetectionSplit(content.images, [path], content.counts)
    if role_of(name) or not alone:
        return {name: whole}
    roles, files = content.splits, [path]
    if not any(roles):
        lists = _lists(root, path)
        roles, files = _by_list(path, lists, content), [path, *lists.values()]
    if not any(roles):
        return {name: whole}
    parts: dict[str, DetectionSplit] = {}
    for image, role in zip(content.images, roles, strict=True):
        if role:
            role = split_role(role) or role
            parts.setdefault(role, DetectionSplit([], files)).images.append(image)
    return parts


def _lists(root: Path, path: Path) -> dict[str, Path]:
    for folder in (path.parent, root, root / "splits", root / "ImageSets" / "Main"):
        found = {role: folder / f"{role}.txt" for role in ("train", "val", "test")}
        found = {role: file for role, file in found.items() if file.is_file()}
        if found:
            return found
    return {}


def _by_list(path: Path, lists: dict[str, Path], content: CocoFile) -> list[str]:
    """Give each image's split by lists of file names, with or without endings, or of ids."""
    known: dict[str, int] = {}
    for number, image in enumerate(content.images):
        file = Path(image.name)
        for name in (str(image.id), file.stem, file.name, image.name):
            known.setdefault(name, number)
    roles = [""] * len(content.images)
    unknown: Counter[str] = Counter()
    for role, file in lists.items():
        for line in read_lines(file):
            number = known.get(line.removeprefix("./"))
            if line and number is None:
                unknown[line] += 1
            elif line and number is not None:
                if roles[number] not in ("", role):
                    raise DataError(f"{file} lists {line}, which is in {roles[number]} already.")
                roles[number] = role
    if unknown:
        raise DataError(
            f"The lists beside {path} name {len(unknown):,} images that it doesn't have, "
            f"{some(list(unknown))}; correct them."
        )
    return roles
