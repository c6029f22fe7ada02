"""What a run stood on: versions, commit, device. Imports none of the libraries it names."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TypedDict

CHECKOUT = Path(__file__).resolve().parent.parent

_DISTRIBUTIONS = (
    "attnbench",
    "torch",
    "torchvision",
    "lightning",
    "torchmetrics",
    "numpy",
    "datasets",
    "tokenizers",
    "sentencepiece",
    "sacrebleu",
    "fairseq-fixed",
)
_FILES_THAT_COUNT = ("*.py", "*.yaml", "*.toml", "*.csv", ":(exclude)tests")


class Environment(TypedDict):
    """The fields of a `RunRecord` that the machine and the checkout decide."""

    versions: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    device: str


def environment(device: str | None = None) -> Environment:
    """Versions of Python and of the libraries installed, commit and state of the checkout, device.

    `device` is the accelerator's name where one is used; without it the CPU's name and the
    number of cores this process may use. The host's name is left out on purpose.
    """
    commit, dirty = git_state(CHECKOUT)
    return {
        "versions": installed_versions(),
        "git_commit": commit,
        "git_dirty": dirty,
        "device": device or cpu_name(),
    }


def installed_versions() -> dict[str, str]:
    """Versions by distribution name; what isn't installed is left out."""
    versions = {"python": platform.python_version(), "system": platform.system()}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def cpu_name() -> str:
    """For example `Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz, 2 cores`."""
    name = platform.processor() or platform.machine() or "CPU"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            name = line.partition(":")[2].strip() or name
            break
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    return f"{name}, {cores} core{'s' if cores > 1 else ''}"


def git_state(checkout: Path) -> tuple[str | None, bool | None]:
    """(commit, dirty) of the repository whose top folder is `checkout`, else (None, None).

    Dirty: a file that can change a result (code, grids, published numbers) differs from the
    commit or isn't in it.
    """
    top = _git(checkout, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != checkout.resolve():
        return None, None
    commit = _git(checkout, "rev-parse", "--verify", "HEAD")
    changes = _git(
        checkout, "status", "--porcelain", "--untracked-files=all", "--", *_FILES_THAT_COUNT
    )
    if not commit:
        return None, None
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of one git command, stripped; None where git is absent, refuses or hangs."""
    import subprocess

    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "--no-optional-locks", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            env=variables,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
