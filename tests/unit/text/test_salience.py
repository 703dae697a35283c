"""Salient spans are found, carried into summaries, and fit on a line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.salience import CUT_OFF, LIST_CAP, make_line, outline, retained, spans
from chatmemory.text.tokens import count_tokens
from tests.support.exhaustive import first_of

ANY_TEXT = st.text(st.characters(exclude_categories=()))
WORDS = st.sampled_from(
    [
        "the",
        "Anya",
        "Garcia",
        "12",
        "kg",
        "$5",
        "A1B2",
        "\n",
        ".",
        ",",
        "@",
        "a@b.co",
        "of",
        "May",
        "2024",
        "中1",
        "(",
        "/x/y",
    ]
)
PROSE = st.lists(WORDS, max_size=60).map(" ".join)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my reservation is 3RK2T9, flight HAT062.", ["3RK2T9", "HAT062"]),
        ("my user id is anya_garcia_5901", ["anya_garcia_5901"]),
        (
            "order #1234 and 0192f0c1-7d9e-7a3b-8c4d-5e6f70819203",
            ["#1234", "0192f0c1-7d9e-7a3b-8c4d-5e6f70819203"],
        ),
        ("on 1992-11-12 at 10:30 am, or 3pm", ["1992-11-12", "10:30 am", "3pm"]),
        ("on May 20, 2024 or 5 June 2025", ["May 20, 2024", "5 June 2025"]),
        ("it costs $1,200.50, € 30 or 45 EUR", ["$1,200.50", "€ 30", "45 EUR"]),
        ("it weighs 2.5 kg, 50% of 80 points", ["2.5 kg", "50%", "80 points"]),
        ("write to anya@example.com", ["anya@example.com"]),
        ("see https://example.com/a?b=1, please", ["https://example.com/a?b", "1"]),
        ("open /etc/hosts and settings.py", ["/etc/hosts", "settings.py"]),
        ("ask Anya Garcia or Ludwig van Beethoven", ["Anya Garcia", "Ludwig van Beethoven"]),
        ("in São Paulo with Zoë's dog", ["São Paulo", "Zoë"]),
        ("from SFO via the iPhone", ["SFO", "iPhone"]),
        ("Thanks! Flights leave. I know.", []),  # capitals without meaning
        ("Garcia called. I know Anya Garcia.", ["Garcia", "Anya Garcia"]),  # also capital mid-sentence
        ("1. first\n2. second", []),  # numbers of list items
        ("Hello hello HELLO3 hello3", ["HELLO3"]),
        ("我的订单号是12345，谢谢", ["12345"]),
        ("我想改签机票", []),
        ("", []),
    ],
)
def test_it_finds_what_must_not_get_lost(text: str, found: list[str]) -> None:
    assert spans(text) == found


@given(st.one_of(ANY_TEXT, PROSE))
def test_spans_come_once_and_from_the_text(text: str) -> None:
    found = spans(text)
    assert len({span.casefold() for span in found}) == len(found)
    squeezed = "".join(text.split())
    assert all("".join(span.split()).replace("'s", "") in squeezed.replace("'s", "") for span in found)


@pytest.mark.parametrize(
    ("span", "summary", "kept"),
    [
        ("12", "there were 312 of them", False),
        ("12", "there were 12.", True),
        ("12", "on 2024-05-12", False),
        ("HAT062", "flights hat062/HAT039", True),
        ("$1,200", "it cost 1200 dollars", True),
        ("and Anya Garcia", "ANYA GARCIA's seat", True),
        ("and Anya Garcia", "Anya met Mei Garcia", False),
        ("1992-11-12", "born (1992-11-12)", True),
    ],
)
def test_a_span_is_kept_as_whole_words_in_sequence(span: str, summary: str, kept: bool) -> None:
    assert retained(span, summary).share == float(kept)


def test_retained_names_both_sides_and_counts_all() -> None:
    source = " ".join(f"A{number}" for number in range(1000))
    result = retained(source, " ".join(f"A{number}" for number in range(250)))
    assert result.share == 0.25
    assert result.kept == [f"A{number}" for number in range(LIST_CAP)]
    assert result.lost == [f"A{number}" for number in range(250, 250 + LIST_CAP)]


def test_a_source_without_spans_loses_nothing() -> None:
    assert retained("nothing in here", "").share == 1.0


@given(PROSE)
def test_a_text_retains_itself(text: str) -> None:
    assert retained(text, text).share == 1.0


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


@given(st.one_of(ANY_TEXT, PROSE), st.one_of(ANY_TEXT, PROSE), st.integers(0, 60), st.booleans())
def test_a_line_is_one_line_within_its_limit(user: str, assistant: str, limit: int, cut_off: bool) -> None:
    line = make_line(user, assistant, limit, cut_off)
    assert count_tokens(line) <= limit
    assert len(line.splitlines()) <= 1
    assert not any(ord(character) < 32 for character in line)


def test_a_line_of_a_giant_turn_is_found_near_its_beginning() -> None:
    line = make_line("word " * 40_000 + "LATE99", "A1B2C3 " + "word " * 40_000)
    assert "A1B2C3" in line
    assert "LATE99" not in line


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


@pytest.mark.parametrize(
    "bit",
    first_of(
        ["a", "A", "1,", "@", " ", "\n", "Aa ", "1 May ", "A of ", "a.b@", "中1", "/", "_", "'", "$ 1 "], 3
    ),
)
def test_repeats_make_no_more_spans_than_they_say(bit: str) -> None:
    assert len(spans((bit * 200_000)[:200_000])) <= 3


@pytest.mark.skipif("SAMPLES" not in os.environ, reason="SAMPLES names no folder of real chats")
def test_facts_of_real_chats_are_inside_spans() -> None:
    chats = json.loads(Path(os.environ["SAMPLES"], "tau_airline_xl.json").read_text())["chats"]
    hits = [
        any(surface.casefold() in span.casefold() for span in spans(chat["messages"][at]["text"]))
        for chat in chats
        for fact in chat["facts"]
        if fact["slot"] != "cabin"
        for surface in fact["surface"]
        for at in fact["messages"]
        if surface in chat["messages"][at]["text"]
    ]
    assert sum(hits) >= 0.95 * len(hits) > 0
