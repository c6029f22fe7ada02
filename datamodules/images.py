"""Reading image files and label maps: any kind of pixels, one kind of array, one kind of error.

The rotation that cameras note in EXIF is not applied unless asked for: boxes and label maps of the
public data sets are in pixels as they are stored, and turning the image would leave them behind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps

from .errors import DataError

MAX_PIXELS = 1 << 26
"""An image with more pixels is taken for a decompression bomb."""

# No EPS or PDF: those are programs.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_BROKEN = (
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    EOFError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
_GREY_STEPS = {2: 85, 4: 17}  # Pillow spreads grey values of 2 and 4 bits over 0 to 255


def read_image(path: Path, *, upright: bool = False) -> np.ndarray:
    """Read an image as uint8 (H, W, 3), red green blue.

    Grey becomes three equal channels, transparency is dropped, and of 16 bits the upper 8 are kept.

    Args:
        path: JPEG, PNG, BMP, GIF (first frame), TIFF, WebP or PPM, told by content.
        upright: apply the rotation noted in EXIF.

    Raises:
        DataError: no such file, no image, a truncated or broken one, floating-point pixels, or more
            than `MAX_PIXELS`.
    """
    with _opened(path) as image:
        turned = ImageOps.exif_transpose(image) if upright else image
        if turned.mode.startswith("I"):  # I;16, I;16B, I
            return np.repeat(_eight_bits(path, turned)[..., None], 3, axis=2)
        if turned.mode == "F":
            raise DataError(
                f"{path} has floating-point pixels, whose range nobody knows; store it with 8 or "
                "16 bits."
            )
        if turned.mode == "P":  # by way of RGBA, which knows transparent entries
            turned = turned.convert("RGBA")
        return np.array(turned.convert("RGB"))


def image_size(path: Path) -> tuple[int, int]:
    """Give width and height in stored pixels; reads the header only.

    Raises:
        DataError: as `read_image`, as far as the header tells.
    """
    with _opened(path) as image:
        return image.size


def size_of_annotated(path: Path) -> tuple[int, int]:
    """Give width and height of an image whose annotation doesn't say them.

    Raises:
        DataError: as `image_size`; also if EXIF says how to turn it, since nobody knows then
            whether it was annotated turned.
    """
    with _opened(path) as image:
        try:
            orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
        except _BROKEN:  # bad EXIF says nothing
            orientation = 1
        if orientation in range(2, 9):
            raise DataError(
                f"{path} is stored turned (EXIF orientation {orientation}), and its annotation "
                "doesn't say for which way its boxes are: store it as it is looked at, and boxes "
                "for that."
            )
        return image.size


def read_labels(path: Path) -> np.ndarray:
    """Read a label map as integers (H, W): palette indices or grey values as they are stored.

    Args:
        path: PNG, BMP, GIF or TIFF of one channel with 1 to 16 bits.

    Raises:
        DataError: as `read_image`; also colours, and JPEG, whose values are not the written ones.
    """
    with _opened(path) as image:
        if image.format in ("JPEG", "MPO"):
            raise DataError(f"{path} is a JPEG, which changes label values; store labels as PNG.")
        if image.mode not in ("1", "L", "P") and not image.mode.startswith("I"):
            raise DataError(
                f"{path} is a colour picture ({image.mode}) and no label map; give the files with "
                "one value a pixel."
            )
        labels = np.array(image)
        if image.mode == "1":
            return labels.astype(np.uint8)
        if image.mode == "L" and image.format == "PNG":
            labels //= _GREY_STEPS.get(_png_bits(path), 1)
        return labels


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image; whatever goes wrong with it inside the block becomes a DataError."""
    try:
        with Image.open(path, formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(
                    f"{path} has {image.width:,} x {image.height:,} pixels, more than any image "
                    "here should have; remove it or make it smaller."
                )
            yield image
    except DataError:
        raise
    except OSError as error:
        if error.strerror:
            raise DataError(f"{path} can't be read: {error.strerror}.") from error
        raise DataError(_broken(path, error)) from error
    except _BROKEN as error:
        raise DataError(_broken(path, error)) from error


def _broken(path: Path, error: BaseException) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return f"{path} is no whole image ({said[:120]}); copy it again."


def _eight_bits(path: Path, image: Image.Image) -> np.ndarray:
    """Give the upper 8 of 16 bits, (H, W)."""
    values = np.array(image)
    if values.min() < 0 or values.max() > 65535:
        raise DataError(f"{path} has pixels of 32 bits; store it with 8 or 16 bits.")
    return (values.astype(np.uint16) >> 8).astype(np.uint8)


def _png_bits(path: Path) -> int:
    """Give the bits a channel that a PNG's header names."""
    with path.open("rb") as stream:
        return stream.read(25)[24]
