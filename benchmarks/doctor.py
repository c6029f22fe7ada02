"""`attnbench doctor`: whether this machine and this installation can run the suite."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_NEEDED = (
    "torch",
    "lightning",
    "torchmetrics",
    "numpy",
    "datasets",
    "sacrebleu",
    "tokenizers",
    "sentencepiece",
    "safetensors",
    "pydantic",
    "rich",
)
_EXTRAS = {"fairseq": ("fairseq", "fairseq-fixed", "reading fairseq folders with fairseq itself")}
_LITTLE_SPACE = 5 * 2**30


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `level`: ok, note (something optional is missing) or bad."""

    level: str
    subject: str
    text: str


def examine(out: Path) -> list[Finding]:
    """Look at libraries, processor, memory, GPU, disk and the output folder."""
    return [*_libraries(), *_extras(), _processor(), *_memory(), _gpu(), *_disk(out)]


def _libraries() -> list[Finding]:
    found: list[Finding] = []
    for name in _NEEDED:
        try:
            found.append(Finding("ok", name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append(Finding("bad", name, "isn't installed; install attnbench again"))
    return found


def _extras() -> list[Finding]:
    found: list[Finding] = []
    for extra, (module, distribution, purpose) in _EXTRAS.items():
        if importlib.util.find_spec(module) is not None:
            try:
                text = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                text = "installed"
            found.append(Finding("ok", f"extra {extra}", text))
        else:
            text = f"not installed, only for {purpose}: pip install 'attnbench[{extra}]'"
            found.append(Finding("note", f"extra {extra}", text))
    return found


def _processor() -> Finding:
    from ..results.provenance import cpu_name

    threads = os.environ.get("OMP_NUM_THREADS")
    return Finding(
        "ok", "processor", cpu_name() + (f", OMP_NUM_THREADS={threads}" if threads else "")
    )


def _memory() -> list[Finding]:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return []
    return [Finding("ok", "memory", f"{pages * size / 2**30:.1f} GiB")]


def _gpu() -> Finding:
    try:
        import torch

        number = torch.cuda.device_count()
        if not number:
            return Finding("note", "GPU", "none found; everything runs on the CPU")
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return Finding("ok", "GPU", f"{number} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB")
    except Exception as error:  # a broken driver can raise anything
        return Finding("bad", "GPU", f"torch can't say: {error}")


def _disk(out: Path) -> list[Finding]:
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    space = Finding(
        "ok" if free >= _LITTLE_SPACE else "note",
        "disk",
        f"{free / 2**30:.1f} GiB free for {out}"
        + ("" if free >= _LITTLE_SPACE else ", little for checkpoints"),
    )
    try:
        with tempfile.TemporaryFile(dir=place):
            writable = Finding("ok", "output", f"{out} can be written")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        writable = Finding("bad", "output", f"{out} can't be written: {reason}; choose --out")
    return [space, writable]
