"""The arrows between the packages, and what must never stand in the repository."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What each package may import of ours, beside itself.
ARROWS: dict[str, set[str]] = {
    "models": set(),
    "results": set(),
    "datamodules": set(),
    "tasks": {"models", "datamodules"},
    "benchmarks": {"tasks", "models", "datamodules", "results"},
}
HEAVY = {"torch", "lightning", "pytorch_lightning", "torchmetrics", "torchvision"}
MODULES = sorted(
    path.relative_to(ROOT) for package in ARROWS for path in (ROOT / package).rglob("*.py")
)

# Put together here so that this file passes its own test.
LOCAL_PATHS = tuple("/" + name + "/" for name in ("work", "tmp", "root", "home"))
REGISTRY = ("index" + "-url", "find" + "-links", "trusted" + "-host")
SHARED = "../" + "shared"


def imported_names(source: str, module: Path) -> Iterator[str]:
    """Give the dotted name of every import in a file, ours as `attnbench.…`.

    `from a import b` gives `a.b`, since b may be a module. `module` is the file's path under the
    package root; relative imports are resolved against it.
    """
    parents = ["attnbench", *module.parts[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def forbidden_imports(source: str, module: Path) -> list[str]:
    """Name the imports of a file that go against the arrows."""
    package = module.parts[0]
    allowed = ARROWS[package] | {package}
    bad: list[str] = []
    for name in imported_names(source, module):
        first, *rest = name.split(".")
        if first == "attnbench" and rest and rest[0] in ARROWS and rest[0] not in allowed:
            bad.append(name)
        elif first in ARROWS:
            bad.append(f"{name} (write it as a relative import)")
        elif (package == "results" and first in HEAVY) or (
            package == "models" and "lightning" in first
        ):
            bad.append(name)
    return bad


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_follow_the_arrows(module: Path) -> None:
    assert forbidden_imports((ROOT / module).read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize(
    ("module", "source", "bad"),
    [
        ("models/layers/ff.py", "from ...tasks import registry", 1),
        ("models/layers/ff.py", "from ..attention import contract\nfrom . import norms", 0),
        ("models/layers/ff.py", "import lightning as L", 1),
        ("results/store.py", "def f():\n    import torch.nn", 1),
        ("results/store.py", "from ..models.attention import Spec", 1),
        ("tasks/translation.py", "from ..benchmarks.cell import Cell", 1),
        ("tasks/translation.py", "from .. import benchmarks", 1),
        ("tasks/translation.py", "from ..datamodules.batch import TranslationBatch", 0),
        ("datamodules/batch.py", "import attnbench.tasks.registry", 1),
        ("benchmarks/cli.py", "from models import attention", 1),
        ("benchmarks/cli.py", "from ..results import Store\nfrom ..tasks.registry import TASKS", 0),
    ],
)
def test_the_check_itself_tells_good_from_bad(module: str, source: str, bad: int) -> None:
    assert len(forbidden_imports(source, Path(module))) == bad


RESULTS_PROBE = """
import sys, time
start = time.perf_counter()
import attnbench.results
print(time.perf_counter() - start)
print(" ".join(sorted({"torch", "lightning", "datasets"} & set(sys.modules))))
"""


def test_results_load_without_torch_and_fast() -> None:
    seconds: list[float] = []
    for _ in range(5):
        output = subprocess.run(
            [sys.executable, "-c", RESULTS_PROBE], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        seconds.append(float(output[0]))
        assert output[1] == "", f"import attnbench.results loads {output[1]}"
        if seconds[-1] < 0.3:
            break
    assert min(seconds) < 0.3


def tracked_files() -> list[Path]:
    """List the files git tracks; skip where this isn't a git checkout."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [Path(name) for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def tracked_text() -> Iterator[tuple[Path, str]]:
    """Give every tracked text file with its content."""
    for path in tracked_files():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    found = [
        f"{path}: {word}"
        for path, text in tracked_text()
        for word in (*LOCAL_PATHS, *REGISTRY)
        if word in text
    ]
    assert found == []


def test_only_tests_and_speed_benchmarks_know_the_reference_folder() -> None:
    exempt = (("tests",), ("benchmarks", "speed"))
    found = [
        str(path)
        for path, text in tracked_text()
        if SHARED in text and not any(path.parts[: len(parts)] == parts for parts in exempt)
    ]
    assert found == []


def unsafe_loads(source: str) -> list[str]:
    """Name the calls in a file that could run code from a data file."""
    bad: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in {"pickle", "yaml", "torch"}:
            bad += [f"from {node.module} import {a.name}" for a in node.names if "load" in a.name]
        if not isinstance(node, ast.Call):
            continue
        call = ast.unparse(node.func)
        weights_only = any(
            word.arg == "weights_only"
            and isinstance(word.value, ast.Constant)
            and word.value.value is True
            for word in node.keywords
        )
        if call in {"pickle.load", "pickle.loads", "yaml.load"} or (
            call == "torch.load" and not weights_only
        ):
            bad.append(f"{call} in line {node.lineno}")
    return [entry for entry in bad if entry != "from yaml import safe_load"]


def test_nothing_unpickles_a_file() -> None:
    found = [
        f"{path}: {call}"
        for path in tracked_files()
        if path.suffix == ".py"
        for call in unsafe_loads((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ("pickle.load(f)", 1),
        ("from pickle import loads", 1),
        ("yaml.load(f, Loader=L)", 1),
        ("yaml.safe_load(f)\nfrom yaml import safe_load", 0),
        ("torch.load(f)", 1),
        ("torch.load(f, weights_only=False)", 1),
        ("torch.load(f, map_location='cpu', weights_only=True)", 0),
    ],
)
def test_the_unsafe_load_check_tells_good_from_bad(source: str, bad: int) -> None:
    assert len(unsafe_loads(source)) == bad
