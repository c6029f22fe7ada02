"""`attnbench data pack` for captioning: the features of a data set's images into one store."""

from __future__ import annotations

from pathlib import Path

from .caption_config import CaptionDataConfig
from .caption_open import open_captions
from .caption_records import some
from .errors import DataError
from .features.matching import match_names
from .features.pack import PACKED, Progress, choose_features, extract_features, pack_features
from .features.store import FeatureStore, is_store
from .features.writer import FeatureType
from .registry import dataset_entry


def pack_captions(
    config: CaptionDataConfig,
    out: Path | None = None,
    *,
    dtype: FeatureType = "float32",
    progress: Progress | None = None,
) -> tuple[FeatureStore, list[str]]:
    """Pack what `config` names, or make it from the images where it names a backbone.

    Args:
        config: the data set; `features`, `extract` and `weights` say what is packed.
        out: place of the store; by default a folder in the data set's own. One that lies there
            already is replaced, once the new one is complete.
        dtype: type of the stored values.
        progress: called with the number of images done while they are made from images.

    Returns:
        The store, and what was counted.

    Raises:
        DataError: there is nothing to pack, or it can't be read or written.
    """
    entry = dataset_entry(config.dataset)
    if config.root is None:
        raise DataError(f"{entry.name} needs root, the folder it lies in ({entry.source}).")
    root, folder = config.root, out or config.root / PACKED
    if folder.exists() and not is_store(folder):
        raise DataError(f"{folder} is there and is no packed store; give another place as out.")
    images = open_captions(config, root).images
    if config.extract:
        store = extract_features(
            images,
            root,
            folder,
            backbone=config.extract,
            weights=config.weights,
            dtype=dtype,
            replace=True,
            progress=progress,
        )
    else:
        source = choose_features(root, config.features, packed=False)
        if source is None:
            raise DataError(
                f"{root} has no features to pack; name them with features=, or make them from the "
                "images with extract=efficientnet-lite0."
            )
        if is_store(source):
            raise DataError(f"{source} is packed already; use it as it is, or name what to pack.")
        store = pack_features(images, source, folder, dtype=dtype, replace=True)
    scheme, names = match_names(images, store.places.keys())
    missing = [i.id for i, name in zip(images, names, strict=True) if name not in store.places]
    notes = list(store.header.notes)
    if missing:
        notes.append(f"{len(missing):,} of {len(images):,} images are missing, {some(missing)}")
    if scheme != "id":
        notes.append(f"features are named by {scheme}")
    return store, notes
