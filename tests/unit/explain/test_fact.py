"""Whether a text contains a fact, which versions do, and how a prompt contained it."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.plan.plan import Plan, Shown, TurnSpan
from memory.explain.fact import (
    FactPlaces,
    HeldSpan,
    TracedFact,
    TracedPrompt,
    held_spans,
    is_held,
    prompt_runs,
    ways_in,
    ways_of,
)
from memory.pins.section import ShownPin
from memory.recall.excerpts import Quote
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
    assert is_held(2, found)
    assert not is_held(4, found)


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


PLACES = FactPlaces(
    said=frozenset({3, 9}),
    lines=frozenset({4}),
    pins=frozenset({"a pin"}),
    texts={9: "Nothing at first. The code is MFRB94."},
)


@pytest.mark.parametrize(
    ("plan", "question", "in_summary", "ways"),
    [
        (Plan(900), 1, False, []),
        (Plan(900, verbatim=(Shown(3, 4),)), 1, False, ["verbatim"]),
        (Plan(900, verbatim=(Shown(5, 6),)), 1, False, []),
        (Plan(900, verbatim=(Shown(3, 4, 20, None),)), 1, False, ["shortened"]),
        (Plan(900, lines=(TurnSpan(3, 4),)), 1, False, ["line"]),
        (Plan(900, lines=(TurnSpan(9, 10),)), 1, False, []),
        (Plan(900, state=(None,)), 1, True, ["summary"]),
        (Plan(900, state=(0,)), 1, True, []),
        (Plan(900, recalled=((Quote(9),),)), 1, False, ["recalled"]),
        (Plan(900, recalled=((Quote(9, 0, 17),),)), 1, False, []),
        (Plan(900, recalled=((Quote(9, 18, 37),),)), 1, False, ["recalled"]),
        (Plan(900, pins=(ShownPin("a pin"),)), 1, False, ["pinned"]),
        (Plan(900, state=(None,), verbatim=(Shown(3, 4),)), 3, True, ["verbatim", "summary", "question"]),
    ],
)
def test_how_a_prompt_had_it(plan: Plan, question: int, in_summary: bool, ways: list[str]) -> None:
    assert ways_of(plan, question, fact("MFRB94"), PLACES, in_summary=in_summary) == ways


def test_how_a_prompt_would_have_it_is_read_from_its_sections() -> None:
    sections = [
        ("instructions", "Say MFRB94."),
        ("narrative", "The code MFRB94 was given."),
        ("window", "No code."),
        ("recall", "[9] User: MFRB94"),
        ("question", "MFRB94"),
    ]
    assert ways_in(sections, fact("MFRB94")) == ["summary", "recalled"]


def test_prompts_that_have_it_alike_are_one_run() -> None:
    ways: list[tuple[str, ...]] = [(), (), ("summary",), ("verbatim",), ("verbatim",)]
    prompts = [TracedPrompt(UUID(int=9 - at), 90 - at, 1, how) for at, how in enumerate(ways)]
    runs = prompt_runs(prompts)
    assert [(run.first.seq, run.last.seq, run.prompts) for run in runs] == [
        (89, 90, 2),
        (88, 88, 1),
        (86, 87, 2),
    ]
