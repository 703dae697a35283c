"""The memory of each policy, as it is shown to people."""

from __future__ import annotations

import pytest

from memory.policies import POLICIES, State
from memory.policies.protocol import JSON
from memory.policies.readable import ReadableEntry, ReadablePart, as_text, readable

SUMMARY = "- The order AB-1234 was sent.\n- It comes on 4 May."
CARD: dict[str, JSON] = {
    "goal": "Return the lamp",
    "decisions": ["Refund to the card", "No voucher"],
    "open_q": ["Who pays?"],
}
FACTS: list[JSON] = [{"key": "order_number", "value": "AB-1234", "category": "ENTITY"}]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_before_the_first_update_there_is_nothing_to_read(policy: str) -> None:
    assert readable(POLICIES[policy], State()) == []
    assert as_text([]) == ""


@pytest.mark.parametrize("policy", ["chunked", "interval"])
def test_a_summary_is_read_as_it_is(policy: str) -> None:
    parts = readable(POLICIES[policy], State(SUMMARY))
    assert [(part.shape, part.entries) for part in parts] == [("text", (ReadableEntry("", SUMMARY),))]
    assert as_text(parts) == SUMMARY


def test_notes_are_texts_and_lists_below_headings() -> None:
    parts = readable(POLICIES["card"], State("", CARD))
    assert [(part.title, part.shape) for part in parts] == [
        ("Goal", "text"),
        ("Decisions", "list"),
        ("Open questions", "list"),
    ]
    assert as_text(parts) == (
        "Goal\nReturn the lamp\n\nDecisions\n- Refund to the card\n- No voucher\n\nOpen questions\n- Who pays?"
    )


def test_facts_are_a_table_with_names_as_words() -> None:
    state = State("She wrote twice.", {"facts": FACTS, "pieces": [[1, 4, "She wrote twice."]]})
    (table,) = (part for part in readable(POLICIES["hierarchical"], state) if part.shape == "table")
    assert table == ReadablePart("Who and what", "table", (ReadableEntry("order number", "AB-1234"),))
    assert "order number: AB-1234" in as_text([table])
