"""Read a torch file for its tensors and options, whatever other objects it holds, and run none."""

from __future__ import annotations

import argparse
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch


class CheckpointError(ValueError):
    """A file that torch didn't write, or that can't be read as data alone."""


def load_tensors_and_options(path: Path) -> Any:
    """The content of a file of ``torch.save``: tensors, plain containers and ``argparse`` options.

    Training frameworks also store meters, dictionaries and the like. Those would have to be
    imported; here each becomes an inert object instead, so that old checkpoints can be read
    without their framework and without trust.

    Raises:
        CheckpointError: the file can't be read; one sentence that says why and what to do.
    """
    try:
        stand_ins = _stand_ins(path)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} is no file that torch.save wrote, or it is damaged: pass a checkpoint (.pt)"
        ) from error
    try:
        with torch.serialization.safe_globals([argparse.Namespace, *stand_ins]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, ValueError, EOFError, KeyError, TypeError) as error:
        reason = _reason(error)
        raise CheckpointError(
            f"{path} can't be read as data alone ({reason}): if you trust its source, load it "
            "with the program that wrote it and save options and weights anew, as a dict of "
            "plain values and tensors"
        ) from error


def _reason(error: Exception) -> str:
    """The sentence of torch's long message that says what stood in the way."""
    _, _, after = str(error).rpartition("WeightsUnpickler error:")
    lines = [line.strip() for line in after.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Weights only", "Check the"))]
    return (telling[0] if telling else type(error).__name__).partition(". ")[0].rstrip(".")


class _Opaque:
    """Stands in for any object of a checkpoint that isn't needed; keeps and runs nothing."""

    def __new__(cls, *_: object, **__: object) -> _Opaque:
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def _stand_ins(path: Path) -> list[Any]:
    """What else the file refers to (meters, dictionaries, …), each with an inert stand-in.

    The file is disassembled, not run. torch's own classes keep their meaning, and what torch
    blocks stays blocked.
    """
    known = ("torch.", "collections.OrderedDict", "argparse.Namespace")
    return [(_Opaque, name) for name in sorted(set(_globals(path))) if not name.startswith(known)]


def _globals(path: Path) -> Iterator[str]:
    """Dotted names of the classes and functions that a torch file refers to."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                if entry.endswith("/data.pkl"):
                    with archive.open(entry) as stream:
                        yield from _globals_of(stream)
    else:
        with path.open("rb") as stream:
            for _ in range(4):  # magic number, version, byte order, and then the object
                yield from _globals_of(stream)


def _globals_of(stream: IO[bytes]) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name == "GLOBAL":
            yield str(argument).replace(" ", ".")
