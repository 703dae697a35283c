"""The memory card: what seed 002 requires, over one turn and over many, and for any text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from chatmemory.llm.offline.card import CARD_TOKENS, DraftCard, card_texts, read_card
from chatmemory.text.tokens import count_tokens
from tests.unit.llm.makers import PAIRS, TEXTS, ask, turns_input

MOST = {"decisions": 5, "open_q": 4, "constraints": 3, "techniques": 6}


def card(existing: str, *pairs: tuple[str, str]) -> dict[str, Any]:
    found = json.loads(ask("memory_card", turns_input(existing, *pairs)))
    assert isinstance(found, dict)
    return found


def test_a_lesson() -> None:
    found = card(
        "",
        ("I want to master vibrato. I must not play after ten.", "Practise with Carl Flesch in mind."),
        ("Let's go with ten minutes daily. Is speed better than accuracy?", ""),
    )
    assert found["goal"] == "I want to master vibrato."
    assert found["decisions"] == ["Let's go with ten minutes daily."]
    assert found["open_q"] == ["Is speed better than accuracy?"]
    assert found["constraints"] == ["I must not play after ten."]
    assert found["techniques"] == ["Carl Flesch"]


def test_the_card_before_goes_on() -> None:
    before = {
        "goal": "Learn vibrato",
        "decisions": ["user_id: mia_38"],
        "open_q": ["How fast should vibrato be?", "Which violin strings fit?"],
        "constraints": ["Only at home"],
        "techniques": ["Legato"],
        "lesson_context": "beginner",
    }
    assert card(json.dumps(before)) == before
    found = card(json.dumps(before), ("My reservation is 3RK2T9.", "Vibrato should be slow and even."))
    assert found["goal"] == "Learn vibrato"
    assert found["decisions"] == ["user_id: mia_38", "reservation: 3RK2T9"]
    assert found["open_q"] == ["Which violin strings fit?"]  # the other one was answered


def test_a_hard_fact_survives_many_turns_of_chatter() -> None:
    text = ask("memory_card", turns_input("", ("My reservation code is 3RK2T9.", "Noted.")))
    for number in range(30):
        pair = (f"Please tell me more about topic {number}.", f"It has {number} sides, all told.")
        text = ask("memory_card", turns_input(text, pair))
    assert "3RK2T9" in text


@given(TEXTS, PAIRS)
def test_any_text_gives_a_card_within_its_limits(existing: str, pairs: list[tuple[str, str]]) -> None:
    text = ask("memory_card", turns_input(existing, *pairs))
    assert count_tokens(text) <= CARD_TOKENS
    found = json.loads(text)
    assert set(found) == {"goal", "decisions", "open_q", "constraints", "techniques", "lesson_context"}
    assert all(len(found[field]) <= most for field, most in MOST.items())
    assert count_tokens(found["goal"]) <= 40
    assert count_tokens(found["lesson_context"]) <= 30
    assert card_texts(read_card(text)) == [text for text in card_texts(read_card(text)) if text]


def test_cards_are_read_in_long_keys_and_in_short_ones() -> None:
    wire = {"g": "A", "c": ["B"], "d": ["C"], "oq": ["D"], "t": ["E"], "lc": "F"}
    expected = DraftCard("A", ("C",), ("D",), ("B",), ("E",), "F")
    assert read_card(json.dumps(wire)) == expected
    assert card_texts(expected) == ["A", "C", "D", "B", "E", "F"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"g": 5, "d": "x", "t": [1, null]}', "[" * 100_000])
def test_what_is_no_card_is_an_empty_one(text: str) -> None:
    assert read_card(text) == DraftCard()
