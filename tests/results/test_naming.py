"""Folder names: one for each name, and a name for each folder."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnbench.results import slug


def unslug(text: str) -> str:
    """What `slug` was given, for names that weren't cut."""
    data = re.sub(r"~(..)", lambda m: chr(int(m[1], 16)), "" if text == "~" else text)
    return data.encode("latin-1").decode("utf-8", "surrogatepass")


@pytest.mark.parametrize("name", ["1111", "terms(0010)+deformable", "query+key", "SAN", "0.5"])
def test_usual_names_stay_as_they_are(name: str) -> None:
    assert slug(name) == name


@given(st.text(max_size=12))
@example("..")
@example(".")
@example("")
@example("w/o")
@example("w~2fo")
@example("\ud800")
def test_a_name_can_be_read_back_from_its_folder(name: str) -> None:
    text = slug(name)
    assert unslug(text) == name
    assert re.fullmatch(r"[A-Za-z0-9_+=,()~-][A-Za-z0-9._+=,()~-]*", text)
    assert "." not in slug(name, dots=False)


@given(st.text(min_size=100, max_size=400), st.text(min_size=1, max_size=3))
def test_long_names_fit_and_stay_apart(name: str, more: str) -> None:
    assert len(slug(name)) <= 120
    assert slug(name) != slug(name + more)
    assert slug(name) == slug(name)


def test_names_that_look_alike_get_their_own_folders() -> None:
    names = ["w/o", "w_o", "w-o", "w o", "w~o", "wo", "W/O", "w\\o", "w/o ", "w~2fo"]
    assert len({slug(name) for name in names}) == len(names)
