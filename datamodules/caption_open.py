"""From a folder to its captions: finds the annotation files by content."""

from __future__ import annotations

from pathlib import Path

from .caption_coco import read_coco
from .caption_cocotalk import read_cocotalk, read_words
from .caption_config import CaptionDataConfig
from .caption_files import Kind, kind_of
from .caption_flickr import is_flickr_text, read_flickr
from .caption_records import CaptionSet, some
from .caption_splits import apply_splits
from .errors import DataError
from .files import reading
from .image_files import image_files

_SKIPPED = {"results", "predictions"}


def open_captions(config: CaptionDataConfig, root: Path) -> CaptionSet:
    """Read the captions below a folder, with splits and, where files fix it, the vocabulary.

    Raises:
        DataError: no captions, several files of which none is clearly meant, or bad content.
    """
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the folder of {config.dataset} as root.")
    with reading(root):
        found = _found(config, root)
        captions = _read(config, root, found)
        if captions.format in ("COCO captions JSON", "captions.txt"):
            split_file = _below(root, config.split_file)
            apply_splits(captions, root, split_file)
        elif config.split_file:
            raise DataError(
                f"{captions.files[0]} has splits of its own: leave out "
                f"split_file={config.split_file}."
            )
    if config.vocabulary:
        captions.vocabulary = read_words(_below(root, config.vocabulary) or config.vocabulary)
    elif captions.vocabulary is None and len(found["cocotalk"]) == 1:
        captions.vocabulary = read_words(found["cocotalk"][0])
        captions.files += found["cocotalk"]
        captions.notes.append(f"words and their ids are those of {found['cocotalk'][0].name}")
    return captions


def has_captions(root: Path) -> bool:
    """Tell whether a folder has an annotation file of captions."""
    return root.is_dir() and any(_candidates(root).values())


def _below(root: Path, path: Path | None) -> Path | None:
    """Take a path as relative to root where it is there, else as it is."""
    return root / path if path is not None and (root / path).exists() else path


def _candidates(root: Path) -> dict[str, list[Path]]:
    """Sort the annotation files in a folder and its subfolders by kind."""
    found: dict[str, list[Path]] = {"karpathy": [], "coco": [], "cocotalk": [], "text": []}
    for folder in (root, *sorted(p for p in root.iterdir() if p.is_dir())):
        if folder.name in _SKIPPED:
            continue
        for path in sorted(folder.glob("*.json")):
            if path.is_file() and (kind := kind_of(path)):
                found[kind].append(path)
        texts = [*folder.glob("captions.txt"), *folder.glob("*.token.txt")]
        found["text"] += [path for path in sorted(texts) if is_flickr_text(path)]
    return found


def _found(config: CaptionDataConfig, root: Path) -> dict[str, list[Path]]:
    if config.captions is None:
        return _candidates(root)
    path = _below(root, config.captions) or config.captions
    found: dict[str, list[Path]] = {"karpathy": [], "coco": [], "cocotalk": [], "text": []}
    kind: Kind | None = kind_of(path)
    if kind is None and not is_flickr_text(path):
        raise DataError(
            f"{path} is no captions file; expected Karpathy's, COCO's or cocotalk JSON, or a "
            "captions.txt."
        )
    found[kind or "text"].append(path)
    return found


def _read(config: CaptionDataConfig, root: Path, found: dict[str, list[Path]]) -> CaptionSet:
    from .karpathy import read_karpathy

    if found["karpathy"]:
        return read_karpathy(_one(found["karpathy"], config.dataset))
    if found["cocotalk"]:
        return read_cocotalk(_one(found["cocotalk"], config.dataset))
    if found["coco"]:
        return _read_coco(found["coco"], root)
    if found["text"]:
        return read_flickr(_one(found["text"], config.dataset))
    raise DataError(
        f"{root} has no captions; expected Karpathy's dataset JSON, COCO's captions JSON, "
        "cocotalk.json with its labels, or captions.txt, there or in a folder below it."
    )


def _one(paths: list[Path], dataset: str) -> Path:
    """Choose the only file, or the one that has the data set's name."""
    named = [path for path in paths if path.stem.endswith(dataset.removesuffix("-captions"))]
    chosen = paths if len(paths) == 1 else named
    if len(chosen) != 1:
        names = ", ".join(path.name for path in paths)
        raise DataError(
            f"{paths[0].parent} has several files of captions ({names}); name one with captions=."
        )
    return chosen[0]


def _read_coco(paths: list[Path], root: Path) -> CaptionSet:
    """Join the files of training and validation."""
    roles = {"train": [p for p in paths if "train" in p.name]}
    roles["val"] = [p for p in paths if p not in roles["train"]]
    parts = [_nested(role, files, root) for role, files in roles.items() if files]
    joined = parts[0]
    for part in parts[1:]:
        joined.images += part.images
        joined.files += part.files
        joined.notes += part.notes
    known: set[int | str] = set()
    for image in joined.images:
        if image.id in known:
            raise DataError(f"Image {image.id} is in both {' and '.join(map(str, joined.files))}.")
        known.add(image.id)
    return joined


def _nested(split: str, paths: list[Path], root: Path) -> CaptionSet:
    """Read the one file of a split; of a file and parts of it, the one whose images are there."""
    read = [read_coco(path, split) for path in paths]
    if len(read) == 1:
        return read[0]
    there = image_files(root)
    whole = [c for c in read if all(image.file_name in there for image in c.images)]
    if len(whole) != 1:
        names = ", ".join(path.name for path in paths)
        raise DataError(
            f"{paths[0].parent} has several files of captions ({names}); name one with captions=."
        )
    others = [path.name for path in paths if path not in whole[0].files]
    whole[0].notes.append(
        f"{whole[0].files[0].name} is read since all its images are there, unlike those of "
        f"{len(others)} other files, {some(others)}"
    )
    return whole[0]
