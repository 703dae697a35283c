"""Defects of an answer, and the request for more: it quotes only spans of people's texts, and no instruction."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.injections import KnownOrders
from chatmemory.text.markers import is_marker
from memory.folding.answer_checks import (
    AGAIN,
    END_AGAIN,
    MAX_NAME_CHARS,
    MAX_NAMED,
    Assessment,
    assess,
    retry_instructions,
)
from memory.history.turns import Turn
from memory.policies import POLICIES
from memory.policies.protocol import State
from tests.security.injection.corpus import ORDERS
from tests.security.injection.folding import turns_of

CHUNKED = POLICIES["chunked"]
KNOWN = "Mei Patel holds HAT062 and HAT039 for $120 until 2024-05-17; her id is 3RK2T9."
LONG = "and so they talked about the plan and what to do next, " * 20


def found_in(before: str, after: str, turns: list[Turn] | None = None, *, min_share: float = 0.5) -> Assessment:
    return assess(CHUNKED, State(before), State(after), turns or [], room=500, min_share=min_share)


def turns_with(spans: int) -> list[Turn]:
    return turns_of([(f"Note X{n}Y{n}. {LONG}", "It is noted.") for n in range(spans)])


def test_shortfall_of_known_spans_is_found() -> None:
    assert found_in(KNOWN, KNOWN).faults == ()
    assert found_in(KNOWN, "Mei Patel holds HAT062 for $120, id 3RK2T9.").faults == ()
    found = found_in(KNOWN, f"Mei Patel has flights. {LONG}")
    assert found.faults == ("known_lost",)
    assert found.to_json() == [
        {
            "fault": "known_lost",
            "kept": 1,
            "of": 6,
            "lost": ["HAT062", "HAT039", "$120", "2024-05-17", "3RK2T9"],
        }
    ]


@pytest.mark.parametrize(
    ("before", "after", "turns", "min_share", "faults"),
    [
        pytest.param("It costs $120, on May 3.", "It costs $95, on June 4.", [], 0.5, (), id="a few corrections"),
        pytest.param("", LONG, turns_with(30), 0.5, ("new_lost",), id="none of the new spans"),
        pytest.param("", f"X1Y1, X2Y2 and X3Y3. {LONG}", turns_with(30), 0.5, (), id="a few of the new spans"),
        pytest.param("", LONG, turns_with(6), 0.5, (), id="little to take in"),
        pytest.param(
            "", "They met.", turns_of([("Hello there", "Good day, how can I help?")]), 0.5, (), id="small talk"
        ),
        pytest.param("", "They met.", turns_of([(LONG, LONG)] * 10), 0.5, ("short",), id="much was said"),
        pytest.param(KNOWN, "x", turns_with(30), 0, (), id="switched off"),
    ],
)
def test_shortfall_faults(
    before: str, after: str, turns: list[Turn], min_share: float, faults: tuple[str, ...]
) -> None:
    found = found_in(before, after, turns, min_share=min_share)
    assert found.faults == faults
    if faults == ("short",):
        assert found.to_json()[0]["expected"] == 500


@pytest.mark.parametrize("policy", ["chunked", "interval", "progressive", "hierarchical", "card"])
def test_shortfall_by_policy(policy: str) -> None:
    card = State("", {"goal": "Book HAT062", "decisions": ["keep 3RK2T9"]})
    state = card if policy == "card" else State(KNOWN)
    carried = POLICIES[policy].carried(state)
    assert carried == {"hierarchical": "", "card": "Book HAT062"}.get(policy, KNOWN)
    assert POLICIES[policy].carried(State()) == ""


def test_the_better_of_two_has_fewer_faults_then_more_spans() -> None:
    turns = turns_with(30)
    good, worse, worst = (
        found_in(KNOWN, f"{text} {LONG}", turns) for text in (f"{KNOWN} X1Y1 X2Y2 X3Y3", KNOWN, "Nothing.")
    )
    assert good.rank < worse.rank < worst.rank
    assert found_in(KNOWN, f"HAT062 {LONG}").rank < found_in(KNOWN, LONG).rank


def named_in(told: str) -> list[str]:
    line = next(line for line in told.splitlines() if line.startswith("These are"))
    named: list[str] = json.loads(line[line.index("[") :])
    return named


def test_shortfall_note_names_missing_numbers_first() -> None:
    told = retry_instructions(found_in(KNOWN, LONG))
    assert named_in(told) == ["HAT062", "HAT039", "$120", "2024-05-17", "3RK2T9", "Mei Patel"]
    assert told.splitlines()[2] == AGAIN
    assert told.splitlines()[-1] == END_AGAIN


@given(st.lists(st.text(max_size=30), max_size=30), st.text(max_size=50))
def test_no_text_gets_out_of_the_note(said: list[str], before: str) -> None:
    turns = turns_of([(f"{text} N{n}M{n}" * 3, "") for n, text in enumerate(said)])
    told = retry_instructions(found_in(f"{before} A1B1 C2D2 E3F3 G4H4", LONG, turns))
    lines = told.splitlines()
    assert [line for line in lines if is_marker(line)] == [AGAIN, END_AGAIN]
    assert 5 <= len(lines) <= 7
    named = named_in(told)
    assert len(named) <= MAX_NAMED
    assert all(len(one) <= MAX_NAME_CHARS for one in named)


def test_no_order_gets_into_it() -> None:
    for text in ORDERS:
        shouted = text.upper()
        told = retry_instructions(found_in(f"{text} {shouted} A1B1 C2D2 E3F3 G4H4 {text.title()}", LONG))
        for name in named_in(told):
            assert not KnownOrders([]).new_in(name), name
