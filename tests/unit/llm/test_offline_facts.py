"""Facts and narrative: the example of seed 003, updates, removals, and any text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.extract import sentences
from chatmemory.llm.offline.facts import NARRATIVE_TOKENS
from chatmemory.text.tokens import count_tokens
from tests.unit.llm.makers import PAIRS, TEXTS, ask, messages_input

CATEGORIES = {"ENTITY", "DECISION", "CONDITION", "STATE", "NUMERIC", "GENERAL"}


def answer(kept: dict[str, str], *pairs: tuple[str, str], tokens: int = 0) -> dict[str, Any]:
    found = json.loads(ask("facts_and_narrative", messages_input(kept, *pairs), tokens))
    assert isinstance(found, dict)
    return found


def facts(kept: dict[str, str], *pairs: tuple[str, str]) -> dict[str, str]:
    return {fact["key"]: fact["value"] for fact in answer(kept, *pairs)["facts"]}


def test_the_example_of_the_seed() -> None:
    found = answer(
        {"order_id": "#1234"},
        (
            "I'd like to cancel order #1234. My name is John Smith.",
            "I can help with that. Your order totals $50.00, and refunds are possible within 30 days.",
        ),
        ("Let's go with the refund.", "Order #1234 has been cancelled."),
    )
    told = {(fact["key"], fact["value"], fact["category"]) for fact in found["facts"]}
    assert told == {
        ("name", "John Smith", "ENTITY"),
        ("order_totals", "$50.00", "NUMERIC"),
        ("possible", "within 30 days", "CONDITION"),
        ("refund", "Let's go with the refund.", "DECISION"),
        ("order_1234_status", "cancelled", "STATE"),
    }  # not the order, which is known
    assert found["removed"] == []
    assert found["narrative"].startswith("I'd like to cancel order #1234.")
    assert found["narrative"].endswith("Order #1234 has been cancelled.")


def test_what_something_is_corrects_the_fact_of_that_name() -> None:
    assert facts({"Order ID": "#1234"}, ("Sorry, my order ID is #5678.", "")) == {"Order ID": "#5678"}
    assert facts({}, ("My code is A1B2.", "Fine."), ("No, my code is C3D4.", "")) == {"code": "C3D4"}


def test_what_is_merely_mentioned_or_listed_gets_a_name_of_its_own() -> None:
    assert facts({"flight": "HAT028"}, ("I also took flight HAT277.", "")) == {"flight_2": "HAT277"}
    assert facts({}, ("Passenger: Mei Lee\nPassenger: Anya Roe", "")) == {
        "passenger": "Mei Lee",
        "passenger_2": "Anya Roe",
    }


def test_a_later_value_takes_the_place_of_an_earlier_one_that_others_have_too() -> None:
    found = facts(
        {},
        ("Rehearsal: Friday.", "Fine. Concert: Saturday 11 July, 16:30."),
        ("They moved it!", "Concert now: Friday 10 July, 19:00. The concert is on Friday."),
    )
    assert found["rehearsal"] == "Friday"
    assert found["concert"].startswith("Friday")
    assert not any(value.startswith("Saturday") for value in found.values())


def test_a_telephone_number_is_one_fact_and_a_bare_count_is_none() -> None:
    found = facts({}, ("Emergency telephone: +31 30 555 0142 (Joris).", "I see 15 others."))
    assert found == {"emergency_telephone": "+31 30 555 0142"}


def test_what_is_known_is_not_told_again() -> None:
    assert facts({"flight": "HAT028"}, ("Flight HAT028 is the one.", "Yes, HAT028.")) == {}


def test_what_the_user_takes_back_is_removed() -> None:
    kept = {"coupon": "SAVE10", "seat": "12A", "name": "Mei"}
    assert answer(kept, ("Please forget the coupon. I no longer want 12A.", ""))["removed"] == [
        "coupon",
        "seat",
    ]
    assert answer(kept, ("", "Please forget the coupon."))["removed"] == []


def test_the_most_telling_facts_come_first() -> None:
    chatter = [(f"We had {number} cups there.", "I see.") for number in range(2, 60)]
    found = answer({}, *chatter[:30], ("My reservation code is 3RK2T9.", ""), *chatter[30:], tokens=200)
    assert found["facts"][0]["value"] == "3RK2T9"


@given(st.dictionaries(st.text("abc_"), TEXTS, max_size=3), PAIRS, st.integers(40, 500))
def test_any_text_gives_the_shape_within_the_tokens(
    kept: dict[str, str], pairs: list[tuple[str, str]], tokens: int
) -> None:
    text = ask("facts_and_narrative", messages_input(kept, *pairs), tokens)
    assert count_tokens(text) <= tokens
    found = json.loads(text)
    assert list(found) == ["facts", "removed", "narrative"]
    for fact in found["facts"]:
        assert list(fact) == ["key", "value", "category"]
        assert fact["category"] in CATEGORIES
        assert fact["key"]
        assert fact["value"]
    keys = [fact["key"] for fact in found["facts"]]
    assert len(keys) == len(set(keys))
    assert not set(keys) & set(found["removed"])
    assert count_tokens(found["narrative"]) <= NARRATIVE_TOKENS


@given(
    st.lists(
        st.sampled_from(["I ask for a thing.", "We got A1B2 at last.", "Fine, thank you all."]), max_size=9
    )
)
def test_the_narrative_is_three_sentences_at_most(said: list[str]) -> None:
    found = answer({}, *((text, "") for text in said))
    assert len(sentences(found["narrative"])) <= 3
    assert bool(found["narrative"]) == bool(said)


def test_text_in_no_layout_is_taken_for_a_message() -> None:
    found = json.loads(ask("facts_and_narrative", "My code is A1B2."))
    assert found["facts"] == [{"key": "code", "value": "A1B2", "category": "ENTITY"}]
