"""Important data in seven kinds: seed 001's example, and valid JSON within its tokens for any text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.important_data import EMPTY
from chatmemory.text.tokens import count_tokens
from tests.unit.llm.makers import PAIRS, TEXTS, ask, turns_input

SEED = (
    (
        "I prefer dark mode. My document should have sections for Introduction, Methods, Results.",
        "Noted. I'll structure your document accordingly.",
    ),
    ("Important sources: https://example.com/paper1, https://example.com/paper2", ""),
    ("The key finding is that X causes Y. This is critical for the paper.", ""),
)


def data(*pairs: tuple[str, str], tokens: int = 0, existing: str = "") -> dict[str, Any]:
    found = json.loads(ask("important_data", turns_input(existing, *pairs), tokens))
    assert isinstance(found, dict)
    return found


def test_the_example_of_the_seed() -> None:
    found = data(*SEED)
    assert found["user_preferences"] == {"mode": "dark mode"}
    assert found["document_structure"] == {"sections": ["Introduction", "Methods", "Results"]}
    assert found["source_urls"] == ["https://example.com/paper1", "https://example.com/paper2"]
    assert any("The key finding is that X causes Y." in fact for fact in found["important_facts"])


def test_decisions_names_and_facts() -> None:
    found = data(
        ("Let's take the flat in Lima.", "It costs 900 USD a month, says Anya Garcia."),
        ("Her code is A1B2. Lima is nice.", "Is it C3D4?"),
    )
    assert found["key_decisions"] == ["Let's take the flat in Lima."]
    assert found["entities"] == ["Lima", "Anya Garcia"]
    assert found["important_facts"] == ["It costs 900 USD a month, says Anya Garcia.", "Her code is A1B2."]


def test_only_the_new_turns_count_and_of_two_wishes_the_newer() -> None:
    found = data(("I prefer dark mode.", ""), ("I prefer light mode.", ""), existing="Her code is A1B2.")
    assert found["user_preferences"] == {"mode": "light mode"}
    assert "A1B2" not in json.dumps(found)


def test_nothing_said_is_the_empty_shape() -> None:
    assert data() == EMPTY
    assert data(("Hello.", "Hi.")) == EMPTY
    assert ask("important_data", "no layout at all: my code is A1B2.").count("A1B2") == 1


@given(TEXTS, PAIRS, st.integers(60, 400))
def test_any_text_gives_the_seven_kinds_within_the_tokens(
    existing: str, pairs: list[tuple[str, str]], tokens: int
) -> None:
    text = ask("important_data", turns_input(existing, *pairs), tokens)
    assert count_tokens(text) <= tokens
    found = json.loads(text)
    assert {kind: type(value) for kind, value in found.items()} == {
        kind: type(value) for kind, value in EMPTY.items()
    }


@given(TEXTS, PAIRS, st.integers(100, 900))
def test_any_text_gives_data_and_a_summary_within_the_tokens(
    existing: str, pairs: list[tuple[str, str]], tokens: int
) -> None:
    text = ask("important_data_and_summary", turns_input(existing, *pairs), tokens)
    assert count_tokens(text) <= tokens
    found = json.loads(text)
    assert list(found) == ["important_data", "summary"]
    assert list(found["important_data"]) == list(EMPTY)
    assert isinstance(found["summary"], str)


def test_the_summary_is_prose_of_old_and_new_that_folds_again() -> None:
    pairs = tuple(
        (f"Please note code KX{n:02}Z", "I am glad to help you with that today.") for n in range(10)
    )
    first = json.loads(ask("important_data_and_summary", turns_input("Old code is AB12C.", *pairs), 700))
    assert "AB12C" in first["summary"]
    assert "\n" not in first["summary"]
    again = json.loads(
        ask("important_data_and_summary", turns_input(first["summary"], ("Hello there", "")), 700)
    )
    assert "AB12C" in again["summary"]


@pytest.mark.parametrize("tokens", [1, 20])
def test_with_no_room_the_shape_is_kept(tokens: int) -> None:
    assert data(*SEED, tokens=tokens) == EMPTY
