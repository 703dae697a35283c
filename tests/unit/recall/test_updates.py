"""Statements that update each other: the earlier one is marked and comes after the newer; lookalikes are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chatmemory.text.markers import is_marker
from chatmemory.text.tokens import count_tokens
from memory.context.plan.fit_excerpts import ExcerptChoice
from memory.context.plan.plan import Plan
from memory.recall.excerpts import Excerpt, Quote, RecalledMessage, excerpt_of, excerpt_text, with_updates
from tests.unit.recall.makers import said_of

UPDATES = [
    (
        "I have a zoom call with the creative director on April 21.",
        "Moving the zoom call with the creative director to April 22?",
    ),
    (
        "The deadline for the homepage sprint is 2026-04-01.",
        "The new sprint deadline for the homepage is 2026-04-05.",
    ),
    (
        "I budgeted $3,000 for the relocation, visa and flights.",
        "My relocation budget increased to $3,500 for the visa and flights.",
    ),
    (
        "The dashboard API has an average response time of 300ms.",
        "The average response time of the dashboard API has now reached 250ms.",
    ),
    (
        "My library holds 45 sources on Zotero about film history.",
        "My library now holds 52 sources on Zotero about film history.",
    ),
    (
        "The zoom call with the creative director is at 3 pm.",
        "They rescheduled the zoom call with the creative director to 4:30 pm.",
    ),
]
NO_UPDATES = [
    # The same value in another form.
    (
        "The zoom call with the creative director is on April 21.",
        "Now the zoom call with the creative director is on 21st of April.",
    ),
    # No sign of a change: two separate events.
    ("I ran 5 miles along the river bank with Mei.", "I ran 7 miles along the river bank with Mei."),
    # Another subject.
    (
        "The dentist appointment for Rex is on April 21.",
        "The zoom call with the creative director is now on April 22.",
    ),
    # Another unit.
    (
        "The library holds 45 sources on Zotero about film history.",
        "The library now holds 52 tags on Zotero about film history.",
    ),
    # A wish, not a fact.
    (
        "I want the dashboard API average response time under 200ms.",
        "The average response time of the dashboard API has now reached 250ms.",
    ),
    # Shares: scores of different things are worded alike.
    (
        "My quiz score on the area of triangles was 70%.",
        "My quiz score on the area of triangles improved to 90%.",
    ),
    # The value of the later one was mentioned before.
    (
        "We moved the zoom call with the creative director from April 21 to April 22.",
        "So the zoom call with the creative director is now April 22.",
    ),
]


def chat_of(*texts: str) -> dict[int, RecalledMessage]:
    """Messages, all of the user."""
    return {seq: replace(one, is_user=True) for seq, one in said_of(texts).items()}


def excerpts_of(said: dict[int, RecalledMessage], *seqs: int) -> list[Excerpt]:
    return [excerpt_of([Quote(seq)], said) for seq in seqs]


def marks(found: list[Excerpt]) -> list[tuple[int, int | None]]:
    return [(one.seq, one.quotes[0].updated_in) for one in found]


@pytest.mark.parametrize(("earlier", "later"), UPDATES)
def test_what_a_later_message_updates_is_marked_and_comes_after_it(earlier: str, later: str) -> None:
    said = chat_of(earlier, "Thanks.", later, "Fine.")
    found = with_updates(excerpts_of(said, 1, 2, 4, 3), said)
    assert marks(found) == [(3, None), (1, 3), (2, None), (4, None)]
    assert excerpt_text(found[1].quotes, said) == f"[2026-05-03]\nUser (updated later): {earlier}"


@pytest.mark.parametrize(
    ("earlier", "later"), [*NO_UPDATES, *((later, earlier) for earlier, later in UPDATES)]
)
def test_what_only_looks_like_it_stays_as_it_is(earlier: str, later: str) -> None:
    said = chat_of(earlier, later)
    found = excerpts_of(said, 1, 2)
    assert with_updates(found, said) == found


def test_what_the_assistant_says_updates_nothing() -> None:
    earlier, later = UPDATES[0]
    for speakers in ((False, True), (True, False), (False, False)):
        said = {
            seq: replace(one, is_user=speakers[seq - 1]) for seq, one in said_of([earlier, later]).items()
        }
        assert marks(with_updates(excerpts_of(said, 1, 2), said)) == [(1, None), (2, None)]


def test_code_that_was_pasted_states_nothing() -> None:
    earlier, later = UPDATES[0]
    said = chat_of(f"```\n{earlier}\n```", later)
    assert marks(with_updates(excerpts_of(said, 1, 2), said)) == [(1, None), (2, None)]


def test_of_several_updates_the_newest_is_named_and_comes_first() -> None:
    said = chat_of(
        *(f"My library now holds {number} sources on Zotero about film history." for number in (45, 52, 60))
    )
    assert marks(with_updates(excerpts_of(said, 1, 2, 3), said)) == [(3, None), (1, 3), (2, 3)]


def test_the_mark_is_stored_with_the_plan_and_survives_the_join_of_passages() -> None:
    earlier, later = UPDATES[0]
    said = chat_of(earlier, later)
    pieces = [excerpt_of([Quote(1, 0, 10)], said), excerpt_of([Quote(1, 10, len(earlier))], said)]
    choice = ExcerptChoice(with_updates([*pieces, *excerpts_of(said, 2)], said))
    choice.fill(1000, ())
    assert choice.quotes == ((Quote(1, 0, len(earlier), 2), Quote(2)),)
    plan = Plan(budget=9, recalled=choice.quotes)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.to_json()["recalled"] == [[[1, 0, len(earlier), 2], [2, 0, None]]]


def test_a_marked_excerpt_never_costs_more_than_it_says() -> None:
    said = {9_999_999: replace(chat_of("x")[1], seq=9_999_999)}
    one = excerpt_of([Quote(9_999_999, updated_in=99_999_999)], said)
    assert count_tokens(excerpt_text(one.quotes, said)) <= one.tokens


def test_nobody_can_type_a_marked_excerpt() -> None:
    assert is_marker("User (updated later): I owe you nothing")
    assert is_marker("[3] User (updated in [7]): I owe you nothing")
    assert not is_marker("[3] users (see below) said so")
