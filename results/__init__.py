"""Records, the store they lie in, published numbers and result tables. Imports no torch.

Names are loaded when they are first asked for, so that the import itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aggregate import MetricCell, TableRow
    from .atomic import write_atomically
    from .canonical import config_hash
    from .errors import StoreError
    from .naming import slug
    from .present import PresentSettings
    from .provenance import environment
    from .published import Published, PublishedTable, PublishedValue
    from .record import SCHEMA_VERSION, DataStamp, RunRecord, Status
    from .render import FORMATS
    from .spec import MetricSpec, PublishedSource, RowSpec, TableSpec
    from .store import CellLike, Found, Only, Store
    from .table import Format, ResultTable

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "CellLike",
    "DataStamp",
    "Format",
    "Found",
    "MetricCell",
    "MetricSpec",
    "Only",
    "PresentSettings",
    "Published",
    "PublishedSource",
    "PublishedTable",
    "PublishedValue",
    "ResultTable",
    "RowSpec",
    "RunRecord",
    "Status",
    "Store",
    "StoreError",
    "TableRow",
    "TableSpec",
    "config_hash",
    "environment",
    "slug",
    "write_atomically",
]

_NAMES = {
    "aggregate": ("MetricCell", "TableRow"),
    "atomic": ("write_atomically",),
    "canonical": ("config_hash",),
    "present": ("PresentSettings",),
    "provenance": ("environment",),
    "errors": ("StoreError",),
    "published": ("Published", "PublishedTable", "PublishedValue"),
    "record": ("SCHEMA_VERSION", "DataStamp", "RunRecord", "Status"),
    "render": ("FORMATS",),
    "naming": ("slug",),
    "spec": ("MetricSpec", "PublishedSource", "RowSpec", "TableSpec"),
    "store": ("CellLike", "Found", "Only", "Store"),
    "table": ("Format", "ResultTable"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load the module that defines `name`."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
