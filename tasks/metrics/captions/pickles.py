"""Reading old pickles of plain data, and nothing else, from a file that may be hostile."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

from .errors import CaptionScoreError

_ADMITTED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "OrderedDict"): collections.OrderedDict,
    **{
        (module, kind.__name__): kind
        for module in ("builtins", "__builtin__")
        for kind in (int, float)
    },
}


class _PlainUnpickler(pickle.Unpickler):
    """Admits containers and numbers by name; any other class or function is refused."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            raise CaptionScoreError(f"it holds {module_name}.{global_name}, which is no plain data")
        return _ADMITTED[module_name, global_name]


def read_plain_pickle(path: Path) -> Any:
    """Read dictionaries, lists, tuples, strings and numbers; Python 2's strings as UTF-8.

    Raises:
        CaptionScoreError: no such file, no pickle, or something else than plain data in it.
    """
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file, encoding="utf-8").load()
    except OSError as error:
        raise CaptionScoreError(
            f"can't read {path}: {(error.strerror or str(error)).lower()}; check the path"
        ) from None
    except CaptionScoreError as error:
        raise CaptionScoreError(f"{path} isn't opened: {error}; use a file you trust") from None
    except Exception as error:  # whatever a damaged file makes of the unpickler
        raise CaptionScoreError(
            f"{path} is no whole pickle ({type(error).__name__}: {error}); fetch or make it anew"
        ) from None
