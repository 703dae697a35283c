"""Points of a summary: fragments are placed under the point that led to them, and a summary is parsed back as made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory.llm.offline.extract import LONGEST_SENTENCE, prose
from chatmemory.llm.offline.points import (
    LEAD_TOKENS,
    Fragment,
    is_fragment,
    pieces_kept,
    pieces_said,
    plain_words,
    points,
)
from chatmemory.text.tokens import count_tokens
from tests.unit.llm.makers import TEXTS

ROOT = Path(__file__).resolve().parents[3]
PLENTY = 500


def told(*texts: str, room: int = PLENTY) -> list[str]:
    return points(pieces_said(texts), room)


def again(made: list[str], room: int = PLENTY) -> list[str]:
    return points(pieces_kept("\n".join(f"- {point}" for point in made)), room)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8C8K4E", 0),
        ("mei_lee_123", 0),
        ("$1,240 on 2024-05-18", 1),
        ("Reservation ID: M05KNL", 2),
        ("Their contact is Petra Zupan", 5),
        ("See https://example.com/a-b", 1),
        ("订单号是12345", 2),
        ("Der Schlüssel hängt hier", 4),
        ("", 0),
    ],
)
def test_words_that_are_neither_code_nor_number(text: str, words: int) -> None:
    assert plain_words(text) == words


def test_codes_of_a_list_stand_together_under_its_heading() -> None:
    listed = "1. 8C8K4E\n2. UDMOP1\n3. XAZ3C0"
    said = f"Here are your current reservations:\n{listed}\n\nWhich one do you want to change today?"
    assert told(said)[0] == "Current reservations: 8C8K4E; UDMOP1; XAZ3C0"


def test_a_short_answer_stands_behind_what_was_asked() -> None:
    made = told("Hello there, good morning to you.", "Could you please tell me your user ID?", "mei_lee_123")
    assert made[-1] == "Tell me your user ID? mei_lee_123"


def test_values_of_one_label_stand_together_wherever_they_were_said() -> None:
    made = told(
        "Reservation ID: M05KNL", "Thank you. The weather was fine on Monday.", "Reservation ID: H8Q05L"
    )
    assert made[0] == "Reservation ID: M05KNL; H8Q05L"


def test_rows_of_a_table_are_lines_of_text() -> None:
    made = told("| When | What |\n|---|---|\n| 1 July | Name list to Van Dalen (VD-7740) |")
    assert "1 July: Name list to Van Dalen (VD-7740)" in made
    assert not any("|" in point or "---" in point for point in made)


@pytest.mark.parametrize(
    ("said", "point"),
    [
        ("Ihre Buchungen:\n- KX4471\n- KX4472", "Ihre Buchungen: KX4471; KX4472"),
        ("Tus reservas son estas:\n- KX4471\n- KX4472", "Tus reservas son estas: KX4471; KX4472"),
        ("您的订单如下：\n- KX4471\n- KX4472", "您的订单如下： KX4471; KX4472"),
    ],
)
def test_in_other_languages(said: str, point: str) -> None:
    assert told(said) == [point]
    assert again([point]) == [point]


def test_a_code_that_nothing_led_to_is_left_out_for_what_can_be_read() -> None:
    assert told("8C8K4E", "My locker is number 17.") == ["My locker is number 17."]


def test_times_alone_come_last() -> None:
    said = (
        "Departure: 07:00\nDeparture: 08:00\nDeparture: 09:00\nReservation ID: M05KNL\nReservation ID: H8Q05L"
    )
    assert told(said, room=16) == ["Reservation ID: M05KNL; H8Q05L"]


def test_a_long_question_leads_by_its_last_clause() -> None:
    asked = f"{'I will gladly look into all of that for you ' * 3}, so what is the code of your booking?"
    (piece,) = [one for one in pieces_said([asked, "KX44"]) if one.text == "KX44"]
    assert count_tokens(piece.lead) <= LEAD_TOKENS
    assert piece.lead == "so what is the code of your booking?"


READ_BACK = [
    ["Reservation ID: M05KNL; H8Q05L"],
    ["Current reservations: 8C8K4E; UDMOP1", "The weather was fine on Monday."],
    ["Tell me your user ID? mei_lee_123"],
    ["Medicines stay in the original box; the second pen is handed to Ayla"],
    ["Out: Wednesday 8 July, 20:00, car park; in Ljubljana on Thursday the 9th at about 11:00"],
]


@pytest.mark.parametrize("made", READ_BACK)
def test_a_summary_of_a_summary_is_the_same(made: list[str]) -> None:
    assert again(made) == made
    in_running_text = points(pieces_kept(prose(made)), PLENTY)
    assert [point.rstrip(".") for point in in_running_text] == [one.rstrip(".") for one in made]


def test_a_lead_is_told_once_more_where_its_point_is_full() -> None:
    made = told(
        "Here are your current reservations:\n" + "\n".join(f"- KX{number:04}Z" for number in range(40))
    )
    assert len(made) > 2
    assert all(point.startswith("Current reservations: KX") for point in made)
    assert all(count_tokens(point) <= LONGEST_SENTENCE for point in made)
    assert sum(point.count("KX") for point in made) == 40


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=5), TEXTS, st.integers(0, 120))
def test_any_text_keeps_to_its_room(texts: list[str], existing: str, room: int) -> None:
    pieces = [*pieces_kept(existing), *pieces_said(texts)]
    made = points(pieces, room, texts)
    assert not made or count_tokens("\n".join(f"- {point}" for point in made)) <= room
    assert all(piece.text or piece.lead for piece in pieces)
    assert made == points(pieces, room, texts)


def test_a_fragment_has_hardly_a_word() -> None:
    assert is_fragment("Flight HAT069")
    assert not is_fragment("Flight from Oslo to Bergen")
    assert Fragment("a") == Fragment("a", "")


POINTS_OF_RANDOM_CODES = """
import random
from chatmemory.llm.offline.points import pieces_said, points
for seed in range(4):
    chance, codes = random.Random(seed), [f"AB{number}" for number in range(100, 160)]
    said = [f"They filed {', '.join(chance.choices(codes, k=5))} again with us." for _ in range(80)]
    print(points(pieces_said(said), 400))
"""


@pytest.mark.exhaustive
def test_points_are_the_same_in_each_process() -> None:
    """Sets are in another order in each process, so weights were added in another order, and equal pieces differed."""
    made = {
        subprocess.run(
            [sys.executable, "-c", POINTS_OF_RANDOM_CODES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1
    assert "AB1" in made.pop()


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("377, 24 June, 7,355,", True),
        ("Friday 10–12", True),
        ("Lotte, Marieke,", True),
        ("Rehearsal Friday 10–12", False),
        ("Money: 377", False),
        ("The concert was on 24 June, as we said,", False),
    ],
)
def test_bare_numbers_and_cut_lists_are_left_out(text: str, nothing: bool) -> None:
    made = told("The festival is called Mlade Strune.", text, "We leave from Utrecht at night.")
    assert any(text in point for point in made) is not nothing
    assert len(made) == (2 if nothing else 3)
