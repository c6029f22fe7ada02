"""The checkpoints of one cell: written whole, thinned out, and found again after a crash."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from ..results import write_atomically

_NAME = re.compile(r"step=(\d+)\.ckpt")
_DATA = "data.json"


class WholeFiles(TorchCheckpointIO):
    """Lightning's checkpoint files, each either there and whole or not there at all.

    Raises StoreError where the disk is full or not writable.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write to a temporary name in the same folder, flush, rename."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_atomically(Path(path), buffer.getvalue())


class Checkpoints:
    """The checkpoints of one configuration, in a folder of their own.

    Args:
        folder: a folder for this configuration alone, made when it is needed.
        keep: how many are left when a new one is written.
        phase: the phase of training that they are of, empty where there is only one.
    """

    def __init__(self, folder: Path, keep: int = 1, phase: str = "") -> None:
        self.folder, self.phase = folder, phase
        self._keep = keep

    def path(self, step: int) -> Path:
        """The file after `step` updates."""
        return self.folder / f"step={step:08d}.ckpt"

    def of_phase(self, name: str, keep: int) -> Checkpoints:
        """Those of one phase of training, in a folder below where the phase has a name."""
        return Checkpoints(self.folder / name if name else self.folder, keep, name)

    def any(self) -> bool:
        """Whether there are some, of whatever phase."""
        return next(self.folder.rglob("*.ckpt"), None) is not None

    def all(self) -> list[Path]:
        """The files there, oldest first."""
        return [path for _, path in sorted(self._steps())]

    def last(self) -> list[Path]:
        """The newest files that are kept, oldest first."""
        return self.all()[-self._keep :]

    def newest_readable(self) -> tuple[Path | None, list[Path]]:
        """The newest file that can be read whole, and the newer ones that can't."""
        broken: list[Path] = []
        for path in reversed(self.all()):
            if _readable(path):
                return path, broken
            broken.append(path)
        return None, broken

    def unreadable(self) -> list[Path]:
        """The files that can't be read whole, or aren't Lightning's."""
        return [path for path in self.all() if not _readable(path)]

    def thin_out(self) -> None:
        """Remove all but the newest."""
        for path in self.all()[: -self._keep]:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, and the one around it if nothing else is there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def are_of(self, fingerprint: Mapping[str, str]) -> bool:
        """Whether it is known that the checkpoints were trained on these data."""
        with contextlib.suppress(OSError, ValueError):
            known = json.loads((self.folder / _DATA).read_text(encoding="utf-8"))
            return known == dict(fingerprint)
        return False

    def belong_to(self, fingerprint: Mapping[str, str]) -> None:
        """Remember which data the checkpoints to come are trained on."""
        if not self.are_of(fingerprint):
            content = json.dumps(dict(fingerprint), indent=1)
            write_atomically(self.folder / _DATA, content.encode("utf-8"))

    def _steps(self) -> Iterator[tuple[int, Path]]:
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if match := _NAME.fullmatch(path.name):
                    yield int(match[1]), path


def step_of(path: Path) -> int:
    """After how many updates a checkpoint was written."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def _readable(path: Path) -> bool:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # a damaged file can raise anything
        return False
    return isinstance(content, dict) and {"state_dict", "pytorch-lightning_version"} <= set(content)
