"""Text files as users have them: plain or gzip, checked, hashed; and writing without half files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, plain or gzip, without surrounding white space.

    Only ``\\n`` ends a line: other characters that Unicode counts as line ends occur inside real
    sentences, and splitting there would shift a parallel corpus.

    Raises:
        DataError: missing, empty or HTML file, a ``.gz`` that is no gzip or is cut off, invalid
            UTF-8 (with its line number).
    """
    number = 0
    try:
        with _open(path) as stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                yield raw.decode("utf-8").strip()
        if number == 0:
            raise DataError(_empty(path))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: byte {error.object[error.start]:#04x} is not valid UTF-8; "
            "convert the file to UTF-8."
        ) from error
    except EOFError as error:
        raise DataError(
            f"{path} is cut off after line {number} (the gzip stream has no end); copy it again."
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path} is damaged after line {number} ({error}); copy it again."
        ) from error
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from error


def csv_rows(path: Path, lines: Iterable[str], first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of comma-separated lines with their line numbers; empty lines are left out.

    Args:
        path: the file, for errors.
        lines: its lines, or those behind its heading.
        first: number of the first of the lines.

    Raises:
        DataError: a quote that isn't closed on its line, which would swallow the next ones, or a
            line that can't be taken apart.
    """
    reader = csv.reader(lines, skipinitialspace=True, strict=False)
    number = first
    try:
        for fields in reader:
            if reader.line_num + first - 1 > number:
                raise DataError(f"{path}, line {number}: a quote is not closed; correct it.")
            if fields:
                yield number, fields
            number += 1
    except csv.Error as error:
        raise DataError(f"{path}, line {number}, can't be taken apart: {error}.") from error


def _open(path: Path) -> gzip.GzipFile | BinaryIO:
    """Open by content: gzip data are unpacked whatever the name, and a wrong ``.gz`` is named."""
    stream = path.open("rb")
    head = stream.read(512)
    stream.seek(0)
    if head.startswith(_GZIP_MAGIC):
        return gzip.GzipFile(fileobj=stream)
    try:
        if not head:
            raise DataError(_empty(path))
        if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
            raise DataError(
                f"{path} is an HTML page saved as a file, probably an error page of a download "
                "server; download it again."
            )
        if path.suffix == ".gz":
            raise DataError(
                f"{path} is not gzip data (it starts with {head[:4].hex(' ')} instead of 1f 8b); "
                "copy it again, or drop .gz from its name if it is plain text."
            )
    except DataError:
        stream.close()
        raise
    return stream


def _empty(path: Path) -> str:
    return f"{path} is empty; expected lines of text."


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system inside the block into a DataError that names the path."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or path} can't be read: {error.strerror or error}."
        ) from error


def sha256_file(path: Path) -> str:
    """Give the hexadecimal SHA-256 of a file's bytes.

    Raises:
        DataError: the file can't be read.
    """
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, content: str) -> None:
    """Write a text file so that readers see the old file or the whole new one.

    Raises:
        DataError: the folder can't be written or the disk is full; nothing is left behind.
    """
    handle = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed below, before the rename)
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=path.name, delete=False
        )
        with handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(handle.name, path)
    except BaseException as error:
        if handle is not None:
            Path(handle.name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DataError(f"{path} can't be written: {error.strerror or error}.") from error
        raise
