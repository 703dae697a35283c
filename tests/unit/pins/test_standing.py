"""Where a message has what a summarizer quotes of it."""

from __future__ import annotations

import time

import pytest

from memory.pins.statements import place_of


@pytest.mark.parametrize(
    ("quote", "text", "place"),
    [
        ("Always say please.", "Hallo!\n Always  say\n\tplease. Thanks.", 8),
        ("say please", "Sayings: 'say please'", 10),
        ("Say please", "say please", -1),
        ("a b", "ab", -1),
        ("a b", "", -1),
    ],
)
def test_white_space_between_words_does_not_matter(quote: str, text: str, place: int) -> None:
    assert place_of(quote, text) == place


def test_hostile_text_takes_no_time() -> None:
    """It is searched for while other writers wait. By a pattern, this took 1.4 s."""
    started = time.process_time()
    assert place_of("a " * 199 + "b", "a " * 500_000) == -1
    assert time.process_time() - started < 0.5
