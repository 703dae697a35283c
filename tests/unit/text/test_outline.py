"""The outline of a reply: its headings and bullets, or its first short lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.outline import outline


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        (
            "# Plan\ntext\n- one\n* two\n3. three\n**Four**\n- six",
            "# Plan | - one | * two | 3. three | **Four**",
        ),
        ("First line.\n\nSecond line.\nThird.\nFourth.", "First line. | Second line. | Third."),
        ("- " + "x" * 100, "- " + "x" * 48),
        ("y" * 200, "y" * 50),
        ("", ""),
    ],
)
def test_an_outline_is_the_headings_and_bullets(reply: str, points: str) -> None:
    assert outline(reply) == points


@given(
    st.lists(st.sampled_from(["- point", "# head", "plain", "\x00", "\u2028"]), max_size=20).map("\n".join)
)
def test_an_outline_is_one_short_line(reply: str) -> None:
    assert len(outline(reply)) <= 400
    assert len(outline(reply).splitlines()) <= 1
