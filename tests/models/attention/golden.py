"""Reading the reference cases: one safetensors file each, its configuration in the header."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from torch import Tensor

from tests.shared import golden_dir


@dataclass
class Case:
    """One reference case: configuration, parameters, inputs and outputs by name."""

    config: dict[str, Any]
    state: dict[str, Tensor]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


def case_files(folder: str) -> list[Path]:
    """Every case file of a folder of the reference numbers; skips the module if there is none."""
    found = sorted((golden_dir() / folder).glob("*.safetensors"))
    if not found:
        pytest.skip(f"no reference cases in {golden_dir() / folder}", allow_module_level=True)
    return found


def read_case(path: Path) -> Case:
    """Read one case file."""
    parts: dict[str, dict[str, Tensor]] = {"state": {}, "in": {}, "out": {}}
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
        for key in file.keys():  # noqa: SIM118 (not a dict)
            kind, _, name = key.partition(".")
            parts[kind][name] = file.get_tensor(key)
    return Case(config, parts["state"], parts["in"], parts["out"])
