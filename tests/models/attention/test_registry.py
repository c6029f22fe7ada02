"""Building variants by spec, and who may stand where."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnbench.models.attention import (
    Attention,
    NoAttention,
    Site,
    SiteError,
    SpecError,
    Traits,
    build_attention,
    list_variants,
    parse_spec,
    refusal,
    register_attention,
    traits_of,
    variant_examples,
)
from attnbench.models.attention.contract import Chain
from attnbench.models.attention.deformable import DeformableConvolution
from attnbench.models.attention.terms import TermsAttention

ROOT = Path(__file__).resolve().parents[3]

SEQUENCE = frozenset({"Sequence1D"})
ENCODER = Site("encoder_self", geometry=SEQUENCE)
DECODER = Site("decoder_self", frozenset({"causal", "incremental"}), SEQUENCE)
CROSS = Site("cross", frozenset({"cross", "incremental"}), SEQUENCE, required="nothing is read")
BAG = Site("regions_self")
REGIONS = Site("regions_self", geometry=frozenset({"Boxes"}))


def test_every_variant_is_documented() -> None:
    names = {variant.name for variant in list_variants()}
    assert {"none", "dot", "terms", "nsa", "dynamic", "deformable", "gsa", "relation"} <= names
    for variant in list_variants():
        assert variant.summary.endswith((".", ":")) or len(variant.summary) > 10
        assert variant.examples
        for example in variant.examples:
            assert parse_spec(example).parts[0].name == variant.name
    assert len(variant_examples()) == len(set(variant_examples()))


def test_the_options_reach_the_module() -> None:
    module = build_attention("terms(0110,range=13,scale=false)", dim=32, heads=4, dropout=0.3)
    assert isinstance(module, TermsAttention)
    assert module.terms == (False, True, True, False)
    assert (module.range, module.scale, module.heads, module.dropout) == (13, 1.0, 4, 0.3)
    by_key = build_attention("terms(terms=0110)", dim=32, heads=4)
    assert isinstance(by_key, TermsAttention) and by_key.terms == module.terms


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("term(0110)", "no variant is called 'term'; did you mean terms"),
        ("dynamics", "did you mean dynamic"),
        ("zzz", "no variant is called 'zzz'; see 'attnbench list attention'"),
        ("terms(0110,rnge=3)", r"terms has no option 'rnge' \(it has .*\); did you mean range"),
        ("terms(0110,zzz=3)", "terms has no option 'zzz' .*; remove it"),
        ("none(kernel=3)", r"none has no option 'kernel' \(it has none\)"),
        ("terms", r"terms needs terms; write e.g. terms\(0001\)"),
        ("dot(8)", "'8' has no key; the options of dot are bias"),
        ("terms(0110,terms=1111)", "'0110' has no key"),
        ("dot(bias=1)", "bias is true or false, not 1"),
        ("dot(heads=4)", "dot has no option 'heads'"),
        ("dot(dropout=0.1)", "dot has no option 'dropout'"),
        ("terms(0110)+deformabel", "no variant is called 'deformabel'; did you mean deformable"),
        ("terms(0110,range=two)", "range is a whole number, not 'two'"),
        ("terms(0110,range=2.5)", "range is a whole number, not 2.5"),
        ("deformable(kernel=true)", "kernel is a whole number, not true"),
        ("terms(1111,base=wide)", "base is a number, not 'wide'"),
        ("terms(1111,base=0)", "base is a positive number, not 0"),
        ("terms(1111,range=4)", "range is an odd number of keys, or 0 for all, not 4"),
    ],
)
def test_errors_name_the_spec_and_the_remedy(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        build_attention(spec, dim=16, heads=2)
    assert repr(spec) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(SpecError):
        traits_of(spec)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(SpecError, match="'dot': 3 heads don't divide the width 16"):
        build_attention("dot", dim=16, heads=3)


@pytest.mark.parametrize("spec", ["none", "terms(0000)", "none+none", "terms(0000)+none"])
def test_the_absence_of_attention(spec: str) -> None:
    assert isinstance(build_attention(spec, dim=16, heads=2), NoAttention)
    assert traits_of(spec).family == "none"


@pytest.mark.parametrize("spec", ["deformable", "terms(0000)+deformable", "none+deformable"])
def test_a_front_unit_alone(spec: str) -> None:
    assert isinstance(build_attention(spec, dim=16, heads=2), DeformableConvolution)
    assert refusal(spec, ENCODER) is None


def test_a_chain_reads_its_last_part_first() -> None:
    module = build_attention("terms(0010)+deformable(kernel=3)+deformable(kernel=5)", dim=16)
    assert isinstance(module, Chain)
    assert isinstance(module.inner, TermsAttention)
    kernels = [front.kernel for front in module.fronts if isinstance(front, DeformableConvolution)]
    assert kernels == [5, 3]


@pytest.mark.parametrize(
    ("spec", "site", "reason"),
    [
        ("dot", DECODER, None),
        ("terms(1111)", CROSS, None),
        ("nsa", ENCODER, None),
        ("nsa", DECODER, "see the future"),
        ("nsa(norm=batch)", DECODER, "see the future"),
        ("nsa", CROSS, "while decoding"),
        ("nsa(norm=layer)", DECODER, None),
        ("nsa(norm=layer,on=query+key)", CROSS, None),
        ("dynamic", DECODER, None),
        ("dynamic", CROSS, "can't read another sequence"),
        ("deformable", DECODER, None),
        ("deformable", CROSS, "can't read another sequence"),
        ("terms(1111)+deformable", ENCODER, None),
        ("terms(1111)+deformable", DECODER, None),
        ("terms(1111)+deformable", CROSS, "can't read another sequence"),
        ("nsa+deformable", DECODER, "see the future"),
        ("none", ENCODER, None),
        ("none", CROSS, "nothing is read"),
        ("terms(0000)", CROSS, "nothing is read"),
        ("gsa(query)", ENCODER, "needs the geometry Boxes or Grid2D, and encoder_self offers Seq"),
        ("gsa(query)", REGIONS, None),
        ("ngsa(content)", REGIONS, None),
        ("relation", REGIONS, None),
        ("gsa(key)+deformable", REGIONS, None),
        ("terms(0100)", REGIONS, "needs the geometry Sequence1D, and regions_self offers Boxes"),
        ("gsa(query)", DECODER, "every query and key needs a box"),
        ("relation", CROSS, "every query and key needs a box"),
        ("terms(1010)", BAG, None),
        ("terms(0100)", BAG, "needs the geometry Sequence1D, and regions_self offers none"),
        ("terms(1000,range=3)", BAG, "needs the geometry Sequence1D"),
    ],
)
def test_who_may_stand_where(spec: str, site: Site, reason: str | None) -> None:
    found = refusal(spec, site)
    if reason is None:
        assert found is None
        build_attention(spec, dim=16, heads=2, site=site)
        return
    assert found is not None and reason in found
    with pytest.raises(SiteError, match=f"can't stand at {site.name}: ") as caught:
        build_attention(spec, dim=16, heads=2, site=site)
    assert found in str(caught.value)


def test_a_chain_offers_what_its_attention_offers() -> None:
    plain, chain = traits_of("terms(0100)"), traits_of("terms(0100)+deformable")
    assert (chain.family, chain.weights, chain.geometry) == ("energy", "dense", plain.geometry)
    assert set(chain.lacks) == {"cross"}


def test_a_new_variant_is_one_new_file(tmp_path: Path) -> None:
    """A file in the folder is enough: nothing has to name it."""
    package = tmp_path / "attnbench"
    shutil.copytree(ROOT / "models", package / "models")
    (package / "__init__.py").touch()
    (package / "models" / "attention" / "uniform.py").write_text(
        "from .dot import DotAttention\nfrom .registry import register_attention\n\n"
        "@register_attention('uniform', examples=('uniform',))\n"
        "class UniformAttention(DotAttention):\n    'Averages the keys.'\n"
    )
    code = "from attnbench.models.attention import variant_examples as v; print(*v())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(found.stdout.split()) == {*variant_examples(), "uniform"}


def test_a_variant_of_ones_own() -> None:
    """Registration makes a spec, its options and its refusals, without touching our files."""
    name = "test_only_mean"

    class MeanAttention(Attention):
        """Averages the keys."""

        def __init__(
            self, dim: int, heads: int = 8, *, dropout: float = 0.0, power: int = 1
        ) -> None:
            super().__init__(dim, heads)
            self.power = power

        @classmethod
        def traits(cls, **options: Any) -> Traits:
            return Traits("energy", "none", lacks={"causal": "a mean is over everything"})

        def forward(self, query_BQD: Any, memory_BKD: Any = None, **_: Any) -> Any:
            raise NotImplementedError

    from attnbench.models.attention import registry

    try:
        register_attention(name, examples=(name,))(MeanAttention)
        built = build_attention(f"{name}(power=2)", dim=16)
        assert isinstance(built, MeanAttention) and built.power == 2
        assert refusal(name, DECODER) == "a mean is over everything"
        assert name in variant_examples()
        with pytest.raises(ValueError, match="is registered twice"):
            register_attention(name, examples=())(MeanAttention)
    finally:
        registry._VARIANTS.pop(name, None)
