import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.benchmarks.speed import fairseq_generate, fairseq_train
from attnbench.benchmarks.speed.fairseq_folder import check_exit
from attnbench.benchmarks.speed.fairseq_train import Moment, Recipe, log_entry, run_of_log
from attnbench.benchmarks.speed.report import run_benchmark

LINE = (
    '2024-02-29 12:00:00 | INFO | train_inner | {"epoch": 1, "loss": "13.4", "wps": "454.4", '
    '"wpb": "427.4", "bsz": "25.6", "num_updates": "5", "train_wall": "6"}'
)
MAINS = pytest.mark.parametrize("main", [fairseq_train.main, fairseq_generate.main])


def recipe(folder: Path, **changes: int) -> Recipe:
    sizes = {"max_tokens": 300, "heads": 2, "layers": 1, "dim": 16, "ffn_dim": 32}
    return Recipe(folder, **{**sizes, "warmup": 5, "updates": 10, "threads": 1} | changes)


def test_only_training_lines_are_read() -> None:
    entry = log_entry(LINE)
    assert entry is not None and entry["num_updates"] == "5"
    assert log_entry(LINE.replace("train_inner", "train")) is None
    assert log_entry("Start iterating over samples") is None


def test_the_warm_up_is_left_out_of_the_sums() -> None:
    logged = [
        {"num_updates": "5", "wpb": "999", "wps": "1"},
        {"num_updates": "10", "wpb": "100", "wps": "250"},
        {"num_updates": "15", "wpb": "300", "wps": "250"},
    ]
    stamps = {5: Moment(10.0, 1.0), 10: Moment(12.0, 2.0), 15: Moment(18.0, 5.0)}
    run = run_of_log(logged, stamps, recipe(Path()))
    assert run.tokens == 5 * 100 + 5 * 300
    assert run.rate == run.tokens / 8
    assert run.cpu_rate == run.tokens / 4
    assert math.isclose(run.reported, 250)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processor_time_of_a_process_is_read() -> None:
    before = Moment.of(os.getpid())
    while Moment.of(os.getpid()).cpu - before.cpu < 0.05:
        sum(range(100_000))
    assert Moment.of(os.getpid()).wall > before.wall


def test_a_failure_of_fairseq_is_one_sentence_with_its_last_line() -> None:
    with pytest.raises(ValueError, match="fairseq-train failed with exit code 1; it said: no data"):
        check_exit("train", 1, ["first", "no data", ""])
    check_exit("train", 0, [])


@MAINS
def test_a_missing_extra_is_named(
    main: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "fairseq", None)
    assert run_benchmark(main, []) == 2
    assert "attnbench[fairseq]" in capsys.readouterr().err


@MAINS
@pytest.mark.fairseq
def test_a_missing_root_is_explained(
    main: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_benchmark(main, []) == 2
    assert "--root is missing" in capsys.readouterr().err
