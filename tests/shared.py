"""Where the reference numbers and the small real data lie, for the tests that want them."""

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared"


def golden_dir() -> Path:
    """Give the folder of reference numbers ($ATTNBENCH_GOLDEN), or skip the test."""
    return _folder(
        "ATTNBENCH_GOLDEN", Path(os.environ.get("ATTNBENCH_GOLDEN", _DEFAULT / "golden"))
    )


def data_dir() -> Path:
    """Give the folder of small real data ($ATTNBENCH_SHARED/data), or skip the test."""
    return _folder("ATTNBENCH_SHARED", Path(os.environ.get("ATTNBENCH_SHARED", _DEFAULT)) / "data")


def _folder(variable: str, path: Path) -> Path:
    if not path.is_dir():
        # Also callable while tests are collected, for parametrising over the files found.
        pytest.skip(
            f"{path} is not there; set {variable} to a folder that has it", allow_module_level=True
        )
    return path
