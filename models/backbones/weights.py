"""Read the weights of a backbone from a file on disk; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ..checkpoint import CheckpointError, load_tensors_and_options

COUNTER = ".num_batches_tracked"


class WeightsError(ValueError):
    """A file of weights that can't be read or does not fit the network."""


def load_weights(network: nn.Module, path: Path) -> None:
    """Load a state dict with torchvision's names; ``fc`` and inserted modules are left out.

    Args:
        network: the backbone.
        path: ``.safetensors``, or a file of ``torch.save`` with a state dict, alone or under the
            key ``state_dict`` or ``model``; read as data alone.

    Raises:
        WeightsError: one sentence with the file and what doesn't fit.
    """
    given = {
        name: value for name, value in read_weights(path).items() if not name.startswith("fc.")
    }
    own = network.state_dict()
    expected = {name for name in own if not is_inserted(name)}
    missing = sorted(n for n in expected - given.keys() if not n.endswith(COUNTER))
    unknown = sorted(n for n in given.keys() - own.keys() if not n.endswith(COUNTER))
    other = sorted(n for n in given.keys() & own.keys() if given[n].shape != own[n].shape)
    for names, problem in ((missing, "lacks"), (unknown, "has unknown"), (other, "has misshapen")):
        if names:
            raise WeightsError(
                f"{path} {problem} {_some(names)}: pass the state dict of the same network "
                "(with the same stem) as torchvision names it"
            )
    broken = sorted(n for n in expected & given.keys() if not _fits(given[n], own[n]))
    if broken:
        raise WeightsError(
            f"{path} has NaN, infinity, whole numbers or a sparse tensor in {_some(broken)}: pass "
            "dense weights of a training that went well"
        )
    network.load_state_dict({name: given[name] for name in given.keys() & own.keys()}, strict=False)


def is_inserted(name: str) -> bool:
    """Whether a parameter isn't in torchvision's networks: attention, and what moves taps."""
    return not {"attention", "offset_conv"}.isdisjoint(name.split("."))


def check_file(path: Path) -> None:
    """Raise WeightsError if there is no such file."""
    if not os.path.isfile(path):  # Path.is_file raises for too long names
        raise WeightsError(f"{path} is no file: pass weights=FILE with a state dict of the network")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name. Raises WeightsError."""
    content: Any
    check_file(path)
    try:
        safe = path.suffix == ".safetensors"
        content = load_file(path) if safe else load_tensors_and_options(path)
    except CheckpointError as error:
        raise WeightsError(str(error)) from error
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{path} can't be read as safetensors ({error}): copy it again"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not content:
        raise WeightsError(f"{path} holds no state dict: save network.state_dict() and pass that")
    if not all(isinstance(n, str) and isinstance(v, Tensor) for n, v in content.items()):
        raise WeightsError(
            f"{path} holds more than tensors by name: save network.state_dict() alone"
        )
    return {name.removeprefix("module."): value for name, value in content.items()}


def _fits(given: Tensor, own: Tensor) -> bool:
    """Whether the values can stand for the network's own."""
    if given.layout != torch.strided:
        return False
    return not own.is_floating_point() or (
        given.is_floating_point() and bool(given.isfinite().all())
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
