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
==  =======================================================================
"""

from .contract import Attention, AttentionOutput, AttentionState, NoAttention, SiteError
from .geometry import Sequence1D
from .masks import AttentionMask
from .registry import (
    build_attention,
    list_variants,
    refusal,
    register_attention,
    traits_of,
    variant_examples,
)
from .spec import Spec, SpecError, parse_spec
from .traits import Site, Traits

# Importing the variants registers them; this list is the one place that names them.
from . import deformable, dot, dynamic, nsa, terms  # noqa: E402, F401  isort: skip

__all__ = [
    "Attention",
    "AttentionMask",
    "AttentionOutput",
    "AttentionState",
    "NoAttention",
    "Sequence1D",
    "Site",
    "SiteError",
    "Spec",
    "SpecError",
    "Traits",
    "build_attention",
    "list_variants",
    "parse_spec",
    "refusal",
    "register_attention",
    "traits_of",
    "variant_examples",
]
