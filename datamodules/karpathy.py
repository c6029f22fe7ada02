"""Karpathy's dataset JSON: ``dataset_coco.json``, ``dataset_flickr8k.json``, ``…30k.json``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from .caption_files import member, read_json
from .caption_records import (
    CaptionImage,
    CaptionSet,
    finish,
    pixel_size,
    simple_tokens,
    split_role,
)
from .errors import DataError

_EXPECTED = "Karpathy's JSON with images, each with split and sentences of tokens and raw"


def read_karpathy(path: Path) -> CaptionSet:
    """Read one file; ``restval`` counts as training, ids are ``cocoid`` or else ``imgid``.

    Tokens are taken as they are, even empty ones or capitals, since vocabularies that were made
    from the file have them.

    Raises:
        DataError: no such file, or something in it is missing, with the number of the entry.
    """
    entries = member(path, read_json(path, _EXPECTED), "images", list, _EXPECTED)
    splits: Counter[str] = Counter()
    joined = 0
    images: list[CaptionImage] = []
    for number, entry in enumerate(entries):
        image, unspaced = _image(path, number, entry)
        splits[str(entry.get("split"))] += 1
        joined += unspaced
        images.append(image)
    notes = []
    if splits["restval"]:
        notes.append(f"{splits['restval']:,} images of restval are part of train")
    unknown = sum(n for name, n in splits.items() if split_role(name) is None)
    if unknown:
        notes.append(f"{unknown:,} images belong to no split and are not used")
    if joined:
        notes.append(f"{joined:,} raw captions lack their spaces; their tokens are used instead")
    return finish(path, "Karpathy JSON", images, notes)


def _image(path: Path, number: int, entry: Any) -> tuple[CaptionImage, int]:
    place = f"{path}, image number {number}"
    if not isinstance(entry, dict):
        raise DataError(f"{place} is no object; expected {_EXPECTED}.")
    ident = entry.get("cocoid", entry.get("imgid"))
    if not isinstance(ident, int) or isinstance(ident, bool):
        raise DataError(f"{place} has neither a cocoid nor an imgid; expected {_EXPECTED}.")
    sentences = entry.get("sentences")
    if not isinstance(sentences, list) or not isinstance(entry.get("split"), str):
        raise DataError(f"{place} lacks sentences or split; expected {_EXPECTED}.")
    tokens: list[list[str]] = []
    raw: list[str] = []
    unspaced = 0
    for sentence in sentences:
        words, text = _sentence(place, sentence)
        if len(words) > 1 and " " not in text.strip():
            text, unspaced = " ".join(words), unspaced + 1
        tokens.append(words)
        raw.append(text)
    parts = [part for part in (entry.get("filepath"), entry.get("filename")) if part]
    if not all(isinstance(part, str) for part in parts):
        raise DataError(f"{place} has a filepath or filename that is no text; correct it.")
    size = pixel_size(entry.get("width"), entry.get("height"))  # some writers add them
    split = split_role(entry["split"]) or ""
    return CaptionImage(ident, split, "/".join(parts), tokens, raw, size), unspaced


def _sentence(place: str, sentence: Any) -> tuple[list[str], str]:
    given = sentence if isinstance(sentence, dict) else {}
    words, text = given.get("tokens"), given.get("raw")
    if words is None and isinstance(text, str):
        words = simple_tokens(text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DataError(f"{place} has a sentence without tokens; expected {_EXPECTED}.")
    return words, text if isinstance(text, str) and text.strip() else " ".join(words)
