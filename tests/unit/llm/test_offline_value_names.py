"""Values are named after the words around them, and keep their wording."""

from __future__ import annotations

import pytest
from hypothesis import given

from chatmemory.llm.offline.value_names import content_words, named_values, state_of
from tests.unit.llm.makers import TEXTS


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("My order number is #1234.", [("order_number", "#1234", "ENTITY")]),
        ("I'd like to cancel order #1234", [("order", "#1234", "ENTITY")]),  # not the verb
        ("Your order totals $50.00 today.", [("order_totals", "$50.00", "NUMERIC")]),
        ("My user ID is mia_li_38.", [("user_id", "mia_li_38", "ENTITY")]),
        ("It is mei@example.com", [("email", "mei@example.com", "ENTITY")]),  # its kind
        ("3 nights for 2 adults", [("nights", "3 nights", "NUMERIC"), ("adults", "2", "NUMERIC")]),
        ("Refunds are possible within 30 days", [("possible", "within 30 days", "CONDITION")]),
        ("We pay at most 300 euros.", [("pay", "at most 300 euros", "CONDITION")]),
        ("customer_name: John", [("customer_name", "John", "ENTITY")]),  # a label is no value
        (
            "The flights are HAT028 and HAT277.",
            [("flights", "HAT028", "ENTITY"), ("flights", "HAT277", "ENTITY")],
        ),
        ("We fly from Lima to New York", [("fly_from", "Lima", "ENTITY"), ("fly_to", "New York", "ENTITY")]),
        ("Nothing of the kind", []),
        # A label names everything that follows it.
        (
            "Concert now: Friday 10 July, 19:00, Knights' Hall (it was Saturday the 11th at 16:30)",
            [("concert", "Friday 10 July, 19:00, Knights' Hall", "ENTITY")],
        ),
        (
            "Emergency telephone: +31 30 555 0142 (Joris).",
            [("emergency_telephone", "+31 30 555 0142", "ENTITY")],
        ),
        ("Call Joris at +31 30 555 0142.", [("call_joris", "+31 30 555 0142", "ENTITY")]),
        # A value that only its kind or its position could name is left out.
        ("We leave then, 18:00 sharp.", []),
        ("I am thinking of Holst, with six in Warlock.", []),
        # So is one next to a word that names nothing, after "to" where it is no destination, or in an instruction.
        ("It is time to 13:00.", []),
        ("Noted: Kordaat.", []),
        ("The programme text to Petra Zupan.", []),
    ],
)
def test_values_are_named(sentence: str, found: list[tuple[str, str, str]]) -> None:
    assert [(each.key, each.value, each.category) for each in named_values(sentence)] == found


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Order #1234 has been cancelled.", ("order_1234_status", "cancelled")),
        ("The refund was approved.", ("refund_status", "approved")),
        ("order status: shipped", ("order_status", "shipped")),
        ("It is done.", None),
    ],
)
def test_states(sentence: str, found: tuple[str, str] | None) -> None:
    state = state_of(sentence)
    assert (state and (state.key, state.value)) == found


def test_content_words_leave_out_those_without_content() -> None:
    assert content_words("with the blue one, not the red and green one") == ["blue", "red", "green"]


@given(TEXTS)
def test_any_text_gives_only_what_it_holds(text: str) -> None:
    for named in named_values(text):
        assert named.key
        assert named.value in text
    if state := state_of(text):
        assert state.value in text
