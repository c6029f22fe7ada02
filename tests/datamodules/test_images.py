"""Images of any kind become RGB of 8 bits, label maps keep their numbers, broken files say so."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.images import image_size, read_image, read_labels

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "ppm", "webp"])
def test_lossless_files_are_read_as_they_were_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    Image.fromarray(PIXELS).save(path, None, **({"lossless": True} if ending == "webp" else {}))
    found = read_image(path)
    assert found.dtype == np.uint8
    assert np.array_equal(found, PIXELS)
    assert found.flags.writeable
    assert image_size(path) == (7, 5)


def test_the_content_and_not_the_ending_says_what_a_file_is(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    assert np.array_equal(read_image(tmp_path / "a.jpg"), PIXELS)


def test_grey_becomes_three_equal_channels(tmp_path: Path) -> None:
    grey = PIXELS[..., 0]
    Image.fromarray(grey).save(tmp_path / "grey.png")
    assert np.array_equal(read_image(tmp_path / "grey.png"), np.stack([grey] * 3, -1))


def test_transparency_is_dropped_and_the_colour_beneath_it_stays(tmp_path: Path) -> None:
    alpha = np.full((5, 7, 1), 3, np.uint8)
    Image.fromarray(np.concatenate([PIXELS, alpha], 2)).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), PIXELS)


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1], [1, 2]], np.uint8), "P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    image.save(tmp_path / "a.png", transparency=1)
    assert read_image(tmp_path / "a.png")[0].tolist() == [[10, 20, 30], [40, 50, 60]]


def test_of_sixteen_bits_the_upper_eight_are_kept(tmp_path: Path) -> None:
    deep = np.array([[0, 255, 256, 65535], [512, 700, 40000, 1]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png")[..., 1], deep >> 8)
    assert np.array_equal(read_labels(tmp_path / "a.png"), deep)


def test_cmyk_and_images_of_one_row_are_read(tmp_path: Path) -> None:
    Image.new("CMYK", (9, 4), (0, 0, 0, 0)).save(tmp_path / "a.jpg")
    assert read_image(tmp_path / "a.jpg").shape == (4, 9, 3)
    assert read_image(tmp_path / "a.jpg").min() > 250
    Image.fromarray(PIXELS[:1]).save(tmp_path / "row.png")
    assert np.array_equal(read_image(tmp_path / "row.png"), PIXELS[:1])


def test_the_noted_rotation_is_applied_only_when_asked_for(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png"), PIXELS)
    turned = read_image(tmp_path / "a.png", upright=True)
    assert np.array_equal(turned, np.rot90(PIXELS, -1))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("palette", [False, True])
def test_label_values_are_those_in_the_file(tmp_path: Path, bits: int, palette: bool) -> None:
    """Pillow spreads grey values of 2 and 4 bits over 0 to 255, which is undone."""
    labels = (np.arange(30).reshape(5, 6) % 2**bits).astype(np.uint8)
    path = tmp_path / "labels.png"
    if palette:
        image = Image.fromarray(labels, "P")
        image.putpalette([v for i in range(2**bits) for v in (i, 255 - i, 7)])
        image.save(path, bits=bits)
    else:
        path.write_bytes(_grey_png(labels, bits))
    assert np.array_equal(read_labels(path), labels)


def _grey_png(labels: np.ndarray, bits: int, size: tuple[int, int] | None = None) -> bytes:
    """Write a grey PNG of any depth, which Pillow doesn't; its header may name another size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    height, width = labels.shape
    every = np.unpackbits(labels[..., None], axis=2)[..., 8 - bits :].reshape(height, -1)
    rows = b"".join(b"\0" + np.packbits(row).tobytes() for row in every)
    head = struct.pack(">IIBBBBB", *(size or (width, height)), bits, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_truncated_files_are_named(tmp_path: Path, ending: str) -> None:
    whole = tmp_path / f"whole.{ending}"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)).save(whole)
    path = tmp_path / f"cut.{ending}"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(DataError, match=f"cut.{ending} is no whole image.*copy it again"):
        read_image(path)
    assert image_size(path) == (64, 64)  # the header is whole


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x89PNG\r\n\x1a\n", b"%!PS"])
def test_other_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match="a.png is no whole image"):
        read_image(path)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_damaged_file_never_raises_anything_else(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    for ending in ("png", "jpg", "gif", "tif"):
        path = tmp_path / f"a.{ending}"
        Image.fromarray(PIXELS).save(path)
        whole = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(40):
            damaged = whole.copy()
            places = random.integers(8, len(whole), 4)
            damaged[places] = random.integers(0, 256, 4)
            path.write_bytes(damaged.tobytes())
            try:
                read_image(path)
            except DataError as error:
                assert str(path) in str(error)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing.png can't be read: No such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(DataError, match="can't be read: Is a directory"):
        image_size(tmp_path)


def test_a_decompression_bomb_is_refused_from_its_header(tmp_path: Path) -> None:
    path, grey = tmp_path / "bomb.png", np.zeros((2, 2), np.uint8)
    path.write_bytes(_grey_png(grey, 8, (9000, 9000)))
    with pytest.raises(DataError, match="bomb.png has 9,000 x 9,000 pixels"):
        read_image(path)
    path.write_bytes(_grey_png(grey, 8, (20000, 20000)))  # beyond the limit of Pillow itself
    with pytest.raises(DataError, match="bomb.png is no whole image"):
        image_size(path)


def test_what_is_no_label_map_is_refused(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "colour.png")
    with pytest.raises(DataError, match="colour.png is a colour picture"):
        read_labels(tmp_path / "colour.png")
    Image.fromarray(PIXELS[..., 0]).save(tmp_path / "lossy.jpg")
    with pytest.raises(DataError, match="lossy.jpg is a JPEG, which changes label values"):
        read_labels(tmp_path / "lossy.jpg")
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(DataError, match="floating-point pixels"):
        read_image(tmp_path / "float.tif")
