"""The result files can be read on a machine in a hurry and without torch."""

import resource
import subprocess
import sys

import pytest

import attnbench.results as results


def seconds_of(code: str) -> float:
    """CPU seconds of a whole interpreter that runs `code`, the best of three."""
    times: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_import_takes_less_than_a_third_of_a_second() -> None:
    assert seconds_of("import attnbench.results") < 0.3


def test_everything_together_takes_less_than_half_a_second() -> None:
    assert seconds_of("from attnbench.results import *") < 0.5


def test_nothing_imports_torch() -> None:
    code = (
        "import sys; from attnbench.results import *; environment(); Published.load();"
        "sys.exit(any(m in sys.modules for m in ('torch', 'lightning', 'numpy', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_can_be_had() -> None:
    assert sorted(results._MODULE_OF) == sorted(results.__all__)
    for name in results.__all__:
        assert getattr(results, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        results.Tabel  # noqa: B018
