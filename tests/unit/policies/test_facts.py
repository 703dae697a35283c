"""Facts by key: merged, corrected and removed by name, cut in a fixed order, never lost by being omitted."""

from collections.abc import Sequence

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
)

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


CHANGED = merged([ORDER, STATUS], *update(row("order_id", "#99", "ENTITY")))
SET = row("order_id", "#99", "ENTITY")
SAID_AGAIN = [
    "- order_status: open",
    "- topic: a late order",
    "- order_id (earlier): #1234",
    "- order_id: #99",
    "- fee: $5",
]


@pytest.mark.parametrize(
    ("known", "change", "lines"),
    [
        pytest.param([ORDER, STATUS, TOPIC], update(SET, row("fee", "$5", "NUMERIC")), SAID_AGAIN, id="said again"),
        pytest.param(
            CHANGED[1:],
            update(row("order_id (earlier)", "#1043")),
            ["- order_id: #99", "- order_id (earlier): #1043"],
            id="an earlier value has none itself",
        ),
        pytest.param([ORDER, STATUS], update(removed=("order_status", "unknown")), [ORDER.line], id="removed"),
        pytest.param([ORDER, STATUS], update(row("order_status", None)), [ORDER.line], id="null"),
        pytest.param([ORDER, STATUS], update(), [ORDER.line, STATUS.line], id="omitted"),
        pytest.param([ORDER, STATUS], update(row("order_status", "")), [ORDER.line, STATUS.line], id="empty"),
        pytest.param(CHANGED, update(removed=("order_id",)), [STATUS.line], id="removed with its earlier values"),
        pytest.param([ORDER], update(SET, removed=("order_id",)), ["- order_id: #99"], id="removed and set at once"),
    ],
)
def test_an_update_sets_corrects_and_removes_facts(
    known: list[Fact], change: tuple[list[Fact], set[str]], lines: list[str]
) -> None:
    assert [fact.line for fact in merged(known, *change)] == lines


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


@pytest.mark.parametrize("spelled", ["Order ID", "order-id", " ORDER__ID ", "order.id", "ｏｒｄｅｒ_id"])
def test_a_key_is_known_however_it_is_spelled(spelled: str) -> None:
    assert [fact.value for fact in merged([ORDER], *update(row(spelled, "#99")))] == [ORDER.value, "#99"]
    assert merged([ORDER], *update(removed=(spelled,))) == []


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
