"""What a variant can do (``Traits``) and what a place in a model asks for (``Site``), as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Ability = Literal["causal", "incremental", "cross"]


@dataclass(frozen=True)
class Traits:
    """Abilities of one attention variant.

    Attributes:
        family: ``energy`` scores every key and normalises; ``sampling`` reads a few places
            (convolution, deformable) and never forms a Q x K matrix; ``none`` is no module.
        weights: what ``AttentionOutput.weights`` means: ``dense`` (a distribution over the
            keys), ``sampled`` (one key drawn), ``kernel`` (taps of a convolution) or ``none``.
        geometry: names of the geometries of which one is needed; empty if none is.
        lacks: abilities the variant does not have, each with the reason.
        convolution: on a feature map it takes the place of the convolution before the site.
    """

    family: Literal["energy", "sampling", "none"]
    weights: Literal["dense", "sampled", "kernel", "none"]
    geometry: frozenset[str] = frozenset()
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    convolution: bool = False


@dataclass(frozen=True)
class Site:
    """A named place in a model where an attention variant is plugged in.

    Attributes:
        name: the config key, e.g. ``decoder_self``.
        needs: abilities that a variant must have here.
        geometry: names of the geometries the model offers here.
        required: if not empty, the reason why ``none`` can't stand here.
        axes: 2 if the elements are cells of a feature map, else 1.
    """

    name: str
    needs: frozenset[Ability] = frozenset()
    geometry: frozenset[str] = frozenset()
    required: str = ""
    axes: int = 1

    def refuses(self, traits: Traits) -> str | None:
        """The reason why a variant with these traits can't serve this site, or None."""
        if traits.family == "none":
            return self.required or None
        for ability in sorted(self.needs):
            if ability in traits.lacks:
                return traits.lacks[ability]
        if traits.geometry and not traits.geometry & self.geometry:
            needed = " or ".join(sorted(traits.geometry))
            offered = ", ".join(sorted(self.geometry)) or "none"
            return f"it needs the geometry {needed}, and {self.name} offers {offered}"
        return None
