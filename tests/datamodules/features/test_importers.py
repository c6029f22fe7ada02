import io

import h5py
import lmdb
import numpy as np
import pytest
import torch

from attnbench.datamodules.caption_records import CaptionImage
from attnbench.datamodules.features.detect import find_features, open_source
from attnbench.datamodules.features.pack import choose_features, pack_features
from attnbench.datamodules.features.store import FeatureStore
from tests.datamodules.caption_files import (
    DIM,
    IDS,
    features_of,
    tsv_line,
    write_m2,
    write_mcan,
    write_npz,
    write_tsv,
)
from tests.datamodules.writing import Sentence

IMAGES = [
    CaptionImage(ident, "train", f"COCO_val2014_{ident:012}.jpg", [["a"]], ["a"]) for ident in IDS
]


def pack(source, tmp_path) -> FeatureStore:
    return pack_features(IMAGES, source, tmp_path / "out" / "store")


def assert_holds(store: FeatureStore, *, boxes: bool = True, size=None) -> None:
    assert sorted(store.ids) == sorted(map(str, IDS)) and store.dim == DIM
    assert store.has_boxes == boxes
    for ident in IDS:
        place = store.places[str(ident)]
        features, found = store.of(place)
        expected, expected_boxes = features_of(ident)
        np.testing.assert_array_equal(features, expected)
        if boxes:
            np.testing.assert_array_equal(found, expected_boxes)
        assert tuple(store.sizes[place]) == (size or (0, 0))
    store.verify()


def npz_bytes(ident, **more):
    stream = io.BytesIO()
    np.savez(stream, feat=features_of(ident)[0], **more)
    return stream.getvalue()


def test_npz_and_boxes_beside_them(tmp_path):
    assert_holds(pack(write_npz(tmp_path), tmp_path))


@pytest.mark.parametrize("key", ["feat", "z"])
def test_npz_under_either_name_without_boxes(tmp_path, key):
    (tmp_path / "feats").mkdir()
    for ident in IDS:
        features = features_of(ident)[0]
        arrays = {"feat": features} if key == "feat" else {"z": features}
        np.savez(tmp_path / "feats" / f"{ident}.npz", **arrays)  # pyright: ignore
    assert_holds(pack(tmp_path / "feats", tmp_path), boxes=False)


def test_mcans_npz_are_transposed_and_their_padding_is_cut(tmp_path):
    assert_holds(pack(write_mcan(tmp_path / "mcan"), tmp_path), size=(100, 120))


def test_mcans_npz_without_boxes(tmp_path):
    folder = tmp_path / "mcan"
    folder.mkdir()
    for ident in IDS:
        features = features_of(ident)[0]
        padded = np.concatenate([features, np.zeros((3, DIM), np.float32)])
        np.savez(folder / f"COCO_train2014_{ident:012}.jpg.npz", x=padded.T)
    assert_holds(pack(folder, tmp_path), boxes=False)


@pytest.mark.parametrize("wide", [False, True])
def test_tsv_in_parts_and_with_objects_and_attributes(tmp_path, wide):
    source = write_tsv(tmp_path / "tsv", wide=wide)
    store = pack(source, tmp_path)
    assert_holds(store, size=(100, 120))
    again = pack_features(IMAGES, source.parent, tmp_path / "folder")  # the folder of the parts
    assert again.header.sha256 == store.header.sha256


def test_meshed_memorys_hdf5(tmp_path):
    assert_holds(pack(write_m2(tmp_path / "coco_detections.hdf5"), tmp_path))


def test_hdf5_with_one_data_set_an_image(tmp_path):
    with h5py.File(tmp_path / "bu_att.h5", "w") as file:
        for ident in IDS:
            file[str(ident)] = features_of(ident)[0]
    assert_holds(pack(tmp_path / "bu_att.h5", tmp_path), boxes=False)


@pytest.mark.parametrize("subdir", [False, True])
@pytest.mark.parametrize("form", ["npz", "npy"])
def test_lmdb_of_file_contents(tmp_path, subdir, form):
    path = tmp_path / "bu_att.lmdb"
    with lmdb.open(str(path), subdir=subdir, map_size=1 << 20) as env, env.begin(write=True) as out:
        for ident in IDS:
            stream = io.BytesIO()
            np.save(stream, features_of(ident)[0])
            value = npz_bytes(ident) if form == "npz" else stream.getvalue()
            out.put(str(ident).encode(), value)
        out.put(b"__len__", b"5")
    assert_holds(pack(path, tmp_path), boxes=False)


@pytest.mark.parametrize("kind", ["tensor", "array", "old form"])
def test_a_torch_file_of_arrays(tmp_path, kind):
    path = tmp_path / "f30kbu_att.pth"
    arrays = {str(ident): features_of(ident)[0] for ident in IDS}
    content = arrays if kind == "array" else {k: torch.from_numpy(v) for k, v in arrays.items()}
    torch.save(content, path, _use_new_zipfile_serialization=kind != "old form")
    assert_holds(pack(path, tmp_path), boxes=False)


def test_npy_of_regions_and_of_one_vector(tmp_path):
    (tmp_path / "bu_att").mkdir()
    (tmp_path / "bu_fc").mkdir()
    for ident in IDS:
        np.save(tmp_path / "bu_att" / f"{ident}.npy", features_of(ident)[0])
        np.save(tmp_path / "bu_fc" / f"{ident}.npy", features_of(ident)[0].mean(0))
    assert_holds(pack(tmp_path / "bu_att", tmp_path), boxes=False)
    means = pack_features(IMAGES, tmp_path / "bu_fc", tmp_path / "means")
    assert means.header.regions == (1, 1)


def test_grids_are_flattened_row_by_row(tmp_path):
    (tmp_path / "grid").mkdir()
    grid = np.arange(14 * 14 * 4, dtype=np.float32).reshape(14, 14, 4)
    np.savez(tmp_path / "grid" / "42.npz", feat=grid)
    features, _ = pack(tmp_path / "grid", tmp_path).of(0)
    np.testing.assert_array_equal(features, grid.reshape(196, 4))


def test_only_the_wanted_images_are_packed(tmp_path):
    source = write_npz(tmp_path)
    store = pack_features(IMAGES[1:3], source, tmp_path / "store")
    assert sorted(store.ids) == ["42", "7"]


def test_features_are_found_under_a_root(tmp_path):
    assert find_features(tmp_path) == []
    source = write_npz(tmp_path)
    assert find_features(tmp_path) == [source]  # the folder of boxes is none of its own
    write_m2(tmp_path / "coco_detections.hdf5")
    with Sentence("bu_att, coco_detections.hdf5", "features="):
        choose_features(tmp_path, None)
    assert choose_features(tmp_path, "bu_att") == source  # type: ignore[arg-type]
    pack_features(IMAGES, source, tmp_path / "features.packed")
    assert choose_features(tmp_path, None) == tmp_path / "features.packed"


# What can be wrong.


def test_an_html_page_saved_as_hdf5(tmp_path):
    path = tmp_path / "coco_detections.hdf5"
    path.write_bytes(b"<!DOCTYPE html><html><title>Google Drive - Quota exceeded</title>")
    with Sentence(str(path), "HTML page", "download it again"):
        pack(path, tmp_path)
    path.write_bytes(b"something else")
    with Sentence(str(path), "no HDF5 file"):
        pack(path, tmp_path)
    whole = write_m2(tmp_path / "whole.h5").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with Sentence(str(path), "damaged or cut off"):
        pack(path, tmp_path)


def test_a_truncated_npz_is_named_and_nothing_stays_behind(tmp_path):
    source = write_npz(tmp_path)
    path = source / "7.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with Sentence(str(path), "cut off", "copy it again"):
        pack(source, tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_npz_with_pickled_objects_or_unknown_names(tmp_path):
    (tmp_path / "feats").mkdir()
    path = tmp_path / "feats" / "7.npz"
    np.savez(path, feat=np.array([{"a": 1}], dtype=object))
    with Sentence(str(path), "plain arrays"):
        pack(path.parent, tmp_path)
    np.savez(path, images=np.zeros(3))
    with Sentence(str(path), "only images", "feat, z or x"):
        pack(path.parent, tmp_path)


def test_a_torch_file_that_would_run_code(tmp_path):
    class Bad:
        def __reduce__(self):
            return (print, ("ran",))

    path = tmp_path / "bu_att.pth"
    torch.save({"7": Bad()}, path)
    with Sentence(str(path), "more than plain arrays"):
        pack(path, tmp_path)


def test_nan_in_features_or_boxes(tmp_path):
    source = write_npz(tmp_path)
    features, boxes = features_of(7)
    features[1, 2] = np.nan
    np.savez(source / "7.npz", feat=features)
    with Sentence(str(source), "image 7", "1 of 18 values are NaN"):
        pack(source, tmp_path)
    np.savez(source / "7.npz", feat=features_of(7)[0])
    boxes[0, 0] = np.inf
    np.save(tmp_path / "bu_box" / "7.npy", boxes)
    with Sentence(str(source), "image 7", "box"):
        pack(source, tmp_path)
    np.save(tmp_path / "bu_box" / "7.npy", boxes[1:])
    with Sentence("image 7", "boxes of shape (2, 4) for 3 regions"):
        pack(source, tmp_path)
    (tmp_path / "bu_box" / "7.npy").unlink()
    with Sentence("7.npy", "can't be read"):
        pack(source, tmp_path)


def test_strange_boxes_and_repeated_images_are_counted(tmp_path):
    features, boxes = features_of(42)
    np_lines = tsv_line(42) + tsv_line(7) + tsv_line(42)
    folder = tmp_path / "mcan"
    folder.mkdir()
    boxes[0] = [10, 10, 10, 20]  # no width
    boxes[1] = [-30, 10, 400, 20]  # over the edges
    np.savez(folder / "42.npz", x=features.T, bbox=boxes, image_w=100, image_h=120)
    assert pack(folder, tmp_path).header.notes == [
        "1 boxes of no width or height",
        "1 boxes that reach over the edge of their image",
    ]
    (tmp_path / "a.tsv").write_text(np_lines, encoding="ascii")
    store = pack_features(IMAGES, tmp_path / "a.tsv", tmp_path / "tsv store")
    assert store.ids == ["42", "7"]
    assert store.header.notes == ["1 images that came again left out"]


def test_images_of_different_kinds(tmp_path):
    source = write_npz(tmp_path)
    np.savez(source / "7.npz", feat=np.zeros((3, DIM + 1), np.float32))
    with Sentence("image 7", "7 features a region, but 6"):
        pack(source, tmp_path)
    np.savez(source / "7.npz", feat=np.zeros((0, DIM), np.float32))
    with Sentence("image 7", "shape (0, 6)"):
        pack(source, tmp_path)


def test_bad_lines_of_a_tsv(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tsv_line(42) + tsv_line(7)[:-50] + "\n", encoding="ascii")
    with Sentence(str(path), "line 2", "image 7"):
        pack(path, tmp_path)
    path.write_text("42\t3\n", encoding="ascii")
    with Sentence(str(path), "line 1", "2 columns"):
        pack(path, tmp_path)


def test_none_of_the_wanted_images(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tsv_line(77), encoding="ascii")
    with Sentence(str(path), "none of the wanted images"):
        pack(path, tmp_path)
    with Sentence("no features", "a packed store"):
        pack(tmp_path / "out", tmp_path)
    (tmp_path / "x.bin").write_bytes(b"12345678")
    with Sentence("x.bin", "no file of features"):
        open_source(tmp_path / "x.bin")
