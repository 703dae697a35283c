"""Characters that look like an ASCII letter or sign are read as it; no others are."""

from __future__ import annotations

import unicodedata

import pytest

from chatmemory.text.confusable_characters import CONFUSABLES
from chatmemory.text.confusables import skeleton


@pytest.mark.parametrize("plain", CONFUSABLES)
def test_each_double_looks_like_its_plain_sign(plain: str) -> None:
    assert {skeleton(double) for double in CONFUSABLES[plain]} == {plain}


def test_no_double_is_in_two_places_or_ascii() -> None:
    doubles = "".join(CONFUSABLES.values())
    assert len(set(doubles)) == len(doubles) > 350
    assert not [double for double in doubles if double.isascii()]


@pytest.mark.parametrize(
    "text",
    [
        "\uabaa\u1d8c\uabaat\uab32m:",  # Cherokee and others
        "\ua4e2Y\ua4e2\ua4d4\ua4f0\ua4df:",  # Lisu
        "\U000118c1YSTEM:",  # Warang Citi
        "s\u0443st\u22ffm:",  # Cyrillic, and a mathematical sign
    ],
)
def test_words_of_several_scripts(text: str) -> None:
    assert skeleton(text) == "system:"


def test_digits_of_numbers_stay_digits() -> None:
    assert skeleton("\U0001d7ce\U0001d7cf \uff10\u06f1") == "01 0\u06f1"
    assert unicodedata.digit("\u06f1") == 1
