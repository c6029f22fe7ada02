"""Where the images of a data set lie."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .files import reading

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif"})


def image_files(root: Path) -> dict[str, Path]:
    """Give all image files below a folder by their file name alone.

    Raises:
        DataError: a folder can't be read.
    """
    with reading(root):
        return {
            path.name: path
            for path in sorted(root.rglob("*"))
            if path.suffix.lower() in ENDINGS and path.is_file()
        }


def visible(paths: Iterable[Path]) -> list[Path]:
    """Sort paths by name, without hidden ones, such as those that macOS puts into archives."""
    return sorted(path for path in paths if not path.name.startswith("."))
