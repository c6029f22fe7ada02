"""Small captioning data in the published layouts, for the tests."""

import base64
import json
from pathlib import Path

import h5py
import numpy as np

SENTENCES = [
    ["A dog runs on the grass.", "The dog runs."],
    ["Two cats sleep.", "A cat sleeps on a bed.", "Cats on the bed."],
    ["A red car on the road."],
    ["The dog sleeps on the bed.", "A dog on a bed."],
    ["A cat runs.", "The cat runs on the road."],
]
SPLITS = ["train", "restval", "train", "val", "test"]
IDS = [391895, 42, 7, 100, 9]
DIM = 6


def tokens(text: str) -> list[str]:
    return text.lower().replace(".", "").split()


def karpathy_entries() -> list[dict]:
    return [
        {
            "filepath": "val2014",
            "filename": f"COCO_val2014_{ident:012}.jpg",
            "cocoid": ident,
            "imgid": place,
            "split": split,
            "sentids": [],
            "sentences": [{"tokens": tokens(text), "raw": text} for text in texts],
        }
        for place, (ident, split, texts) in enumerate(zip(IDS, SPLITS, SENTENCES, strict=True))
    ]


def write_json(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_karpathy(root: Path, entries: list[dict] | None = None) -> Path:
    entries = karpathy_entries() if entries is None else entries
    return write_json(root / "dataset_coco.json", {"images": entries, "dataset": "coco"})


def features_of(ident: object, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Features and boxes that differ from image to image, 2 to 4 regions."""
    random = np.random.default_rng(int(ident))  # type: ignore[call-overload]
    count = 2 + int(ident) % 3  # type: ignore[call-overload]
    corners = np.sort(random.uniform(0, 90, size=(count, 2, 2)), axis=1)
    corners[:, 1] += 5
    return random.normal(size=(count, DIM)).astype(dtype), corners.reshape(count, 4).astype("f4")


def write_npz(root: Path, ids: list[int] = IDS) -> Path:
    """Self-critical's folders: `bu_att/ID.npz` and `bu_box/ID.npy`."""
    for folder in ("bu_att", "bu_box"):
        (root / folder).mkdir(parents=True)
    for ident in ids:
        features, boxes = features_of(ident)
        np.savez_compressed(root / "bu_att" / f"{ident}.npz", feat=features)
        np.save(root / "bu_box" / f"{ident}.npy", boxes)
    return root / "bu_att"


def write_coco_root(root: Path) -> Path:
    """Karpathy's JSON and npz features of all images."""
    write_karpathy(root)
    write_npz(root)
    return root


def write_mcan(folder: Path) -> Path:
    """MCAN's form: transposed, padded with zeros to more rows than boxes."""
    folder.mkdir(parents=True)
    for ident in IDS:
        features, boxes = features_of(ident)
        padded = np.zeros((10, DIM), np.float32)
        padded[: len(features)] = features
        np.savez(
            folder / f"COCO_val2014_{ident:012}.jpg.npz",
            x=padded.T,
            bbox=boxes,
            image_w=100,
            image_h=120,
            num_bbox=len(boxes),
        )
    return folder


def tsv_line(ident: int, *, wide: bool = False) -> str:
    features, boxes = features_of(ident)
    coded = [base64.b64encode(array.tobytes()).decode() for array in (boxes, features)]
    if wide:
        fields = [ident, 120, 100, "a", "b", "c", "d", len(boxes), *coded]
    else:
        fields = [ident, 100, 120, len(boxes), *coded]
    return "\t".join(map(str, fields)) + "\n"


def write_tsv(root: Path, *, wide: bool = False) -> Path:
    """Two parts, as the training features come."""
    root.mkdir(parents=True, exist_ok=True)
    for part, ids in enumerate((IDS[:2], IDS[2:])):
        text = "".join(tsv_line(ident, wide=wide) for ident in ids)
        (root / f"karpathy.tsv.{part}").write_text(text, encoding="ascii")
    return root / "karpathy.tsv.0"


def write_m2(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for ident in IDS:
            features, boxes = features_of(ident)
            file[f"{ident}_features"] = features
            file[f"{ident}_boxes"] = boxes
            file[f"{ident}_cls_prob"] = np.zeros((len(features), 3), np.float32)
    return path


def write_cocotalk(root: Path) -> tuple[Path, Path]:
    """Three images with 2, 1 and 2 captions in 1-based, inclusive ranges; the last word is UNK."""
    path = write_json(
        root / "cocotalk.json",
        {
            "ix_to_word": {"1": "a", "2": "dog", "3": "UNK"},
            "images": [
                {"id": 5, "split": "train", "file_path": "a.jpg", "width": 10, "height": 20},
                {"id": 6, "split": "val", "file_path": "b.jpg"},
                {"id": 7, "split": "test", "file_path": "c.jpg"},
            ],
        },
    )
    labels = root / "cocotalk_label.h5"
    with h5py.File(labels, "w") as file:
        rows = [[1, 2, 0, 0], [2, 0, 0, 0], [1, 3, 2, 1], [3, 0, 0, 0], [2, 2, 0, 0]]
        file["labels"] = np.array(rows, np.uint32)
        file["label_start_ix"] = np.array([1, 3, 4], np.uint32)
        file["label_end_ix"] = np.array([2, 3, 5], np.uint32)
        file["label_length"] = np.array([2, 1, 4, 1, 2], np.uint32)
    return path, labels
