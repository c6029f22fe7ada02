"""Writing a whole demo folder in one step."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import DataError
from ..files import reading


def write_folder(root: Path, contents: Mapping[str, bytes]) -> Path:
    """Put files into a folder, in one step; a folder that holds just these is left as it is.

    Args:
        root: the folder; made if it is missing.
        contents: the bytes of each file by its path below the folder.

    Raises:
        DataError: the folder holds something else, is the current one, or can't be read or written.
    """
    with reading(root):
        if _is_there(root, contents):
            return root
        place = root.resolve()
        if place == Path.cwd():  # it would be replaced under the user's shell
            raise DataError(
                f"{root} is the current folder; give a new folder in it, such as demo, as root."
            )
    _write(place, contents)
    return root


def _is_there(root: Path, contents: Mapping[str, bytes]) -> bool:
    if not root.exists():
        return False
    if not root.is_dir():
        raise DataError(f"{root} is a file; give a folder for the demo data.")
    folders = {parent for name in contents for parent in Path(name).parents} - {Path()}
    found = {path.relative_to(root) for path in root.rglob("*")}
    if found == folders | set(map(Path, contents)) and all(
        (root / name).read_bytes() == content for name, content in contents.items()
    ):
        return True
    if any(root.iterdir()):
        raise DataError(
            f"{root} is not empty and holds other files than this demo; give an empty or a "
            "new folder."
        )
    return False


def _write(root: Path, contents: Mapping[str, bytes]) -> None:
    work = None
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=root.name + ".", dir=root.parent))
        for name, content in contents.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        work.chmod(0o755)  # a temporary folder is readable for its owner only
        os.replace(work, root)
    except OSError as error:
        raise DataError(f"{root} can't be written: {error.strerror or error}.") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
