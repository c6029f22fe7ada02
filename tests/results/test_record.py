"""Records: what is stored is plain, finite and readable again; hashes know what counts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.results import RunRecord, StoreError, config_hash, environment
from attnbench.results.provenance import git_state
from tests.results.samples import make_record


def test_a_record_survives_its_file() -> None:
    record = make_record(metrics={"bleu": 27.123456789012345, "ppl": 4})
    assert RunRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_metric_that_is_no_number_becomes_null_with_a_note(value: float | None) -> None:
    record = make_record(metrics={"bleu": value, "chrf": 50.0})
    stored = json.loads(record.to_json(), parse_constant=pytest.fail)
    assert stored["metrics"] == {"bleu": None, "chrf": 50.0}
    assert stored["notes"]["bleu"]
    assert "chrf" not in stored["notes"]
    kept = make_record(metrics={"bleu": value}, notes={"bleu": "no hypothesis"})
    assert kept.notes == {"bleu": "no hypothesis"}


def test_paths_tuples_and_odd_text_are_stored_plainly() -> None:
    config = {"root": Path("a") / "b", "betas": (0.9, 0.98), "limit": float("inf")}
    record = make_record(config=config, status="failed", reason="bad name \udcff")
    assert record.config == {"root": "a/b", "betas": [0.9, 0.98], "limit": "inf"}
    assert RunRecord.from_json(record.to_json()).reason == "bad name ?"


@pytest.mark.parametrize(
    "change", [{"status": "running"}, {"metrics": {"bleu": "27"}}, {"speed": 1}, {"seed": -1}]
)
def test_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_record(**change)


def test_a_run_without_result_always_has_a_reason() -> None:
    assert make_record(status="failed").reason
    assert make_record(status="refused", reason="leaks the future").reason == "leaks the future"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "metrics": [1]}',
        b'{"schema_version": 1, "metrics": {"bleu": {}}}',
        b'{"schema_version": 1, "metrics": {"bleu": 1' + b"0" * 400 + b"}}",
        b'{"schema_version": 1, "status": []}',
        b'{"schema_version": 1, "config": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b'{"schema_version": 1, "items": 1' + b"0" * 4000 + b"}",
    ],
)
def test_text_that_is_no_record_is_named_as_such(data: bytes) -> None:
    with pytest.raises(StoreError):
        RunRecord.from_json(data)


def test_a_newer_schema_is_told_from_a_broken_file() -> None:
    values = json.loads(make_record().to_json()) | {"schema_version": 2, "new_field": 1}
    with pytest.raises(StoreError, match="newer attnbench"):
        RunRecord.from_json(json.dumps(values).encode())


@given(st.integers(0, 10_000), st.binary(max_size=3))
def test_a_damaged_file_is_a_store_error_or_a_record(place: int, bytes_put: bytes) -> None:
    data = make_record().to_json()
    place %= len(data)
    try:
        RunRecord.from_json(data[:place] + bytes_put + data[place + len(bytes_put) + 1 :])
    except StoreError as error:
        assert "\n" not in str(error).strip()


def test_hash_ignores_spelling_order_and_folders() -> None:
    one = {"steps": 100, "rate": 1e-3, "betas": (0.9, 1.0), "codes": Path("here") / "bpe.codes"}
    other = {"codes": Path("there") / "bpe.codes", "betas": [0.9, 1], "rate": 0.001, "steps": 100.0}
    assert config_hash(one) == config_hash(other)
    assert len(config_hash(one)) == 12
    assert int(config_hash(one), 16) >= 0


@pytest.mark.parametrize(
    ("one", "other"), [(1, 2), (True, 1), ("1", 1), (None, "None"), (0.1, 0.1000001), ([1], [[1]])]
)
def test_hash_tells_values_apart(one: object, other: object) -> None:
    assert config_hash({"key": one}) != config_hash({"key": other})


def test_hash_is_the_same_in_every_process() -> None:
    code = "from attnbench.results import config_hash as h; print(h({'a': {'b', 'c', 'd'}}))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert answers == {config_hash({"a": {"d", "c", "b"}}).encode() + b"\n"}


def test_environment_names_versions_but_not_the_host() -> None:
    found = environment()
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "torch" in found["versions"]
    assert found["device"]
    assert os.uname().nodename not in json.dumps(found)
    assert environment("Some GPU")["device"] == "Some GPU"


def test_git_state_follows_the_checkout(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    assert git_state(tmp_path) == (None, None)
    git("init")
    assert git_state(tmp_path) == (None, None)
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-m", "first")
    commit, dirty = git_state(tmp_path)
    assert commit and len(commit) == 40 and dirty is False
    (tmp_path / "run.log").write_text("1")
    assert git_state(tmp_path) == (commit, False)
    (tmp_path / "code.py").write_text("2")
    assert git_state(tmp_path) == (commit, True)
    (tmp_path / "inside").mkdir()
    assert git_state(tmp_path / "inside") == (None, None)
