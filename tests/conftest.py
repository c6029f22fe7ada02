"""Settings that must stand before torch or a Hugging Face library is imported, and the seed."""

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

_CACHE = tempfile.mkdtemp(prefix="attnbench-tests-")

os.environ.update(
    # One thread: the tests compare numbers, and two cores are shared with data workers.
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    # Nothing is downloaded, and nobody's cache is written.
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    WANDB_MODE="offline",
    HF_HOME=_CACHE,
)

# No deadline, which a busy machine would miss; the same examples in every CI run.
settings.register_profile("attnbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("attnbench")


def pytest_unconfigure() -> None:
    """Remove the cache folder of this run."""
    shutil.rmtree(_CACHE, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs Java where there is none."""
    if shutil.which("java") is None:
        for item in items:
            if item.get_closest_marker("java"):
                item.add_marker(pytest.mark.skip(reason="there is no Java on this machine"))


@pytest.fixture(autouse=True)
def seeded() -> Iterator[int]:
    """Seed every generator in use before each test; gives the seed."""
    seed = 20240229
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        torch.manual_seed(seed)
    yield seed
