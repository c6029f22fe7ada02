"""The demo data of the runner's tests, written once."""

from pathlib import Path

import pytest

from attnbench.datamodules.demo.translation import write_translation_demo


@pytest.fixture(scope="session")
def demo_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small translation set in plain parallel text."""
    return write_translation_demo(
        tmp_path_factory.mktemp("demo") / "translation", train=300, val=12, test=12
    )
