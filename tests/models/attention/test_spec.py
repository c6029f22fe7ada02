"""Reading attention specs: canonical round trip, and errors of one sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.models.attention import Spec, SpecError, parse_spec
from attnbench.models.attention.spec import Part, Value

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
words = st.from_regex(r"[a-z]+(\+[a-z]+)?", fullmatch=True).filter(
    lambda word: word not in ("true", "false")
)
values: st.SearchStrategy[Value] = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words
)
parts = st.builds(
    lambda name, positional, options: Part(name, positional, tuple(sorted(options.items()))),
    names,
    st.one_of(st.none(), st.from_regex(r"[0-9a-z]{1,6}", fullmatch=True)),
    st.dictionaries(names, values, max_size=3),
)
specs = st.builds(lambda found: Spec(tuple(found)), st.lists(parts, min_size=1, max_size=3))


@settings(deadline=None)
@given(specs)
def test_the_canonical_form_reads_back(spec: Spec) -> None:
    assert parse_spec(str(spec)) == spec
    assert str(parse_spec(str(spec))) == str(spec)


@settings(deadline=None)
@given(st.text(alphabet="adfst01(),=+-. _\n", max_size=24))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        spec = parse_spec(text)
    except SpecError as error:
        message = str(error)
        assert "\n" not in message and message.startswith("attention spec ")
    else:
        assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("dot", "dot"),
        (" dot ", "dot"),
        ("terms(0110)", "terms(0110)"),
        ("terms( 0110 , range = 13 )", "terms(0110,range=13)"),
        ("nsa(on=query+key, norm=layer)", "nsa(norm=layer,on=query+key)"),
        ("terms(0010)+deformable", "terms(0010)+deformable"),
        ("terms(0010) + deformable(kernel=5)", "terms(0010)+deformable(kernel=5)"),
        ("nsa(affine=true)", "nsa(affine=true)"),
        ("terms(1111,base=1e3)", "terms(1111,base=1000.0)"),
        ("terms(terms=0110)", "terms(terms=0110)"),
    ],
)
def test_spelling_does_not_matter(text: str, canonical: str) -> None:
    assert str(parse_spec(text)) == canonical
    assert parse_spec(parse_spec(text)) == parse_spec(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no variant name"),
        ("Dot", "'Dot' is no variant name"),
        ("dot+", "'' is no variant name"),
        ("terms(0110", "parentheses don't match"),
        ("terms 0110)", "parentheses don't match"),
        ("terms(0110))", "parentheses don't match"),
        ("terms(0110)x", "text follows the last '\\)'"),
        ("terms(0110,13)", "'13' must be key=value"),
        ("terms(range=3,0110)", "'0110' must be key=value"),
        ("terms()", "must be key=value"),
        ("terms(0110,range=)", "'range=' is not key=value"),
        ("terms(0110,=3)", "'=3' is not key=value"),
        ("terms(0110,range=3,range=5)", "'range' is given twice"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        parse_spec(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [110, True, None, ["dot"]])
def test_what_yaml_makes_of_an_unquoted_spec(value: object) -> None:
    with pytest.raises(SpecError, match=r"not text: quote it, e.g. 'terms\(0110\)'"):
        parse_spec(value)  # pyright: ignore[reportArgumentType]
