import subprocess
import sys

import pytest

from attnbench.datamodules.registry import DATASETS, dataset_entry
from tests.datamodules.writing import Sentence


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_is_complete(name):
    entry = dataset_entry(name)
    assert entry.name == name
    assert entry.title and entry.tasks and entry.source and entry.licence


def test_an_unknown_name_gets_the_nearest_one():
    with Sentence("'mutli30k'", "demo, multi30k, wmt14, coco-captions", "'multi30k'"):
        dataset_entry("mutli30k")


def test_listing_data_sets_does_not_load_torch():
    program = (
        "import sys; import attnbench.datamodules.registry, attnbench.datamodules.translation_card,"
        " attnbench.datamodules.translation_config;"
        "sys.exit('torch' in sys.modules or 'datasets' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
