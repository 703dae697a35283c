"""Text is cleaned correctly, wherever it is split."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.cleaning import TextCleaner, clean, clip_bytes

UNITS = ["\0", "\ud83d", "\ude00", "\ud800", "\udfff", "a", "é", "語", "😀", "\n"]
TEXTS = st.lists(st.sampled_from(UNITS) | st.text(max_size=3)).map("".join)


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain", "plain"),
        ("a\0b\0", "ab"),
        ("\ud83d\ude00", "😀"),  # both halves of a surrogate pair, as JSON escapes give them
        ("\ud83d\0\ude00", "😀"),
        ("a\ud83db\ude00", "a\ufffdb\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ],
)
def test_it_cleans(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@given(TEXTS)
def test_it_agrees_with_a_plain_reading_of_the_rule(text: str) -> None:
    joined = re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"),
        text.replace("\0", ""),
    )
    assert clean(text) == re.sub("[\ud800-\udfff]", "\ufffd", joined)


@given(TEXTS, st.lists(st.integers(0, 40)))
def test_any_cut_gives_the_same_text(text: str, cuts: list[int]) -> None:
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    cleaner = TextCleaner()
    pieces = [cleaner.feed(text[start:end]) for start, end in itertools.pairwise(marks)]
    assert "".join(pieces) + cleaner.flush() == clean(text)
    for piece in pieces:
        assert "\0" not in piece
        piece.encode()  # no lone surrogate in any piece


@given(st.text(), st.integers(-1, 60))
def test_a_clipped_text_is_the_longest_start_that_fits(text: str, limit: int) -> None:
    clipped = clip_bytes(text, limit)
    assert text.startswith(clipped)
    assert len(clipped.encode()) <= max(limit, 0)
    if clipped != text:
        assert len(text[: len(clipped) + 1].encode()) > limit
