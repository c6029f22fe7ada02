"""The allow-listing unpickler: plain data of all ages are read, whatever could run is refused."""

import copyreg
import gzip
import io
import pickle
import struct
import tracemalloc
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.pickles import read_pickle


class Reduced:
    """Pickles as a call of anything."""

    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        self.call, self.args = call, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call, self.args


def text(word: str) -> bytes:
    """Push a string, protocol 4."""
    data = word.encode()
    return b"\x8c" + bytes([len(data)]) + data if len(data) < 256 else b"X" + sized(data)


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def named(module: str, name: str) -> bytes:
    """Push a global by the oldest instruction."""
    return f"c{module}\n{name}\n".encode()


def stacked(module: str, name: str) -> bytes:
    """Push a global by its names on the stack, where the plain unpickler follows dots."""
    return text(module) + text(name) + b"\x93"


def content_of(data: bytes, folder: Path) -> Any:
    path = folder / "some.pkl"
    path.write_bytes(data)
    return read_pickle(path)


def ran_by_python(data: bytes) -> None:
    """What the plain unpickler makes of it, for showing that a test's pickle does run something."""
    pickle.Unpickler(io.BytesIO(data)).load()  # noqa: S301 (on purpose)


ARRAY = b"\x80\x02" + named("numpy.core.multiarray", "_reconstruct")
F8 = named("numpy", "dtype") + b"X\x02\x00\x00\x00f8K\x00K\x01\x87R"
ORDER = b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(dtype: bytes, shape: bytes, data: bytes) -> bytes:
    """An array in numpy's way, from the instructions that push its parts."""
    start = ARRAY + named("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R"
    return start + b"(K\x01" + shape + dtype + b"\x89" + data + b"tb."


# Pickles that run a command, or would, and the name in the refusal.
MALICIOUS: dict[str, tuple[Callable[[str], bytes], str]] = {
    "os.system by REDUCE": (
        lambda made: b"\x80\x02" + named("os", "system") + b"X" + sized(touch(made)) + b"\x85R.",
        r"os\.system",
    ),
    "eval": (
        lambda made: b"\x80\x02" + named("__builtin__", "eval") + call(f"open({made!r}, 'w')"),
        r"__builtin__\.eval",
    ),
    "exec": (
        lambda made: b"\x80\x04" + stacked("builtins", "exec") + call(f"open({made!r}, 'w')"),
        r"builtins\.exec",
    ),
    "subprocess.Popen by NEWOBJ": (
        lambda made: (
            b"\x80\x02"
            + named("subprocess", "Popen")
            + b"]"
            + item("touch")
            + item(made)
            + b"\x85\x81."
        ),
        r"subprocess\.Popen",
    ),
    "subprocess.Popen by NEWOBJ_EX": (
        lambda made: (
            b"\x80\x04"
            + stacked("subprocess", "Popen")
            + b"]"
            + item("touch")
            + item(made)
            + b"\x85}\x92."
        ),
        r"subprocess\.Popen",
    ),
    "inside an object array": (
        lambda made: pickle.dumps(np.array([Reduced(open, made, "w"), 1], object)),
        r"io\.open",
    ),
    "dots in STACK_GLOBAL": (
        lambda made: (
            b"\x80\x04" + stacked("numpy.lib._npyio_impl", "os.system") + call(f"touch {made}")
        ),
        r"numpy\.lib\._npyio_impl\.os\.system",
    ),
    "dots behind a listed name": (
        lambda made: b"\x80\x04" + stacked("collections", "OrderedDict.__init__.__class__") + b".",
        r"collections\.OrderedDict\.__init__",
    ),
    "INST": (lambda made: f"(S'touch {made}'\nios\nsystem\n.".encode(), r"os\.system"),
    "OBJ": (
        lambda made: b"(" + named("os", "system") + f"S'touch {made}'\no.".encode(),
        r"os\.system",
    ),
    "getattr": (
        lambda made: b"\x80\x04" + stacked("builtins", "getattr") + b".",
        r"builtins\.getattr",
    ),
    "functools.partial": (
        lambda made: b"\x80\x04" + stacked("functools", "partial") + b".",
        r"functools\.partial",
    ),
    "numpy.load": (
        lambda made: b"\x80\x04" + stacked("numpy", "load") + call(made),
        r"numpy\.load",
    ),
    "torch's storage": (
        lambda made: b"\x80\x02" + named("torch.storage", "_load_from_bytes") + b"C\x01x\x85R.",
        r"torch\.storage\._load_from_bytes",
    ),
    "any class by copyreg": (
        lambda made: (
            b"\x80\x02"
            + named("copy_reg", "_reconstructor")
            + named("os", "PathLike")
            + named("__builtin__", "object")
            + b"N\x87R."
        ),
        r"copy_reg\._reconstructor",
    ),
    "state of a listed function": (
        lambda made: (
            b"\x80\x02" + named("numpy", "dtype") + b"N}" + b"X" + sized(b"_call") + b"K\x01s\x86b."
        ),
        r"it changes numpy\.dtype",
    ),
    "attributes of a listed class": (
        lambda made: (
            b"\x80\x02" + named("collections", "OrderedDict") + b"}X" + sized(b"get") + b"K\x01sb."
        ),
        r"it changes collections\.OrderedDict",
    ),
    "_reconstruct of another class": (
        lambda made: ARRAY + named("collections", "OrderedDict") + b"K\x00\x85C\x01b\x87R.",
        r"numpy\.core\.multiarray\._reconstruct",
    ),
    "_reconstruct of a class that isn't listed": (
        lambda made: ARRAY + named("numpy", "memmap") + b"K\x00\x85C\x01b\x87R.",
        r"numpy\.memmap",
    ),
    "ndarray called": (
        lambda made: b"\x80\x02" + named("numpy", "ndarray") + b"K\x05\x85\x85R.",
        r"numpy\.ndarray",
    ),
    "an object scalar with a pickle in it": (
        lambda made: (
            b"\x80\x02"
            + named("numpy.core.multiarray", "scalar")
            + F8.replace(b"\x02\x00\x00\x00f8", b"\x02\x00\x00\x00O8")
            + b"C\x02N.\x86R."
        ),
        r"numpy\.core\.multiarray\.scalar",
    ),
    "a dtype of Python's classes": (
        lambda made: b"\x80\x02" + named("numpy", "dtype") + b"X" + sized(b"O,O") + b"\x85R.",
        r"numpy\.dtype",
    ),
    "another codec": (
        lambda made: (
            b"\x80\x02"
            + named("_codecs", "encode")
            + b"X"
            + sized(b"x")
            + b"X"
            + sized(b"idna")
            + b"\x86R."
        ),
        r"_codecs\.encode",
    ),
    "a persistent id": (lambda made: f"P{made}\n.".encode(), "something outside itself"),
    "a binary persistent id": (
        lambda made: b"\x80\x02X" + sized(made.encode()) + b"Q.",
        "something outside itself",
    ),
    "an extension code": (lambda made: b"\x80\x02\x82\x07.", "extension code 7"),
}


def touch(made: str) -> bytes:
    return f"touch {made}".encode()


def call(word: str) -> bytes:
    return b"X" + sized(word.encode()) + b"\x85R."


def item(word: str) -> bytes:
    return b"X" + sized(word.encode()) + b"a"


@pytest.mark.parametrize("kind", MALICIOUS)
def test_what_could_run_is_refused_by_name_and_not_run(tmp_path: Path, kind: str) -> None:
    made = tmp_path / "made"
    build, name = MALICIOUS[kind]
    with pytest.raises(DataError, match=name) as caught:
        content_of(build(str(made)), tmp_path)
    assert "some.pkl isn't opened: it " in str(caught.value)
    assert "use a file you trust" in str(caught.value)
    assert not made.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_call_is_refused_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    data = pickle.dumps({"train": [Reduced(open, str(made), "w")]}, protocol)
    with pytest.raises(DataError, match=r"holds (_?io|__builtin__)\.open"):
        content_of(data, tmp_path)
    assert not made.exists()


@pytest.mark.parametrize(
    "kind", ["os.system by REDUCE", "eval", "inside an object array", "dots in STACK_GLOBAL", "OBJ"]
)
def test_these_pickles_do_run_where_nothing_is_checked(tmp_path: Path, kind: str) -> None:
    made = tmp_path / "made"
    ran_by_python(MALICIOUS[kind][0](str(made)))
    assert made.exists()


@pytest.mark.parametrize("size", [0, 5_000_000])
def test_registered_extension_codes_lead_nowhere(tmp_path: Path, size: int) -> None:
    """Python keeps what such a code led to and doesn't ask again, so it is asked anew."""
    made = tmp_path / "made"
    copyreg.add_extension("os", "system", 77)
    try:
        ran_by_python(b"\x80\x02\x82\x4d.")  # kept from now on
        padding = b"B" + sized(bytes(size)) + b"0"
        data = b"\x80\x03" + padding + b"\x82\x4dX" + sized(touch(str(made))) + b"\x85R."
        with pytest.raises(DataError, match=r"os\.system|extension code 77"):
            content_of(data, tmp_path)
        assert not made.exists()
        ran_by_python(data)
        assert made.exists()
    finally:
        copyreg.remove_extension("os", "system", 77)
        copyreg.clear_extension_cache()


def test_what_a_refused_pickle_tried_to_change_works_as_before(tmp_path: Path) -> None:
    for kind in ("state of a listed function", "attributes of a listed class"):
        with pytest.raises(DataError):
            content_of(MALICIOUS[kind][0](""), tmp_path)
    data = pickle.dumps([np.arange(3), OrderedDict(a=1)])
    found = content_of(data, tmp_path)
    assert found[0].tolist() == [0, 1, 2] and found[1] == {"a": 1}


BIG = b"\x8a\x06" + (10**12).to_bytes(6, "little")
HUGE = {
    "a shape": array(F8 + ORDER, BIG + b"\x85", b"C\x08" + bytes(8)),
    "a shape of objects": array(
        F8.replace(b"f8", b"O8") + ORDER.replace(b"<", b"|"), BIG + b"\x85", b"]Na"
    ),
    "two negative sides": array(F8 + ORDER, b"K\x00J\xff\xff\xff\xff\x86", b"C\x00"),
    "pointers instead of objects": array(
        F8.replace(b"f8", b"O8") + ORDER.replace(b"<", b"|"), b"K\x01\x85", b"C\x08" + bytes(8)
    ),
    "strings": array(
        F8.replace(b"\x02\x00\x00\x00f8", b"\x0a\x00\x00\x00U500000000") + ORDER,
        b"K\x01\x85",
        b"C\x04abcd",
    ),
    "strings of no letters": array(F8.replace(b"f8", b"U0") + ORDER, BIG + b"\x85", b"C\x00"),
    "a table": b"\x80\x02Nr\xff\xff\xff\x3f.",
    "bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
    "protocol 5": (
        b"\x80\x05"
        + named("numpy._core.numeric", "_frombuffer")
        + b"(C\x08"
        + bytes(8)
        + F8
        + ORDER
        + BIG
        + b"\x85X\x01\x00\x00\x00CtR."
    ),
    "a scalar": (
        b"\x80\x02" + named("numpy.core.multiarray", "scalar") + F8 + ORDER + b"C\x04abcd\x86R."
    ),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_small_file_gets_no_memory_it_has_no_data_for(tmp_path: Path, kind: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"no whole pickle|isn't opened"):
            content_of(HUGE[kind], tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_records_and_other_dtypes_are_refused(tmp_path: Path) -> None:
    for odd in (
        np.zeros(2, [("a", "f4"), ("b", "i8")]),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, "V8"),
        np.ma.masked_array([1, 2], [True, False]),
    ):
        with pytest.raises(DataError, match=r"isn't opened: it .*numpy"):
            content_of(pickle.dumps(odd), tmp_path)
    fields = ORDER.replace(b"<NNN", b"<N(X\x01\x00\x00\x00at}")
    with pytest.raises(DataError, match="array of records"):
        content_of(array(F8 + fields, b"K\x01\x85", b"C\x08" + bytes(8)), tmp_path)


PLAIN: dict[str, Any] = {
    "floats": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "exchanged": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "other order": np.arange(3, dtype=">i2"),
    "flags": np.array([True, False]),
    "none": np.zeros((0, 3), np.float32),
    "one": np.array(3),
    "bytes": np.array([b"xy", b"z"]),
    "words": np.array(["\u00e9t\u00e9", "ab"]),
    "objects": np.array(["video", b"other", None, 1.5], object),
    "triples": np.array([["video", 0.5, b"1"]], object),
    "scalar": np.float32(2.5),
    "word": np.str_("\u00e9"),
    "list": [1, 2.5, True, None, "text", b"\xff\x00", b"", 10**30, (1, (2,)), {1, 2}],
    "counts": defaultdict(int, {("a", "b"): 3}),
    "ordered": OrderedDict([("z", 1), ("a", 2)]),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("numpy_1", [False, True])
def test_plain_data_come_back_as_they_were(tmp_path: Path, protocol: int, numpy_1: bool) -> None:
    data = pickle.dumps(PLAIN, protocol)
    if numpy_1:
        data = as_numpy_1(data, protocol)
    found = content_of(data, tmp_path)
    for name, value in PLAIN.items():
        kind = dict if isinstance(value, dict) else type(value)
        assert type(found[name]) is kind, name
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype, name
            np.testing.assert_array_equal(found[name], value)
        else:
            assert found[name] == value, name
    assert list(found["ordered"]) == ["z", "a"]


def as_numpy_1(data: bytes, protocol: int) -> bytes:
    """Give numpy's modules the names that numpy 1 has for them."""
    assert b"numpy._core" in data
    if protocol >= 4:
        data = data[:2] + data[11:]  # the frame's length would be wrong
        for module in (b"multiarray", b"numeric"):
            new, old = b"numpy._core." + module, b"numpy.core." + module
            data = data.replace(bytes([len(new)]) + new, bytes([len(old)]) + old)
    return data.replace(b"numpy._core", b"numpy.core")


def python2(values: np.ndarray) -> bytes:
    """An array as Python 2 wrote it in protocol 2: data and names are its byte strings."""
    data = values.astype("<f8").tobytes()
    dtype = named("numpy", "dtype") + b"U\x02f8K\x00K\x01\x87R"
    shape = b"".join(b"K" + bytes([side]) for side in values.shape)
    return (
        named("numpy.core.multiarray", "_reconstruct")
        + named("numpy", "ndarray")
        + b"K\x00\x85U\x01b\x87R(K\x01("
        + shape
        + b"t"
        + dtype
        + b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + sized(data)
        + b"tb"
    )


def test_pickles_of_python_2(tmp_path: Path) -> None:
    values = np.array([[-1.5, 0.0, np.inf], [1e300, 2.0, -np.inf]])
    data = b"\x80\x02}(U\x03oneL5L\nU\x05array" + python2(values) + b"u."
    found = content_of(data, tmp_path)
    assert found["one"] == 5
    np.testing.assert_array_equal(found["array"], values)
    old = b"(dp0\nS'caf\\xc3\\xa9'\np1\n(lp2\nI1\naI01\nas."  # protocol 0
    assert content_of(old, tmp_path) == {"caf\u00c3\u00a9": [1, True]}
    path = tmp_path / "some.pkl"
    assert read_pickle(path, encoding="utf-8") == {"caf\u00e9": [1, True]}


def test_shared_and_circular_containers_stay_so(tmp_path: Path) -> None:
    shared = [np.arange(3)]
    circle: list[Any] = [shared, (shared, np.ones(2))]
    circle.append(circle)
    found = content_of(pickle.dumps({"a": shared, "b": circle, "c": (1, 2)}), tmp_path)
    assert found["a"] is found["b"][0] is found["b"][1][0] and found["b"][2] is found["b"]
    assert found["a"][0].tolist() == [0, 1, 2] and found["b"][1][1].tolist() == [1, 1]


def test_many_references_to_few_tuples_end(tmp_path: Path) -> None:
    nested: tuple[Any, ...] = (np.arange(2), 0)
    for _ in range(200):
        nested = (nested, nested)
    found = content_of(pickle.dumps([nested]), tmp_path)[0]
    while isinstance(found[0], tuple):
        assert found[0] is found[1]
        found = found[0]
    assert found[0].tolist() == [0, 1]


def test_gzip_is_unpacked_and_the_error_class_is_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps({"a": np.arange(4)})))
    assert read_pickle(path)["a"].tolist() == [0, 1, 2, 3]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a\.pkl\.gz is no whole pickle"):
        read_pickle(path)
    with pytest.raises(ZeroDivisionErrorOfValues, match=r"can't read .*b\.pkl: no such file"):
        read_pickle(tmp_path / "b.pkl", error=ZeroDivisionErrorOfValues)


class ZeroDivisionErrorOfValues(ValueError):
    """Some caller's class."""


WHOLE = pickle.dumps({"train": {"text": np.arange(12.0).reshape(3, 4), "id": ["a", "b"]}})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\n<!DOCTYPE html><html>", "HTML page"),
        (WHOLE[:-1], "fetch or make it anew"),
        (WHOLE[: len(WHOLE) // 2], "fetch or make it anew"),
        (b"PK\x03\x04rest of a zip archive", "zip archive, as torch.save"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of a file in Git LFS"),
        (b"\x93NUMPY\x01\x00", r"\.npy file"),
        (b"\x1f\x8bnot gzip after all", "no whole pickle|damaged"),
        (b"just some text\n", "fetch or make it anew"),
    ],
)
def test_other_files_get_a_sentence(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        content_of(data, tmp_path)
    assert str(tmp_path / "some.pkl") in str(caught.value)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_names_from_the_file_are_shown_short_and_on_one_line(tmp_path: Path) -> None:
    name = "a\nb\x1b[2J" + "c" * 5000
    data = b"\x80\x04X" + sized(b"module") + b"X" + sized(name.encode()) + b"\x93."
    with pytest.raises(DataError, match=r"module\.a\\nb\\x1b\[2Jccc") as caught:
        content_of(data, tmp_path)
    said = str(caught.value)
    assert said.isprintable() and len(said) < 500 + len(str(tmp_path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_bytes_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.pkl"
    path.write_bytes(damaged)
    try:
        read_pickle(path)
    except DataError as error:
        assert str(path) in str(error)
