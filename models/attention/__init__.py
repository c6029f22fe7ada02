"""Swappable attention blocks behind one contract (see ``contract.py``).

Legend of the shape suffixes used in this package, e.g. ``query_BQD`` or ``keys_BHKE``:

==  =======================================================================
B   batch (items; in beam search the rows of the beam)
H   heads
Q   queries
K   keys (elements of the memory)
P   relative offsets ``key index - query index``
D   model width
E   width of one head, ``D / H``
N   regions of an image
G   width of the embedding of two boxes' geometry, or groups of a convolution
Y,X rows and columns of a feature map; as ``BCHW`` where it is an image, as torch has it
==  =======================================================================
"""

import importlib
import pkgutil

from .boxes import Boxes
from .contract import Attention, AttentionOutput, AttentionState, NoAttention, SiteError
from .geometry import Geometry, Sequence1D
from .grid import Grid2D
from .masks import AttentionMask
from .registry import (
    build_attention,
    list_variants,
    refusal,
    register_attention,
    split_convolution,
    traits_of,
    variant_examples,
)
from .spec import Spec, SpecError, SpecText, parse_spec
from .traits import Site, Traits

# Importing the modules of this folder registers the variants in them.
for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "Attention",
    "AttentionMask",
    "AttentionOutput",
    "AttentionState",
    "Boxes",
    "Geometry",
    "Grid2D",
    "NoAttention",
    "Sequence1D",
    "Site",
    "SiteError",
    "Spec",
    "SpecError",
    "SpecText",
    "Traits",
    "build_attention",
    "list_variants",
    "parse_spec",
    "refusal",
    "register_attention",
    "split_convolution",
    "traits_of",
    "variant_examples",
]
