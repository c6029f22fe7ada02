"""Damaged and wrongly made files: whatever they hold, they are read or refused in one sentence."""

import copy
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pytest
import torch

from attnbench.datamodules.caption_config import CaptionDataConfig
from attnbench.datamodules.caption_pack import pack_captions
from attnbench.datamodules.captions import SPLITS, CaptionData
from attnbench.datamodules.errors import DataError
from tests.datamodules.caption_files import (
    IDS,
    features_of,
    karpathy_entries,
    write_coco_root,
    write_cocotalk,
    write_json,
    write_karpathy,
    write_m2,
    write_npz,
    write_tsv,
)
from tests.datamodules.writing import Sentence

WRONG: list[Any] = [None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "\ud800", [], [1], {}]


def opened(root: Path, **settings: Any) -> CaptionData:
    """Read all that lies there, as `data check` does."""
    config = {"dataset": "coco-captions", "min_count": 0, **settings}
    data = CaptionData(CaptionDataConfig(root=root, **config))
    for split in SPLITS:
        data.image_ids(split)
    data.store.verify()
    data.card().render()
    return data


def read_or_refused(root: Path, what: object) -> None:
    """Only a DataError of one sentence may come; batches of what is read are finite."""
    try:
        data = opened(root)
        batches = [*data.predict_dataloader("test"), *data.train_dataloader()]
    except DataError as error:
        assert "\n" not in str(error) and str(error).endswith((".", "?"))
    except Exception as error:
        raise AssertionError(f"{what!r} gave {type(error).__name__}: {error}") from error
    else:
        for batch in batches:
            assert torch.isfinite(batch.features_BNF).all() and torch.isfinite(batch.size_B2).all()
            assert (batch.size_B2 > 0).all() and (batch.input_BCT >= 0).all()
            assert batch.boxes_BN4 is None or torch.isfinite(batch.boxes_BN4).all()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Name each member of a JSON value, the value itself left out; of lists the first two."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value[:2]):
            yield from places(each, (*path, number))


def karpathy(root: Path) -> tuple[Path, Any]:
    entries = karpathy_entries()
    entries[0] |= {"width": 100, "height": 120}
    return write_karpathy(root, entries), {"images": entries, "dataset": "coco"}


def coco(root: Path) -> tuple[Path, Any]:
    ids = [*IDS, 11, 12]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 9, "height": 9} for i in ids]
    captions = [{"image_id": i, "caption": "A dog runs.", "id": i} for i in ids]
    content = {"images": images, "annotations": captions}
    lines = [f"{ident},{SPLITS[number % 3]}\n" for number, ident in enumerate(ids)]
    (root / "split.csv").write_text("".join(lines))
    return write_json(root / "captions_train.json", content), content


def cocotalk(root: Path) -> tuple[Path, Any]:
    path, _ = write_cocotalk(root)
    return path, json.loads(path.read_text())


@pytest.mark.parametrize("make", [karpathy, coco, cocotalk])
def test_any_member_of_an_annotation_file_may_be_wrong(tmp_path, make):
    path, content = make(tmp_path)
    write_npz(tmp_path, [*IDS, 5, 6, 11, 12])
    pack_captions(CaptionDataConfig(dataset="coco-captions", root=tmp_path))
    opened(tmp_path)
    for place in places(content):
        for wrong in WRONG:
            broken = copy.deepcopy(content)
            parent = broken
            for key in place[:-1]:
                parent = parent[key]
            parent[place[-1]] = wrong
            write_json(path, broken)
            read_or_refused(tmp_path, (place, wrong))


def h5(root: Path) -> Path:
    write_karpathy(root)
    return write_m2(root / "f.h5")


def labels(root: Path) -> Path:
    write_npz(root, [5, 6, 7])
    return write_cocotalk(root)[1]


def npz(root: Path) -> Path:
    write_coco_root(root)
    return root / "bu_att" / "42.npz"


def npy(root: Path) -> Path:
    write_coco_root(root)
    return root / "bu_box" / "42.npy"


def tsv(root: Path) -> Path:
    write_karpathy(root)
    return write_tsv(root)


def pth(root: Path) -> Path:
    write_karpathy(root)
    torch.save({i: torch.from_numpy(features_of(i)[0]) for i in IDS}, root / "f.pth")
    return root / "f.pth"


def packed(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        write_coco_root(root)
        pack_captions(CaptionDataConfig(dataset="coco-captions", root=root))
        return root / "features.packed" / name

    make.__name__ = name
    return make


FILES = [h5, labels, npz, npy, tsv, pth]
FILES += [packed(name) for name in ("header.json", "index.npz", "ids.json", "features.bin")]


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_a_file_cut_off_or_with_wrong_bytes_anywhere(tmp_path, make):
    path = make(tmp_path)
    whole = path.read_bytes()
    opened(tmp_path)
    random = np.random.default_rng(0)
    for number in range(40):
        content = bytearray(whole)
        if number % 4 == 0:
            del content[random.integers(len(content)) :]
        for _ in range(number % 4):
            content[random.integers(min(len(content), 2000))] = random.integers(256)
        path.write_bytes(content)
        read_or_refused(tmp_path, (path.name, number))


def write_lmdb(path: Path) -> None:
    env = lmdb.open(str(path), subdir=False, map_size=1 << 22, lock=False)
    with env, env.begin(write=True) as view:
        for ident in IDS:
            stream = io.BytesIO()
            np.savez(stream, feat=np.repeat(features_of(ident)[0], 200, axis=0))
            view.put(str(ident).encode(), stream.getvalue())


def test_a_data_base_that_is_cut_off_is_refused_and_does_not_end_the_process(tmp_path):
    write_karpathy(tmp_path)
    path = tmp_path / "f.lmdb"
    write_lmdb(path)
    opened(tmp_path)
    whole = path.read_bytes()
    for share in (0.99, 0.9, 0.5, 0.2, 0.05):
        path.write_bytes(whole[: int(len(whole) * share)])
        with Sentence(str(path), "cut off"):
            opened(tmp_path)


WRONG_ARRAYS = [np.float32(1), np.nan, np.array([1, 2]), np.array([["a"] * 4] * 2), "x", 10**15, -4]


@pytest.mark.parametrize("form", ["feat", "x"])
def test_any_array_of_an_npz_may_be_of_another_kind(tmp_path, form):
    write_coco_root(tmp_path)
    features, boxes = features_of(42)
    right = {form: features.T if form == "x" else features, "bbox": boxes}
    right |= {"image_w": 100, "image_h": 120, "num_bbox": len(boxes)}
    path = tmp_path / "bu_att" / "42.npz"
    huge = [boxes.astype("f8") * 1e300, boxes.astype("c8"), boxes * np.nan]
    for name in right:
        for wrong in [*WRONG_ARRAYS, *huge]:
            np.savez(path, **{**right, name: wrong})
            read_or_refused(tmp_path, (name, wrong))


@pytest.mark.parametrize(
    "value", [1, ["a", "b", "c"], np.array([np.nan, 2, 3]), [0, 2, 3], [-5, 2, 3]]
)
def test_ranges_of_labels_that_are_none(tmp_path, value):
    path = labels(tmp_path)
    with h5py.File(path, "a") as file:
        del file["label_start_ix"]
        file["label_start_ix"] = value
    with Sentence(str(path), "labels"):
        opened(tmp_path)


@pytest.mark.parametrize("value", [[[-1, 2]] * 5, [[1.0, 2.0]] * 5, [[9, 2]] * 5, [1, 2]])
def test_labels_that_are_no_words(tmp_path, value):
    path = labels(tmp_path)
    with h5py.File(path, "a") as file:
        del file["labels"]
        file["labels"] = np.array(value)
    with Sentence(str(path)):
        opened(tmp_path)


@pytest.mark.parametrize(
    "change", [torch.Tensor.bfloat16, torch.Tensor.to_sparse, torch.nn.Parameter]
)
def test_tensors_of_any_kind_in_a_torch_file(tmp_path, change):
    path = pth(tmp_path)
    kept = {i: change(torch.from_numpy(features_of(i)[0])) for i in IDS}
    torch.save(kept, path)
    store = opened(tmp_path).store
    for ident in IDS:
        found = store.of(store.places[str(ident)])[0]
        np.testing.assert_allclose(found, features_of(ident)[0], rtol=1e-2)


def test_one_image_s_file_and_a_packed_store_are_no_source(tmp_path):
    write_coco_root(tmp_path)
    with Sentence("42.npz", "one image", "bu_att"):
        opened(tmp_path, features="bu_att/42.npz")
    config = CaptionDataConfig(dataset="coco-captions", root=tmp_path)
    pack_captions(config)
    again = config.model_copy(update={"features": Path("features.packed")})
    with Sentence("features.packed", "packed already"):
        pack_captions(again)


def test_a_vocabulary_without_the_captions_words(tmp_path):
    write_coco_root(tmp_path)
    for words, part in (({"1": "zebra"}, "vocabulary"), ({"1": "UNK"}, "no word")):
        write_json(tmp_path / "v" / "w.json", {"ix_to_word": words})
        with Sentence(part):
            opened(tmp_path, vocabulary="v/w.json")
    with Sentence("no word", "min_count"):
        opened(tmp_path, min_count=1000)


def test_where_leaving_out_would_leave_nothing_it_is_not_advised(tmp_path):
    write_karpathy(tmp_path)
    write_npz(tmp_path, IDS[:3])
    for choice in ("refuse", "leave_out"):
        with Sentence("1 of 1 images of val", "add them."):
            opened(tmp_path, missing_features=choice)


def test_a_list_of_splits_where_the_captions_have_some(tmp_path):
    write_coco_root(tmp_path)
    with Sentence("dataset_coco.json", "split_file=mine.csv"):
        opened(tmp_path, split_file="mine.csv")


def test_a_list_of_splits_needs_no_heading(tmp_path):
    coco(tmp_path)
    write_npz(tmp_path, [*IDS, 11, 12])
    assert IDS[0] in opened(tmp_path).image_ids("train")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('a.jpg,"A dog\nb.jpg,A cat"\n', ("line 2", "quote")),
        (f"a.jpg,{'x' * 200_000}\n", ("line 2",)),
        ("a.jpg,A dog\na.png,A cat\n", ("a.jpg", "a.png")),
    ],
)
def test_lines_of_captions_that_would_be_lost(tmp_path, text, parts):
    (tmp_path / "captions.txt").write_text("image,caption\n" + text)
    with Sentence(str(tmp_path / "captions.txt"), *parts):
        opened(tmp_path, dataset="flickr8k")
