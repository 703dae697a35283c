"""A turn as one line, and the outline of a reply: short enough, on one line, with what matters of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import CUT_OFF, automatic_title, make_line, outline

WORDS = st.sampled_from(["the", "Anya", "Garcia", "12", "kg", "$5", "A1B2", "\n", ".", "😀", "我的", "https://a.b/c"])
PROSE = st.lists(WORDS, max_size=60).map(" ".join)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_a_short_turn_is_its_own_line() -> None:
    assert make_line("Hi\nthere", "Hello\tyou") == "User: Hi there / Assistant: Hello you"
    assert make_line("Hi", "As I", cut_off=True) == f"User: Hi / Assistant: As I {CUT_OFF}"
    assert make_line("Hi", "") == "User: Hi"
    assert make_line("", "") == ""


def test_a_long_turn_names_its_spans_and_how_it_began() -> None:
    reply = "I have found the reservation 3RK2T9 of Anya Garcia, born 1992-11-12. " + "Anything else? " * 50
    line = make_line("Hi, I need to change the passenger name please", reply, cut_off=True)
    assert line.startswith('3RK2T9, 1992-11-12, Anya Garcia — "Hi, I need to change')
    assert line.endswith(CUT_OFF)
    giant = make_line("word " * 40_000 + "LATE99", "A1B2C3 " + "word " * 40_000)
    assert ("A1B2C3" in giant, "LATE99" in giant) == (True, False), "they are looked for near the beginning"


@given(st.one_of(ANY_TEXT, PROSE), st.one_of(ANY_TEXT, PROSE), st.integers(0, 60), st.booleans())
def test_a_line_is_one_line_within_its_limit(user: str, assistant: str, limit: int, cut_off: bool) -> None:
    line = make_line(user, assistant, limit, cut_off)
    assert count_tokens(line) <= limit
    assert len(line.splitlines()) <= 1
    assert not any(ord(character) < 32 for character in line)


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


@given(st.lists(st.sampled_from(["- point", "# head", "plain", "\x00", "\u2028"]), max_size=20).map("\n".join))
def test_an_outline_is_one_short_line(reply: str) -> None:
    assert len(outline(reply)) <= 400
    assert len(outline(reply).splitlines()) <= 1


FILES = '<attached_files>\n<file type="file" url="7f" name="plan.pdf"/>\n</attached_files>'


@pytest.mark.parametrize(
    ("message", "title"),
    [
        (f"{FILES}\n\nWhat does the plan say?", "What does the plan say?"),
        (f"{FILES}\n\n{FILES}\n**Compare** them", "Compare them"),
        (FILES, "<attached_files>"),
        ("<attached_files>\nnever closed", "<attached_files>"),
        ("<b>Bold</b> words", "<b>Bold</b> words"),
        ("My order has not arrived.\nWhat now?", "My order has not arrived."),
        ("## Is the **concert** on `10 July`?", "Is the concert on 10 July?"),
        ("\n \u200b\n  One\t two  \r\nthree", "One two"),
        (f"{'word ' * 11}and more", f"{'word ' * 11}and…"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("😀" * 70, "😀" * 59 + "…"),
        ("\u200b", ""),
        ("می‌خواهم بدانم", "می‌خواهم بدانم"),
    ],
)
def test_title_is_the_first_line_without_marks_and_leading_tag_blocks(message: str, title: str) -> None:
    assert automatic_title(message) == title


ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize("letter", ["👨\u200d👩\u200d👧", "🇩🇪", ENGLAND, "e\u0301\u0323"])
def test_long_title_is_cut_between_letters_as_they_are_read(letter: str) -> None:
    for shift in range(len(letter)):
        assert automatic_title("x" * shift + letter * 60) == "x" * shift + letter * ((59 - shift) // len(letter)) + "…"
