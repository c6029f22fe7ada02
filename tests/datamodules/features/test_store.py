import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from attnbench.datamodules.features.detect import find_features
from attnbench.datamodules.features.item import FeatureItem
from attnbench.datamodules.features.store import FeatureStore, is_store
from attnbench.datamodules.features.writer import write_store
from tests.datamodules.caption_files import DIM, IDS, features_of
from tests.datamodules.writing import Sentence


def items(ids=IDS):
    for ident in ids:
        features, boxes = features_of(ident)
        yield FeatureItem(str(ident), features, boxes, (90, 100))


def made(tmp_path, **settings) -> FeatureStore:
    return write_store(tmp_path / "store", items(), layout="test", **settings)


def test_gathering_pads_with_zeros_and_says_what_is_valid(tmp_path):
    store = made(tmp_path)
    rows = np.array([2, 0, 4])
    found = store.gather(rows)
    counts = [len(features_of(IDS[row])[0]) for row in rows]
    assert found.features_BNF.shape == (3, max(counts), DIM)
    assert found.features_BNF.dtype == np.float32
    assert found.valid_BN.sum(1).tolist() == counts
    assert found.boxes_BN4 is not None
    for place, row in enumerate(rows):
        features, boxes = features_of(IDS[row])
        np.testing.assert_array_equal(found.features_BNF[place, : counts[place]], features)
        np.testing.assert_array_equal(found.boxes_BN4[place, : counts[place]], boxes)
        assert not found.features_BNF[place, counts[place] :].any()
        assert not found.boxes_BN4[place, counts[place] :].any()


def test_only_the_first_regions_are_taken(tmp_path):
    found = made(tmp_path).gather(np.arange(5), max_regions=2)
    assert found.features_BNF.shape == (5, 2, DIM) and found.valid_BN.all()
    np.testing.assert_array_equal(found.features_BNF[1], features_of(42)[0][:2])


def test_half_precision_halves_the_file_and_comes_back_as_float32(tmp_path):
    store = made(tmp_path, dtype="float16")
    size = (tmp_path / "store" / "features.bin").stat().st_size
    assert size == 2 * store.header.rows * DIM
    found = store.gather(np.arange(5)).features_BNF
    assert found.dtype == np.float32
    expected = features_of(IDS[0])[0]
    np.testing.assert_allclose(found[0, : len(expected)], expected, rtol=1e-3)


def test_a_value_too_large_for_half_precision(tmp_path):
    item = FeatureItem("7", np.full((2, 3), 1e6, np.float32))
    with Sentence("image 7", "too large for float16", "float32"):
        write_store(tmp_path / "store", [item], layout="test", dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_packing_leaves_nothing_behind(tmp_path):
    def broken():
        yield from items(IDS[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "store", broken(), layout="test")
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_replaced_only_when_the_new_one_is_whole(tmp_path):
    old = made(tmp_path).header
    with pytest.raises(ZeroDivisionError):
        write_store(tmp_path / "store", (1 / 0 for _ in "a"), layout="x", replace=True)  # type: ignore
    assert FeatureStore(tmp_path / "store").header == old
    new = write_store(tmp_path / "store", items(IDS[:1]), layout="new", replace=True)
    assert new.ids == ["391895"] and os.listdir(tmp_path) == ["store"]
    kept = write_store(tmp_path / "store", items(), layout="third")
    assert kept.header.layout == "new"


KILLED = """
import os, signal, sys
from pathlib import Path
from attnbench.datamodules.features import writer
from tests.datamodules.features.test_store import items

os.rename = lambda *places: os.kill(os.getpid(), signal.SIGKILL)
writer.write_store(Path(sys.argv[1]), items(), layout="killed", replace=True)
"""


@pytest.mark.parametrize("replace", [False, True])
def test_what_a_killed_process_leaves_is_taken_for_no_features(tmp_path, replace):
    if replace:
        made(tmp_path)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "store")]
    top = Path(__file__).parents[3]
    assert subprocess.run(command, cwd=top, check=False).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1 + replace
    assert find_features(tmp_path) == [tmp_path / "store"] * replace
    write_store(tmp_path / "store", items(), layout="again", replace=True)
    assert find_features(tmp_path) == [tmp_path / "store"]
    assert FeatureStore(tmp_path / "store").header.layout == "again"


def test_two_writers_at_once(tmp_path):
    failed = []

    def write():
        try:
            write_store(tmp_path / "store", items(), layout="test")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and os.listdir(tmp_path) == ["store"]
    FeatureStore(tmp_path / "store").verify()


def test_what_is_no_complete_store(tmp_path):
    store = made(tmp_path)
    folder = store.folder
    assert is_store(folder) and not is_store(tmp_path)
    whole = (folder / "features.bin").read_bytes()
    (folder / "features.bin").write_bytes(whole[:-4])
    with Sentence(str(folder), "features.bin has", "pack it again"):
        FeatureStore(folder)
    (folder / "features.bin").write_bytes(b"\1\2\3\4" + whole[4:])
    with Sentence(str(folder), "the hash of features.bin"):
        FeatureStore(folder).verify()
    (folder / "features.bin").write_bytes(whole)
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps({**header, "rows": 3}))
    with Sentence(str(folder), "pack it again"):
        FeatureStore(folder)
    (folder / "header.json").write_text("{}")
    with Sentence(str(folder), "header.json is not that of a store"):
        FeatureStore(folder)
    with Sentence("nowhere", "can't be read"):
        FeatureStore(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with Sentence("can't be written", "another folder"):
        made(tmp_path)
    tmp_path.chmod(0o700)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with Sentence("file", "can't be written"):
        write_store(tmp_path / "file" / "store", items(), layout="test")


def test_equal_features_have_equal_hashes(tmp_path):
    one = write_store(tmp_path / "a", items(), layout="test")
    same = write_store(tmp_path / "b", items(), layout="test")
    other = write_store(tmp_path / "c", items(IDS[::-1]), layout="test")
    assert one.header.sha256 == same.header.sha256 != other.header.sha256
