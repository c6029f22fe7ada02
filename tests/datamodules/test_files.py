import gzip
import os

import pytest

from attnbench.datamodules.errors import DataError
from attnbench.datamodules.files import read_lines, sha256_file, write_atomically
from tests.datamodules.writing import Sentence, write_lines

LINES = ["Ein Mädchen schläft.", "", "with\u2028separator\x85inside", "last"]


@pytest.mark.parametrize("name", ["train.de", "train.de.gz"])
def test_lines_end_at_newlines_only(tmp_path, name):
    assert list(read_lines(write_lines(tmp_path / name, LINES))) == LINES


def test_windows_line_ends_byte_order_mark_and_missing_last_newline(tmp_path):
    path = tmp_path / "a.en"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    assert list(read_lines(path)) == ["one", "two", "three"]


def test_gzip_data_are_read_whatever_the_name(tmp_path):
    packed = write_lines(tmp_path / "a.en.gz", LINES)
    assert list(read_lines(packed.rename(tmp_path / "a.en"))) == LINES


def test_invalid_utf8_is_named_with_its_line(tmp_path):
    path = tmp_path / "a.de"
    path.write_bytes("gut\nMädchen\n".encode() + "Mädchen\n".encode("latin-1"))
    with Sentence("a.de, line 3", "0xe4", "UTF-8"):
        list(read_lines(path))


def test_truncated_gzip(tmp_path):
    path = write_lines(tmp_path / "a.en.gz", [str(n * 7919) for n in range(3000)])
    path.write_bytes(path.read_bytes()[:-2000])
    with Sentence("a.en.gz", "cut off", "copy it again"):
        list(read_lines(path))


def test_gzip_with_a_wrong_checksum(tmp_path):
    path = write_lines(tmp_path / "a.en.gz", LINES)
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with Sentence("a.en.gz", "damaged"):
        list(read_lines(path))


def test_gz_that_is_no_gzip(tmp_path):
    path = tmp_path / "a.en.gz"
    path.write_bytes(b"plain text\n")
    with Sentence("a.en.gz", "not gzip", "1f 8b", "plain text"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_web_page_saved_as_data(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\n<!DOCTYPE html><html><body>404</body></html>\n")
    with Sentence(name, "HTML page"):
        list(read_lines(path))


def test_empty_and_missing_files(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b""))
    for name, part in (("plain", "empty"), ("packed.gz", "empty"), ("none", "No such file")):
        with Sentence(name, part):
            list(read_lines(tmp_path / name))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "dict.txt"
    write_atomically(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["dict.txt"]


def test_a_hash_of_what_cannot_be_read(tmp_path):
    with Sentence("absent.en can't be read", "No such file"):
        sha256_file(tmp_path / "absent.en")
    with Sentence("can't be read", "directory"):
        sha256_file(tmp_path)
