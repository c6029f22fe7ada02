"""The registry of attention variants: it builds them, documents them and is the test matrix."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from .contract import Attention, Chain, NoAttention, SiteError
from .spec import Part, Spec, SpecError, Value, parse_spec
from .traits import Ability, Site, Traits

VariantClass = TypeVar("VariantClass", bound=type[Attention])


@dataclass(frozen=True)
class Variant:
    """One registered variant.

    Attributes:
        name: the name in specs.
        cls: the module class; its keyword-only arguments are the options of the spec.
        positional: the option that may stand without its key, e.g. ``terms(0110)``.
        examples: specs that the contract tests run and ``attnbench list attention`` shows.
        summary: one line for the list.
        axes: 1 for elements in a row or without order, 2 for the cells of a feature map.
    """

    name: str
    cls: type[Attention]
    positional: str | None
    examples: tuple[str, ...]
    summary: str
    axes: int = 1


_VARIANTS: dict[str, Variant] = {}
_ON_GRIDS: dict[str, Variant] = {}
_RESERVED = {"self", "dim", "heads", "dropout"}


def register_attention(
    name: str, *, examples: tuple[str, ...], positional: str | None = None, axes: int = 1
) -> Callable[[VariantClass], VariantClass]:
    """Class decorator that makes a variant available under ``name`` in specs.

    The constructor must take ``(dim, heads, *, dropout, **options)`` and the class must have
    ``traits(**options)``. ``examples`` are run by every contract test. A class for ``axes=2``
    takes the place of the one for ``axes=1`` on feature maps; a variant without one has the same
    class on both.
    """

    def decorate(cls: VariantClass) -> VariantClass:
        variants = _ON_GRIDS if axes == 2 else _VARIANTS
        if name in variants:
            raise ValueError(f"attention variant {name!r} is registered twice")
        summary = (inspect.getdoc(cls) or "").partition("\n")[0]
        variants[name] = Variant(name, cls, positional, examples, summary, axes)
        return cls

    return decorate


def list_variants(axes: int = 1) -> list[Variant]:
    """All registered variants, by name, as they are with one axis or two."""
    variants = {**_VARIANTS, **_ON_GRIDS} if axes == 2 else _VARIANTS
    return [variants[name] for name in sorted(variants)]


def variant_examples(axes: int = 1) -> list[str]:
    """Every example spec of every variant: the test matrix."""
    return [example for variant in list_variants(axes) for example in variant.examples]


def build_attention(
    spec: str | Spec,
    *,
    dim: int,
    heads: int = 8,
    dropout: float = 0.0,
    site: Site | None = None,
    axes: int = 1,
) -> Attention:
    """Build the module that a spec names.

    Args:
        spec: e.g. ``terms(0110)`` or ``terms(0010)+deformable``.
        dim: model width D.
        heads: number of heads H; must divide D.
        dropout: dropout on attention weights (or on the taps of a predicted kernel).
        site: if given, a spec that can't serve it raises ``SiteError``; it also says ``axes``.
        axes: 2 if the elements are cells of a feature map (``Grid2D``), else 1.

    Raises:
        SpecError: unknown variant or option, or an option out of range.
        SiteError: the variant can't serve ``site``.
    """
    parsed = parse_spec(spec)
    if site is not None and (reason := refusal(parsed, site)) is not None:
        raise SiteError(f"attention {str(parsed)!r} can't stand at {site.name}: {reason}")
    if site is not None:
        axes = site.axes
    modules = [_build_part(part, parsed, dim, heads, dropout, axes) for part in parsed.parts]
    present = [module for module in modules if not isinstance(module, NoAttention)]
    if not present:
        return modules[0]
    return present[0] if len(present) == 1 else Chain(inner=present[0], fronts=present[1:])


def traits_of(spec: str | Spec, axes: int = 1) -> Traits:
    """The traits of a spec; a chain lacks what any of its parts lacks."""
    parsed = parse_spec(spec)
    traits = [_part_traits(part, parsed, axes) for part in parsed.parts]
    present = [one for one in traits if one.family != "none"] or traits[:1]
    lacks: dict[Ability, str] = {}
    for one in reversed(present):
        lacks.update(one.lacks)
    first = present[0]
    return Traits(first.family, first.weights, first.geometry, lacks, first.convolution)


def refusal(spec: str | Spec, site: Site) -> str | None:
    """The reason why ``spec`` can't serve ``site``, or None if it can."""
    return site.refuses(traits_of(spec, site.axes))


def split_convolution(spec: str | Spec) -> tuple[Spec, dict[str, Any] | None]:
    """A spec on a feature map, in two: what stands at the site, and the convolution before it.

    In a residual block a ``deformable`` part takes the place of the block's own convolution, as
    in Table 2 of Zhu et al. (ICCV 2019).

    Returns:
        The spec without that part (``none`` if nothing is left), and the part's options, or None
        where the block keeps its own convolution.

    Raises:
        SpecError: as in ``build_attention``, or two parts want to be the convolution.
    """
    parsed = parse_spec(spec)
    convolutions = [part for part in parsed.parts if _part_traits(part, parsed, 2).convolution]
    if len(convolutions) > 1:
        raise SpecError(
            f"attention spec {str(parsed)!r}: a block has one convolution, so keep one of "
            f"{' and '.join(map(str, convolutions))}"
        )
    rest = tuple(part for part in parsed.parts if part not in convolutions)
    options = _options(convolutions[0], parsed, 2) if convolutions else None
    return Spec(rest or (Part("none"),)), options


def _part_traits(part: Part, spec: Spec, axes: int) -> Traits:
    return _variant(part, spec, axes).cls.traits(**_options(part, spec, axes))


def _build_part(
    part: Part, spec: Spec, dim: int, heads: int, dropout: float, axes: int
) -> Attention:
    variant = _variant(part, spec, axes)
    options = _options(part, spec, axes)
    if variant.cls.traits(**options).family == "none":  # terms(0000) is none
        return NoAttention(dim, heads)
    make = cast(Callable[..., Attention], variant.cls)
    try:
        return make(dim, heads, dropout=dropout, **options)
    except ValueError as error:
        raise SpecError(f"attention spec {str(spec)!r}: {error}") from error


def _variant(part: Part, spec: Spec, axes: int) -> Variant:
    if part.name not in _VARIANTS:
        near = difflib.get_close_matches(part.name, _VARIANTS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'attnbench list attention'"
        raise SpecError(f"attention spec {str(spec)!r}: no variant is called {part.name!r}; {hint}")
    return _ON_GRIDS.get(part.name, _VARIANTS[part.name]) if axes == 2 else _VARIANTS[part.name]


def _options(part: Part, spec: Spec, axes: int) -> dict[str, Any]:
    """The keyword arguments of a part, checked against the constructor's signature."""
    variant = _variant(part, spec, axes)
    parameters = inspect.signature(variant.cls.__init__).parameters
    known = {name: parameter for name, parameter in parameters.items() if name not in _RESERVED}
    options = dict(part.options)
    if part.positional is not None:
        if variant.positional is None or variant.positional in options:
            raise SpecError(
                f"attention spec {str(spec)!r}: {part.positional!r} has no key; "
                f"the options of {part.name} are {', '.join(known) or 'none'}"
            )
        options[variant.positional] = part.positional
    for name, value in list(options.items()):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "remove it"
            raise SpecError(
                f"attention spec {str(spec)!r}: {part.name} has no option {name!r} "
                f"(it has {', '.join(known) or 'none'}); {hint}"
            )
        options[name] = _converted(name, value, known[name].default, spec)
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty and name not in options
    ]
    if missing:
        example = variant.examples[0] if variant.examples else part.name
        raise SpecError(
            f"attention spec {str(spec)!r}: {part.name} needs {missing[0]}; write e.g. {example}"
        )
    try:
        variant.cls.traits(**options)
    except ValueError as error:
        raise SpecError(f"attention spec {str(spec)!r}: {error}") from error
    return options


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
}


def _converted(name: str, value: Value, default: Any, spec: Spec) -> Value:
    """The value as the type of the option's default (text if it has none)."""
    if default is inspect.Parameter.empty:
        return str(value)
    kind = type(default)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        raise SpecError(
            f"attention spec {str(spec)!r}: {name} is {_KINDS.get(kind, kind.__name__)}, "
            f"not {shown}"
        )
    return value
