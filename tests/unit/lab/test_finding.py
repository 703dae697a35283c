"""When a fact counts as still present."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.lab.retention import Haystack, as_written


@pytest.mark.parametrize(
    ("text", "form", "any_form", "exact"),
    [
        ("Your code is QX7.", "QX7", True, True),
        ("your code is qx7.", "QX7", True, False),  # different case
        ("on May\n21", "May 21", True, False),  # different white space
        ("in 2011", "11", False, False),  # part of a word does not count
        ("11 of 2011", "11", True, True),
        ("(11)", "11", True, True),
        ("£11", "£11", True, True),
        ("QX7QX7 QX7", "QX7", True, True),  # the first two hits touch each other, the last is a whole word
        ("nothing", "", False, False),
        ("", "QX7", False, False),
        ("我们去北京吧", "北京", True, True),  # no spaces between words
    ],
)
def test_it_finds_whole_words(text: str, form: str, any_form: bool, exact: bool) -> None:
    assert Haystack(text).has([form]) is any_form
    assert Haystack(text).has_exactly([form]) is exact


def test_one_form_is_enough() -> None:
    assert Haystack("seat 14C").has(["14D", "14c"])
    assert not Haystack("seat 14C").has_exactly(["14D", "14c"])
    assert not Haystack("seat 14C").has([])


@given(st.text(), st.text(alphabet="ab1 ", min_size=1), st.text())
def test_what_stands_alone_is_found(before: str, form: str, after: str) -> None:
    text = Haystack(f"{before}\n{form}\n{after}")
    assert text.has_exactly([form])
    assert text.has([form]) or not form.strip()


def test_forms_as_a_text_writes_them() -> None:
    assert as_written(["Mocha", "mocha coffee"], "a MOCHA, one mocha and two mochas") == ("MOCHA", "mocha")
    assert as_written(["C++", "(x)"], "c++ and (X)") == ("c++", "(X)")
    assert as_written(["Mocha", "Latte"], "tea") == ("Mocha", "Latte")
    assert as_written([], "tea") == ()
