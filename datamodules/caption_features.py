"""The features that a captioning run uses: a store as it lies there, or one packed for it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from .caption_config import CaptionDataConfig
from .caption_records import CaptionImage
from .errors import DataError
from .features.pack import (
    choose_features,
    extract_features,
    pack_features,
    source_key,
    total_bytes,
)
from .features.store import FeatureStore, is_store

_TEMPORARY = 2 << 30


class PreparedFeatures:
    """Opens, packs or extracts the features of some images.

    Without a cache folder, what must be packed goes into a temporary folder that is gone with this
    object.

    Args:
        config: where they are.
        root: the data set's folder.
        images: the images that need features.

    Attributes:
        store: the opened store.
        source: where the features lie, or the folder of the images.

    Raises:
        DataError: there are none, several, or they can't be read.
    """

    def __init__(
        self, config: CaptionDataConfig, root: Path, images: Sequence[CaptionImage]
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        found = choose_features(root, config.features)
        self.source = found or root
        if found is not None and is_store(found):
            self.store = FeatureStore(found)
        elif found is not None:
            self.store = self._packed(config, found, images)
        elif config.extract:
            self.store = self._extracted(config, root, images)
        else:
            raise DataError(
                f"{root} has no features; name them with features=, or let them be made from the "
                "images with extract=efficientnet-lite0."
            )

    def _packed(
        self, config: CaptionDataConfig, source: Path, images: Sequence[CaptionImage]
    ) -> FeatureStore:
        folder = self._folder(config, f"packed-{source_key(source, images)}", source)
        if is_store(folder):
            return FeatureStore(folder)
        return pack_features(images, source, folder)

    def _extracted(
        self, config: CaptionDataConfig, root: Path, images: Sequence[CaptionImage]
    ) -> FeatureStore:
        from .features.backbones import backbone_key

        assert config.extract
        name = backbone_key(config.extract, config.weights)
        folder = self._folder(config, f"extracted-{source_key(root, images, name)}", None)
        if is_store(folder):
            return FeatureStore(folder)
        return extract_features(
            images, root, folder, backbone=config.extract, weights=config.weights
        )

    def _folder(self, config: CaptionDataConfig, name: str, source: Path | None) -> Path:
        if config.cache is not None:
            return config.cache / "features" / name
        if source is not None and (size := total_bytes(source)) > _TEMPORARY:
            raise DataError(
                f"{source} has {size / 2**30:.0f} GiB of unpacked features: pack them once with "
                f"`attnbench data pack {config.dataset} --root DIR`, or set cache."
            )
        self._temporary = tempfile.TemporaryDirectory(prefix="attnbench-features-")
        return Path(self._temporary.name) / name
