import json
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from attnbench.datamodules.features.store import FeatureStore
from tests.datamodules.caption_files import write_coco_root, write_karpathy, write_npz

Capture = pytest.CaptureFixture[str]


def refused(arguments: list[str], capsys: Capture) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    return said.err


def test_the_captioning_demo_is_written_packed_and_checked(tmp_path: Path, capsys: Capture) -> None:
    root, out = str(tmp_path / "demo"), tmp_path / "store"
    assert main(["data", "demo", "captioning", "--root", root]) == 0
    pack = ["data", "pack", "demo", "--root", root, "--out", str(out), "--dtype", "float16"]
    assert main(pack) == 0
    assert "1,100 images" in capsys.readouterr().out
    assert FeatureStore(out).header.dtype == "float16"
    assert main(["data", "check", "demo", "--root", root, f"features={out}", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["splits"]["train"]["images"] == 800 and card["features"]["dtype"] == "float16"


def test_packing_into_the_folder_itself_and_again(tmp_path: Path, capsys: Capture) -> None:
    root = write_coco_root(tmp_path)
    pack = ["data", "pack", "coco-captions", "--root", str(root)]
    assert main(pack) == 0 and main(pack) == 0
    assert len(FeatureStore(root / "features.packed")) == 5
    assert main(["data", "check", "coco-captions", "--root", str(root), "min_count=0"]) == 0


def test_images_that_the_features_lack_are_counted(tmp_path: Path, capsys: Capture) -> None:
    write_karpathy(tmp_path)
    write_npz(tmp_path, [42, 7])
    assert main(["data", "pack", "coco-captions", "--root", str(tmp_path)]) == 0
    assert "3 of 5 images are missing, such as 391895, 100, 9" in capsys.readouterr().out


def test_what_cannot_be_packed(tmp_path: Path, capsys: Capture) -> None:
    write_karpathy(tmp_path)
    root = ["--root", str(tmp_path)]
    pack = ["data", "pack", "coco-captions", *root]
    assert "no features to pack" in refused(pack, capsys)
    assert "no image features" in refused(["data", "pack", "multi30k", *root], capsys)
    assert "'lite9'" in refused([*pack, "--extract", "lite9"], capsys)
    assert "did you mean features" in refused([*pack, "feature=x"], capsys)
    (tmp_path / "taken").mkdir()
    assert "no packed store" in refused([*pack, "--out", str(tmp_path / "taken")], capsys)
    check = ["data", "check", "coco-captions", *root, "--extract", "efficientnet-lite0"]
    assert "--extract" in refused(check, capsys)
