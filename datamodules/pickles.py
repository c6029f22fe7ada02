"""Reading pickles of plain data and numpy arrays, and nothing else, from files that may be hostile.

A pickle is a program that may fetch any function and call it. Here nothing is ever fetched: the few
names that arrays and containers need lead to functions of this module, which check what they are
given; every other name is refused. Arrays are put together only from parts of the right size, so
that a small file can't ask for much memory.
"""

from __future__ import annotations

import copyreg
import gzip
import io
import itertools
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import DataError

_SCANNED = 1 << 22
"""Bytes up to which a pickle's instructions are looked through before any is followed."""

_INSTRUCTIONS = {each.code.encode("latin1"): each for each in pickletools.opcodes}

_SHOWN = 200
_DTYPE = re.compile(r"b1|[iu][1248]|f(2|4|8|16)|c(8|16|32)|[SU][1-9]\d{0,8}|O[48]?")
_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive, as torch.save and np.savez write it",
    b"\x93NUMPY": "a .npy file",
    b"\x89HDF": "an HDF5 file",
    b"version https://git-lfs": "the pointer of a file in Git LFS, not the file",
}


class _Refused(ValueError):
    """What a pickle holds isn't plain data."""


class _Admitted:
    """Stands for a listed global: callable, and nothing else can be done with it."""

    __slots__ = ("_call", "_name")

    def __init__(self, name: str, call: Callable[..., Any] | None) -> None:
        self._name, self._call = name, call

    def __call__(self, *args: Any) -> Any:
        """Do what numpy or Python means by it; anything else is refused."""
        try:
            if self._call is None:
                raise TypeError
            return self._call(*args)
        except (TypeError, _Refused):
            raise _Refused(f"it calls {self._name} with something else than plain data") from None

    def __setstate__(self, state: object) -> None:
        """Refuse: a pickle may not change it."""
        raise _Refused(f"it changes {self._name}")


class _DType:
    """A dtype as the pickle describes it: its letter and width, then its byte order."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: Any, *_: Any) -> None:
        self._code = code.decode("ascii") if isinstance(code, bytes) else code
        self._order = "="
        if not isinstance(self._code, str) or not _DTYPE.fullmatch(self._code):
            raise _Refused

    def __setstate__(self, state: Any) -> None:
        """Take the byte order; refuse fields, which plain arrays don't have."""
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise _Refused("it describes an array of records, which is no plain data")
        self._order = order

    @property
    def real(self) -> np.dtype[Any]:
        """Numpy's dtype."""
        return np.dtype(self._order + self._code)


class _Parts:
    """The parts of an array, until the whole pickle has been read."""

    __slots__ = ("_array", "_axes", "_data", "_dtype", "_order", "_shape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._array: np.ndarray | None = None
        self._dtype: np.dtype[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        """Take numpy's state: version, shape, dtype, whether in Fortran's order, data."""
        shape, dtype, fortran, data = state[-4:]
        self.fill(shape, dtype, "F" if fortran else "C", data)

    def fill(self, shape: Any, dtype: Any, order: Any, data: Any, axes: Any = None) -> None:
        """Keep the parts of an array, once; order ``K`` is ``C`` with the axes exchanged."""
        known = order in ("C", "F") if axes is None else order == "K"
        if self._dtype is not None or not isinstance(dtype, _DType) or not known:
            raise _Refused("it describes an array otherwise than numpy does")
        self._shape, self._dtype, self._data = shape, dtype.real, data
        self._order: Any = "F" if order == "F" else "C"
        self._axes = axes

    def build(self, finish: Callable[[Any], Any]) -> np.ndarray:
        """Make the array; `finish` is applied to the elements of an object array."""
        if self._array is None:
            if self._dtype is None:
                raise ValueError("an array without content")
            flat = self._flat(self._dtype)
            shaped = flat.reshape(self._shape, order=self._order)
            self._array = shaped if self._axes is None else shaped.transpose(self._axes)
            if self._dtype.hasobject:
                for place, element in enumerate(self._data):
                    flat[place] = finish(element)
        return self._array

    def _flat(self, dtype: np.dtype[Any]) -> np.ndarray:
        """Give the elements in a row, objects still empty, if the data are as many as the shape."""
        size = math.prod(self._shape)
        if min(self._shape, default=0) < 0:
            raise ValueError(f"an array of shape {self._shape}")
        if dtype.hasobject:
            if not isinstance(self._data, list) or len(self._data) != size:
                raise ValueError(f"an array of shape {self._shape} without as many objects")
            return np.empty(size, object)
        data = _raw(self._data)
        if len(data) != size * dtype.itemsize:
            raise ValueError(f"an array of shape {self._shape} in {len(data):,} bytes")
        return np.frombuffer(data, dtype) if size else np.empty(0, dtype)


def _raw(data: Any) -> bytes | bytearray:
    """Give an array's bytes; Python 2's strings were read as Latin-1."""
    if isinstance(data, str):
        return data.encode("latin1")
    if not isinstance(data, (bytes, bytearray)):
        raise ValueError("an array without bytes")
    return data


def _reconstruct(kind: Any, shape: Any, _: Any) -> _Parts:
    """Begin an array, as numpy's ``_reconstruct(ndarray, (0,), b"b")``."""
    if kind is not _NDARRAY or shape != (0,):
        raise _Refused
    return _Parts()


def _frombuffer(buffer: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> _Parts:
    """Take an array of the pickle protocol 5."""
    parts = _Parts()
    parts.fill(shape, dtype, order, buffer, axes)
    return parts


def _scalar(dtype: Any, data: Any) -> Any:
    """Make a numpy scalar of its bytes."""
    if not isinstance(dtype, _DType) or dtype.real.hasobject:
        raise _Refused
    if len(_raw(data)) != dtype.real.itemsize:
        raise ValueError(f"a {dtype.real} of {len(_raw(data))} bytes")
    return np.frombuffer(_raw(data), dtype.real)[0]


def _encode(text: Any, encoding: Any) -> bytes:
    """Give bytes that Python 3 wrote by a protocol that has none."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Refused
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _mapping(*args: Any) -> dict[Any, Any]:
    """An ``OrderedDict`` as a dictionary."""
    return dict(*args)


def _defaults(*_: Any) -> dict[Any, Any]:
    """A ``defaultdict`` as a dictionary; what it would make of new keys isn't kept."""
    return {}


_NDARRAY = _Admitted("numpy.ndarray", None)


def _listed() -> dict[tuple[str, str], _Admitted]:
    """Give every global that a pickle may name."""
    calls: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "dtype"): _DType,
        ("collections", "OrderedDict"): _mapping,
        ("collections", "defaultdict"): _defaults,
    }
    for core in ("numpy.core", "numpy._core"):
        calls[f"{core}.multiarray", "_reconstruct"] = _reconstruct
        calls[f"{core}.multiarray", "scalar"] = _scalar
        calls[f"{core}.numeric", "_frombuffer"] = _frombuffer
    for builtins in ("builtins", "__builtin__"):
        calls |= {(builtins, kind.__name__): kind for kind in (int, float, set, frozenset)}
        calls[builtins, "bytes"] = _no_bytes
    calls["__builtin__", "long"] = int  # as Python 3 calls int in protocols of Python 2
    calls |= {(module, "encode"): _encode for module in ("_codecs", "codecs")}
    listed = {name: _Admitted(".".join(name), call) for name, call in calls.items()}
    return listed | {("numpy", "ndarray"): _NDARRAY}


_LISTED = _listed()


class _PlainUnpickler(pickle.Unpickler):
    """Knows the listed names alone, and whether any was one of numpy's."""

    arrays = False

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _LISTED:
            raise _Refused(f"it holds {module_name}.{global_name}, which is no plain data")
        self.arrays |= module_name.startswith("numpy")
        return _LISTED[module_name, global_name]

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"it refers to something outside itself ({str(pid)[:40]!r})")


def read_pickle(
    path: Path, *, encoding: str = "latin1", error: type[ValueError] = DataError
) -> Any:
    """Read a pickle, plain or gzip, of any protocol, of Python 2 or 3, of numpy 1 or 2.

    Admitted are dictionaries, lists, tuples, sets, strings, numbers, numpy arrays of them and numpy
    scalars. Arrays may be read-only; ``OrderedDict`` and ``defaultdict`` become dictionaries.

    Args:
        path: the file.
        encoding: of Python 2's strings; arrays of Python 2 need Latin-1.
        error: class of the errors raised.

    Raises:
        DataError: no such file, no whole pickle, or something else than plain data in it; nothing
            in the file has been run.
    """
    try:
        with path.open("rb") as file:
            return _read(file, encoding)
    except _Refused as found:
        raise error(f"{path} isn't opened: {_shown(found)}; use a file you trust.") from None
    except OSError as found:
        if isinstance(found, gzip.BadGzipFile):
            raise error(f"{path} is damaged ({_shown(found)}); fetch it anew.") from None
        raise error(
            f"can't read {path}: {(found.strerror or str(found)).lower()}; check the path."
        ) from None
    except Exception as found:  # whatever a damaged file makes of the unpickler
        kind = f"{type(found).__name__}: " if type(found) is not ValueError else ""
        raise error(
            f"{path} is no whole pickle ({kind}{_shown(found)}); fetch or make it anew."
        ) from None


def _shown(found: Exception) -> str:
    """Give an error's text, parts of which may come from the file, short and printable."""
    text = str(found)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return text if text.isprintable() else ascii(text)[1:-1]


def _read(file: BinaryIO, encoding: str) -> Any:
    head = file.read(512)
    file.seek(0)
    stream: Any = gzip.GzipFile(fileobj=file) if head.startswith(b"\x1f\x8b") else file
    start = stream.read(_SCANNED + 1)
    _check_start(start[:512])
    if len(start) <= _SCANNED:
        _scan(start)
        stream = io.BytesIO(start)
    else:
        stream.seek(0)
    copyreg.clear_extension_cache()  # or a code could lead past the list
    unpickler = _PlainUnpickler(stream, encoding=encoding)
    found = unpickler.load()
    return _finish(found, {}) if unpickler.arrays else found


def _check_start(head: bytes) -> None:
    if not head:
        raise ValueError("it is empty")
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise ValueError("it is an HTML page, probably an error page of a download server")
    for magic, what in _OTHER_FILES.items():
        if head.startswith(magic):
            raise ValueError(f"it is {what}")


def _scan(content: bytes) -> None:
    """Refuse instructions that data don't need, and memory that so few of them can't need."""
    stream = io.BytesIO(content)
    for number in itertools.count():
        instruction = _INSTRUCTIONS.get(stream.read(1))
        if instruction is None:
            raise ValueError("an instruction that no pickle has" if stream.read(1) else "cut off")
        argument: Any = None
        if instruction.name == "STRING":  # may hold more than the ASCII that pickletools expects
            stream.readline()
        elif instruction.arg is not None:
            argument = instruction.arg.reader(stream)
        if instruction.name == "STOP":
            return
        if instruction.name.startswith("EXT"):
            raise _Refused(f"it holds extension code {argument}, which is no plain data")
        if "PUT" in instruction.name and argument > number + 1:
            raise ValueError(f"place {argument:,} of a table that has {number:,} entries at most")


def _finish(value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    """Put arrays in the place of their parts, everywhere.

    `known` has each container met so far and what became of it, so that shared ones stay shared and
    cycles end.
    """
    if isinstance(value, _Parts):
        return value.build(lambda element: _finish(element, known))
    if isinstance(value, _DType):
        return value.real
    if not isinstance(value, (dict, list, tuple)):
        return value
    if id(value) in known:
        return known[id(value)][1]
    known[id(value)] = value, value
    if isinstance(value, dict):
        for key, each in value.items():
            value[key] = _finish(each, known)
    elif isinstance(value, list):
        value[:] = [_finish(each, known) for each in value]
    else:
        done = [_finish(each, known) for each in value]
        if any(new is not old for new, old in zip(done, value, strict=True)):
            known[id(value)] = value, tuple(done)
    return known[id(value)][1]
