"""The display: lines in a file, bars on a terminal, and an estimate that can be believed."""

import io

import pytest
from rich.console import Console

from attnbench.benchmarks import progress
from attnbench.benchmarks.events import Advanced, Finished, Note, Reading, Skipped, Started
from attnbench.benchmarks.progress import Display, Estimate, spoken

STEP = Advanced(
    worker=0,
    cell="1010 seed 0",
    phase="training",
    step=30,
    max_steps=120,
    epoch=2,
    values={"train/loss": 3.21},
    rate=5200.0,
    unit="tokens/s",
    seconds_left=90.0,
)


def shown(*events: object, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=160, highlight=False)
    with Display(2, console=console) as display:
        for event in events:
            display(event)  # type: ignore[arg-type]
    return file.getvalue()


def test_plain_lines_say_cell_step_metric_rate_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    text = shown(
        Started(0, 1, 2, "1010 seed 0"),
        STEP,
        Finished(0, "1010 seed 0", "done", "bleu 21.30", 100.0),
        Finished(0, "0000 seed 0", "refused", "it [can't]", 0.0),
        Skipped(0, "0001 seed 0", "running", "process 7"),
        Note("a note"),
        terminal=False,
    ).splitlines()
    assert text[0] == "[1/2] 1010 seed 0"
    assert text[1] == (
        "1010 seed 0: training, step 30 of 120, epoch 2, train/loss 3.21, 5,200 tokens/s, "
        "1 min 30 s left (grid: about 3 min 00 s left)"
    )
    assert text[2] == ("1010 seed 0 done in 1 min 40 s: bleu 21.30 (grid: about 1 min 40 s left)")
    assert text[3] == "0000 seed 0 n/a: it [can't]"
    assert text[4] == "0001 seed 0: left to another run, which has it now (process 7)"
    assert text[5] == "a note"


def test_a_log_file_gets_few_lines() -> None:
    text = shown(Started(0, 1, 2, "1010 seed 0"), *[STEP] * 1000, terminal=False)
    assert len(text.splitlines()) == 1


def test_bars_show_the_cell_and_the_grid() -> None:
    note = Note("1010 seed 0: going on from update 20")
    text = shown(Reading("demo"), Started(0, 1, 2, "1010 seed 0"), note, STEP, terminal=True)
    for words in ("reading demo", "going on from update 20"):
        assert words in text
    for words in ("cells", "1010 seed 0", "30/120", "train/loss 3.21", "1 min 30 s left"):
        assert words in text


def test_the_estimate_learns_from_finished_cells() -> None:
    estimate = Estimate(total=4, workers=1, known=[])
    assert estimate.seconds_left() is None
    estimate.started(0)
    estimate.advanced(0, None)
    assert estimate.seconds_left() is None
    estimate.advanced(0, 60.0)
    assert estimate.seconds_left() == pytest.approx(4 * 60, abs=2)
    estimate.finished(0, 100.0)
    assert estimate.seconds_left() == pytest.approx(3 * 100)
    estimate.finished(0, 0.0)  # a refused cell costs nothing and says nothing
    assert estimate.seconds_left() == pytest.approx(2 * 100)
    assert Estimate(total=4, workers=2, known=[10.0]).seconds_left() == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (3e5, "3.5 days"),
    ],
)
def test_times_are_spoken(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
