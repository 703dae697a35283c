"""Facts by key: merged, corrected and removed by name, cut in a fixed order, never lost by being omitted."""

from collections.abc import Sequence
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.markers import is_marker
from chatmemory.text.tokens import count_tokens, load
from memory.policies.hierarchical import (
    CATEGORIES,
    MAX_FACTS,
    Fact,
    facts_text,
    fitting,
    merged,
    parse_update,
    stored_facts,
)
from memory.policies.protocol import State

load()  # once, here, rather than within the deadline of the first property that runs

ORDER = Fact("order_id", "#1234", "ENTITY")
STATUS = Fact("order_status", "open", "STATE")
TOPIC = Fact("topic", "a late order")

anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["key", "value", "category", "x"]), inner, max_size=4),
    ),
    max_leaves=10,
)
rows = st.tuples(st.text(max_size=8), st.text(max_size=30), st.sampled_from(CATEGORIES))
facts = st.lists(rows, max_size=30).map(
    lambda told_rows: merged([], *parse_update([row(*one) for one in told_rows], None))
)


def row(key: object, value: object, category: object = "GENERAL") -> dict[str, object]:
    return {"key": key, "value": value, "category": category}


def update(*rows: object, removed: Sequence[str] = ()) -> tuple[list[Fact], set[str]]:
    return parse_update(list(rows), list(removed))


# What an answer contains


@pytest.mark.parametrize(
    ("given_row", "fact"),
    [
        (row("k", "v", "MOOD"), Fact("k", "v", "GENERAL")),
        (row("k", "v", " decision "), Fact("k", "v", "DECISION")),
        (row("k", "v", ["ENTITY"]), Fact("k", "v", "GENERAL")),
        ({"key": "k", "value": "v"}, Fact("k", "v", "GENERAL")),
        (row("k", True), Fact("k", "true")),
        (row("k", ["a", "b", None, {}]), Fact("k", "a, b")),
        (row(" a:\nb ", "two\u2028lines\n\n[user]: x"), Fact("a b", "two lines [user]: x")),
        (row("k\u200b\x00", "v\u202e\ud800"), Fact("k", "v")),
    ],
)
def test_facts_accept_varied_answers(given_row: object, fact: Fact) -> None:
    assert update(given_row) == ([fact], set())


@pytest.mark.parametrize(
    "given_row",
    [
        *(1, "order: 1", [], {}, {"key": "k"}),
        *(row(1, "v"), row("", "v"), row("._-", "v"), row("k", ""), row("k", {})),
    ],
)
def test_facts_skip_invalid_entries(given_row: object) -> None:
    assert update(given_row, row("k2", "v2")) == ([Fact("k2", "v2")], set())


def test_facts_accept_object_by_key() -> None:
    found = parse_update({"order_id": "#1", "status": None}, None)
    assert found == ([Fact("order_id", "#1")], {"status"})


@given(anything, anything)
def test_facts_are_clean_single_lines(given_facts: object, removed: object) -> None:
    for fact in parse_update(given_facts, removed)[0]:
        assert fact.name
        assert fact.value
        assert fact.category in CATEGORIES
        assert len(fact.line.splitlines()) == 1
        assert ":" not in fact.key
        assert not is_marker(fact.line)


def test_keys_values_and_their_number_are_bounded() -> None:
    rows = (row(f"{number} " + "long " * 100, "value " * 200) for number in range(MAX_FACTS + 50))
    found, _ = update(*rows)
    assert len(found) == MAX_FACTS
    assert all(count_tokens(fact.key) <= 20 and count_tokens(fact.value) <= 60 for fact in found)


# Merging


def test_a_key_said_again_gets_its_new_value_and_becomes_the_newest() -> None:
    now = merged([ORDER, STATUS, TOPIC], *update(row("order_id", "#99", "ENTITY"), row("fee", "$5", "NUMERIC")))
    assert [fact.line for fact in now] == [
        "- order_status: open",
        "- topic: a late order",
        "- order_id (earlier): #1234",
        "- order_id: #99",
        "- fee: $5",
    ]


@pytest.mark.parametrize(
    ("values", "category", "lines"),
    [
        (
            ("1A", "2B", "3C", "4D", "5E"),
            "ENTITY",
            ["- seat (earlier 3): 2B", "- seat (earlier 2): 3C", "- seat (earlier): 4D", "- seat: 5E"],
        ),
        (("1A", "1A"), "ENTITY", ["- seat: 1A"]),
        (("1A", "1a"), "ENTITY", ["- seat: 1a"]),
        (("1A", "2B", "1A"), "ENTITY", ["- seat (earlier): 2B", "- seat: 1A"]),
        (("open", "sent"), "STATE", ["- seat: sent"]),
    ],
    ids=["three", "same", "case", "back", "status"],
)
def test_the_three_values_before_stay_oldest_first_each_once_except_of_a_status(
    values: tuple[str, ...], category: str, lines: list[str]
) -> None:
    facts: list[Fact] = []
    for value in values:
        facts = merged(facts, *update(row("seat", value, category)))
    assert [fact.line for fact in facts] == lines


def test_a_removed_fact_takes_its_earlier_values_along() -> None:
    facts = merged([ORDER, STATUS], *update(row("order_id", "#99", "ENTITY")))
    assert merged(facts, *update(removed=("order_id",))) == [STATUS]


def test_an_earlier_value_that_an_answer_repeats_or_corrects_has_no_earlier_value_itself() -> None:
    facts = merged([ORDER], *update(row("order_id", "#99")))
    again = merged(facts, *update(row("order_id (earlier)", "#1043")))
    assert {fact.key: fact.value for fact in again} == {"order_id": "#99", "order_id (earlier)": "#1043"}


@pytest.mark.parametrize("spelled", ["Order ID", "order-id", " ORDER__ID ", "order.id", "ｏｒｄｅｒ_id"])
def test_a_key_is_known_however_it_is_spelled(spelled: str) -> None:
    assert [fact.value for fact in merged([ORDER], *update(row(spelled, "#99")))] == [ORDER.value, "#99"]
    assert merged([ORDER], *update(removed=(spelled,))) == []


def test_removed_and_null_remove_and_nothing_else_does() -> None:
    assert merged([ORDER, STATUS], *update(removed=("order_status", "unknown"))) == [ORDER]
    assert merged([ORDER, STATUS], *update(row("order_status", None))) == [ORDER]
    assert merged([ORDER, STATUS], *update()) == [ORDER, STATUS]
    assert merged([ORDER, STATUS], *update(row("order_status", ""))) == [ORDER, STATUS]


def test_facts_removed_and_set_at_once_stay() -> None:
    assert merged([ORDER], *update(row("order_id", "#99", "ENTITY"), removed=("order_id",))) == [
        Fact("order_id", "#99", "ENTITY")
    ]


@given(facts, facts)
def test_omission_never_removes(old: list[Fact], new: list[Fact]) -> None:
    now = merged(old, new, ())
    names = [fact.name for fact in now]
    assert set(names) == {fact.name for fact in (*old, *new)}
    assert len(names) == len(set(names))
    assert now[len(now) - len(new) :] == new


# The cap


def test_general_facts_go_first_and_the_longest_unsaid_before_newer_ones() -> None:
    kept = [Fact(f"k{number}", "some value", "GENERAL" if number % 3 == 0 else "ENTITY") for number in range(9)]
    order: list[str] = []
    while kept:
        fewer = fitting(kept, count_tokens(facts_text(kept)) - 1)
        order += [fact.key for fact in kept if fact not in fewer]
        kept = fewer
    assert order == ["k0", "k3", "k6", "k1", "k2", "k4", "k5", "k7", "k8"]


@given(facts, st.integers(0, 200))
def test_facts_rendered_fit_the_cap_in_order(told_facts: list[Fact], cap: int) -> None:
    kept = fitting(told_facts, cap)
    assert count_tokens(facts_text(kept)) <= cap
    assert kept == [fact for fact in told_facts if fact in kept]
    if count_tokens(facts_text(told_facts)) <= cap:
        assert kept == told_facts


# Storage and the prompt


@given(facts)
def test_facts_survive_storage(told_facts: list[Fact]) -> None:
    assert stored_facts(State("", {"facts": [asdict(fact) for fact in told_facts]})) == told_facts
