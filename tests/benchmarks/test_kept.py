"""What must not get lost: finished results, and training before bad data are noticed."""

import shutil
from pathlib import Path

import pytest

from attnbench.benchmarks.cli import main
from attnbench.results import Store
from attnbench.tasks.translation import TranslationTask

TRAIN = [
    "train", "translation", "--data", "demo", "dim=16", "heads=2", "ffn_dim=16", "subword=none",
    "encoder_layers=1", "decoder_layers=1", "vocabulary_size=1000", "max_tokens=400",
    "max_steps=2", "check_every=1", "train_lines=40", "eval_lines=3", "row=A",
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    assert main(["data", "demo", "translation", "--root", str(folder)]) == 0
    return folder


def _train(root: Path, out: Path, *words: str) -> int:
    return main([*TRAIN, "--root", str(root), "--out", str(out), "--threads", "1", *words])


def test_a_missing_test_split_stops_a_cell_before_it_trains(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in root.glob("test.*"):
        file.unlink()
    assert _train(root, tmp_path / "out") == 2
    assert "test" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/**/*.ckpt"))


def test_a_done_record_outlives_a_failing_rerun(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert _train(root, out) == 0
    (done,) = Store(out).records()
    assert _train(root, out, "--again", "share_embeddings=none", "learning_rate=1e30") == 1
    (folder,) = {path.parent for path in out.glob("**/record.json")}
    kept = [path for path in folder.glob("record.*.json") if done.config_hash in path.name]
    assert kept and '"done"' in kept[0].read_text()


def test_no_done_record_is_ever_replaced(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    out = tmp_path / "out"
    done: list[bytes] = []
    for kind in ("done", "done", "failed", "done", "failed", "failed"):
        with monkeypatch.context() as patch:
            if kind == "failed":
                patch.setattr(TranslationTask, "evaluate", broken)
            assert _train(root, out, "--again") == (0 if kind == "done" else 1)
        (present,) = Store(out).records()
        assert present.status == kind
        if kind == "done":
            done.append(present.to_json())
    folder = Store(out).path(present).parent
    kept = [path.read_bytes() for path in folder.glob("record.*.json")]
    assert len(kept) == len(done) == 3 and set(kept) == set(done)
    assert len(list(folder.glob("weights.*.safetensors"))) == 3
    assert len(list(folder.glob("predictions.*.txt"))) == 3


def test_dictionaries_of_two_languages_are_not_tied_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.shared import golden_dir

    folder = tmp_path / "separate"
    shutil.copytree(golden_dir() / "fairseq" / "preprocessed_separate", folder)
    assert _train(folder, tmp_path / "out", "share_embeddings=all") == 2
    assert "share_embeddings=decoder" in capsys.readouterr().err
