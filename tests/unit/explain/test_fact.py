"""Whether a text contains a fact, which versions do, and how a prompt contains it."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.explain.fact import HeldSpan, TracedFact, held_spans, ways_in
from memory.recall.query import read_question


def fact(text: str) -> TracedFact:
    return TracedFact.of(read_question(text, 1))


@pytest.mark.parametrize(
    ("asked", "text", "is_in"),
    [
        ("MFRB94", "Your reservation is mfrb94.", True),
        ("MFRB94", "Your reservation is MFRB9.", False),
        ("nut allergies", "She has an allergy: nuts.", True),
        ("window seat", "Two window seats were kept.", True),
        ("window seat", "The window was open.", False),
        ("the", "The the the.", False),
        ("", "Anything.", False),
    ],
)
def test_a_text_has_a_fact_if_a_passage_has_all_its_words(asked: str, text: str, is_in: bool) -> None:
    assert fact(asked).is_in(text) is is_in


def test_words_that_are_far_from_each_other_are_no_fact() -> None:
    filler = "Nothing else was said about any of this for a long while. " * 20
    assert not fact("window seat").is_in(f"The window is shut. {filler}The seat is taken.")


def looking(held: Collection[int]) -> tuple[list[int], object]:
    asked: list[int] = []

    def holds(versions: Collection[int]) -> dict[int, bool]:
        asked.extend(versions)
        return {version: version in held for version in versions}

    return asked, holds


def test_each_version_that_is_read_is_told_as_it_is() -> None:
    _, holds = looking({1, 2, 5})
    found = held_spans(range(1, 7), 6, holds)  # type: ignore[arg-type]
    assert found == [HeldSpan(1, 2, 3), HeldSpan(5, 5, 6)]


def test_of_many_versions_few_are_read() -> None:
    asked, holds = looking(range(700, 31_416))
    assert held_spans([700, 5_000], 50_000, holds) == [HeldSpan(700, 31_415, 31_416)]  # type: ignore[arg-type]
    assert len(asked) < 30


def test_a_fact_that_is_said_again_is_held_again() -> None:
    held = {*range(10, 101), *range(400, 501)}
    _, holds = looking(held)
    assert held_spans([10, 400], 500, holds) == [HeldSpan(10, 100, 101), HeldSpan(400, 500, None)]  # type: ignore[arg-type]


def test_where_there_are_no_versions_none_holds_it() -> None:
    _, holds = looking(())
    assert held_spans([], 0, holds) == []  # type: ignore[arg-type]


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 300))
def test_where_it_comes_and_goes_once_halving_finds_the_same_as_reading_all(
    newest: int, first: int, through: int
) -> None:
    first = min(first, newest)
    through = min(through, newest)
    _, holds = looking(range(first, through + 1))
    halved = held_spans([first], newest, holds)  # type: ignore[arg-type]
    read = held_spans(range(1, newest + 1), newest, holds)  # type: ignore[arg-type]
    assert halved == read


def test_how_a_prompt_would_have_it_is_read_from_its_sections() -> None:
    sections = [
        ("instructions", "Say MFRB94."),
        ("narrative", "The code MFRB94 was given."),
        ("window", "No code."),
        ("recall", "[9] User: MFRB94"),
        ("question", "MFRB94"),
    ]
    assert ways_in(sections, fact("MFRB94")) == ["summary", "recalled"]
