"""JSON stays within its tokens, and drops what it was told to drop first."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.bounded_json import cost, dumps, fit, take
from chatmemory.text.tokens import count_tokens

TEXTS = st.lists(st.text(max_size=40), max_size=20)


def test_items_are_taken_while_they_fit() -> None:
    assert take(["one", "two " * 50, "three"], 8) == ["one", "three"]
    assert take("abcdef", 100, most=2) == ["a", "b"]
    assert take(["one"], -5) == []


def test_fields_give_way_in_order() -> None:
    value = {"first": ["a", "b", "c"], "second": {"k": "v"}, "text": "One two three. Four five."}
    assert json.loads(fit(value, 1000, ("first", "second"))) == value
    assert json.loads(fit(value, cost(value) - 1, ("first", "second")))["first"] == ["a", "b"]
    assert json.loads(fit(value, cost(value) - 1, ("first",), oldest_first=True))["first"] == ["b", "c"]
    bare = {"first": [], "second": {}, "text": ""}
    assert json.loads(fit(value, 1, ("second", "text", "first"))) == bare
    assert value["first"] == ["a", "b", "c"]


@given(TEXTS, st.text(max_size=200), st.integers(20, 100))
def test_what_fits_is_valid_and_within_its_tokens(items: list[str], text: str, limit: int) -> None:
    found = fit({"items": items, "text": text}, limit, ("items", "text"))
    assert count_tokens(found) <= limit
    assert items[: len(json.loads(found)["items"])] == json.loads(found)["items"]


@given(TEXTS, st.integers(0, 100))
def test_what_is_taken_costs_no_more_than_its_room(items: list[str], room: int) -> None:
    taken = take(items, room)
    assert sum(map(cost, taken)) <= room
    assert json.loads(dumps(taken)) == taken
