"""Checkpoint files: whole or absent, thinned out, the newest readable one found."""

from pathlib import Path

import pytest
import torch

from attnbench.benchmarks.checkpoints import Checkpoints, WholeFiles, step_of
from attnbench.results import StoreError


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    """Four checkpoints, steps 10 to 40."""
    found = Checkpoints(tmp_path / "checkpoints" / "hash", keep=3)
    for step in (10, 20, 30, 40):
        content = {"state_dict": {"w": torch.ones(100)}, "pytorch-lightning_version": "2"}
        WholeFiles().save_checkpoint({**content, "step": step}, found.path(step))
    return found


def test_the_newest_stay_and_the_last_are_in_order(checkpoints: Checkpoints) -> None:
    checkpoints.thin_out()
    assert checkpoints.all() == [checkpoints.path(step) for step in (20, 30, 40)]
    fewer = Checkpoints(checkpoints.folder, keep=2)
    assert [step_of(path) for path in fewer.last()] == [30, 40]
    checkpoints.remove()
    assert not checkpoints.folder.parent.exists()


def test_another_programs_checkpoint_is_passed_over(checkpoints: Checkpoints) -> None:
    WholeFiles().save_checkpoint({"model": {"w": torch.ones(1)}}, checkpoints.path(50))
    assert checkpoints.newest_readable() == (checkpoints.path(40), [checkpoints.path(50)])
    assert checkpoints.unreadable() == [checkpoints.path(50)]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no checkpoint at all"])
def test_damaged_files_are_passed_over(checkpoints: Checkpoints, content: bytes) -> None:
    checkpoints.path(40).write_bytes(content)
    checkpoints.path(30).write_bytes(checkpoints.path(30).read_bytes()[:-100])
    newest, broken = checkpoints.newest_readable()
    assert newest == checkpoints.path(20)
    assert broken == [checkpoints.path(40), checkpoints.path(30)]


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none", keep=1).newest_readable() == (None, [])
    assert not Checkpoints(tmp_path / "none").any()


def test_checkpoints_of_other_data_are_told_apart_and_kept(
    tmp_path: Path, checkpoints: Checkpoints
) -> None:
    before = checkpoints.all()
    assert not checkpoints.are_of({"train.en": "abc"})  # made before it was known whose
    assert checkpoints.all() == before
    own = Checkpoints(tmp_path / "own", keep=2)
    own.belong_to({"train.en": "abc"})
    WholeFiles().save_checkpoint({}, own.path(10))
    assert own.are_of({"train.en": "abc"})
    assert not own.are_of({"train.en": "abd"})
    assert own.all() == [own.path(10)]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="step=00000001.ckpt"):
        WholeFiles().save_checkpoint({}, tmp_path / "file" / "step=00000001.ckpt")
