"""Loading features from the packed store against one npz a file, in samples a second.

``python -m attnbench.benchmarks.speed.features`` writes random features of the two usual shapes
(36 regions of 2048, a grid of 49 cells of 1280), in both forms, and reads the same shuffled batches
from each. npz files are read as published loaders do: one ``np.load`` an image, then stacked into
the padded batch; they are written compressed, as the bottom-up features are, and plain.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...datamodules.features.item import FeatureItem
from ...datamodules.features.store import FeatureStore
from ...datamodules.features.writer import write_store
from .measure import Comparison, in_turns, seconds
from .report import as_json, parser, run_benchmark, save, show

SHAPES = {"36 x 2048": (36, 2048), "49 x 1280": (49, 1280)}
TARGET = 8.0
_BATCH = 50


@dataclass(frozen=True)
class Written:
    """The same features in three forms.

    Attributes:
        store: packed.
        compressed: folder of compressed npz files.
        plain: folder of npz files that aren't compressed.
        images: number of images, named 0, 1, …
    """

    store: FeatureStore
    compressed: Path
    plain: Path
    images: int


def write_forms(folder: Path, images: int, shape: tuple[int, int]) -> Written:
    """Write random features, non-negative and half of them zero as after a ReLU."""
    compressed, plain = folder / "compressed", folder / "plain"
    for path in (compressed, plain):
        path.mkdir(parents=True)

    def items() -> Iterator[FeatureItem]:
        random = np.random.default_rng(0)
        for number in range(images):
            features = np.maximum(random.normal(size=shape), 0).astype(np.float32)
            np.savez_compressed(compressed / f"{number}.npz", feat=features)
            np.savez(plain / f"{number}.npz", feat=features)
            yield FeatureItem(str(number), features)

    store = write_store(folder / "store", items(), layout="random")
    return Written(store, compressed, plain, images)


def batches(images: int, seed: int) -> list[np.ndarray]:
    """Cut a random order into batches."""
    order = np.random.default_rng(seed).permutation(images)
    return [order[start : start + _BATCH] for start in range(0, images, _BATCH)]


def read_npz(folder: Path, order: Sequence[np.ndarray]) -> np.ndarray:
    """Read all batches from files; the last one is returned."""
    out = np.empty(0)
    for rows in order:
        items: list[np.ndarray] = []
        for row in rows:
            with np.load(folder / f"{row}.npz", allow_pickle=False) as file:
                items.append(file["feat"])
        most = max(map(len, items))
        out = np.zeros((len(items), most, items[0].shape[1]), np.float32)
        for place, item in enumerate(items):
            out[place, : len(item)] = item
    return out


def read_store(store: FeatureStore, order: Sequence[np.ndarray]) -> np.ndarray:
    """Read all batches from the store; the last one is returned."""
    out = np.empty(0)
    for rows in order:
        out = store.gather(rows).features_BNF
    return out


def compare(what: str, shape: tuple[int, int], images: int, rounds: int) -> list[Comparison]:
    """Measure one shape: against compressed files and against plain ones."""
    with tempfile.TemporaryDirectory(prefix="attnbench-features-") as folder:
        written = write_forms(Path(folder), images, shape)
        order = batches(images, seed=1)
        found: list[Comparison] = []
        for form, path in (("compressed", written.compressed), ("plain", written.plain)):

            def theirs(path: Path = path) -> float:
                return images / seconds(lambda: read_npz(path, order))

            def ours() -> float:
                return images / seconds(lambda: read_store(written.store, order), times=4)

            assert np.array_equal(read_npz(path, order), read_store(written.store, order))
            fast, slow = in_turns(rounds, ours, theirs)
            title = f"{what} against {form} npz"
            found.append(Comparison(title, "images/s", fast, slow, TARGET))
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON file."""
    made = parser("features", __doc__, threads=1, rounds=5)
    made.add_argument("--images", type=int, default=400, help="images of each shape (400)")
    options = made.parse_args(arguments)
    rows = [
        row
        for what, shape in SHAPES.items()
        for row in compare(what, shape, options.images, options.rounds)
    ]
    print(f"reading shuffled batches of {_BATCH} images, {options.rounds} turns a side")
    print(show(rows, "store", "npz a file"))
    save(options.json, as_json("features", vars(options), rows))


if __name__ == "__main__":
    sys.exit(run_benchmark(main))
