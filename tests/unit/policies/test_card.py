"""The memory card of seed 002: what is accepted of one, how it updates another, and how it stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.tokens import count_tokens
from memory.policies.card.card import (
    LAST_RESORT,
    MOST_STEPS,
    Card,
    CardUpdate,
    capped,
    fitted,
    is_card,
    read_card,
    stored_card,
    updated,
)
from memory.policies.card.numbers import CardNumbers
from memory.policies.numbers import bounds_of
from memory.policies.protocol import Refusal
from tests.unit.context.makers import words

NUMBERS = CardNumbers()
SEEDS_CARD = (
    '{"goal":"Master vibrato technique","decisions":["Practice 10 min daily"],"open_q":["Speed vs accuracy?"],'
    '"techniques":["vibrato"],"lesson_context":"intermediate vibrato"}'
)

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
fields = st.sampled_from(["goal", "constraints", "decisions", "open_q", "techniques", "lesson_context", "oq"])
objects = st.dictionaries(fields | st.text(max_size=5), any_json, max_size=8)
texts = st.text(max_size=300) | st.integers(0, 400).map(words)
lists = st.lists(texts, max_size=9).map(tuple)
told_fields = st.fixed_dictionaries(
    {}, optional={"goal": texts, "decisions": lists, "open_q": lists, "techniques": lists}
)
cards = st.builds(Card, texts, lists, lists, lists, lists, texts)


def read(text: str, *, most: int = 120, numbers: CardNumbers = NUMBERS) -> CardUpdate:
    return read_card(text, numbers, most)


def wire_tokens(card: Card) -> int:
    return count_tokens(card.wire())


# What is accepted


def test_the_seeds_own_card_is_read() -> None:
    assert read(SEEDS_CARD) == {
        "goal": "Master vibrato technique",
        "decisions": ("Practice 10 min daily",),
        "open_q": ("Speed vs accuracy?",),
        "techniques": ("vibrato",),
        "lesson_context": "intermediate vibrato",
    }


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{SEEDS_CARD}\n```",
        f"Here it is: {SEEDS_CARD} Good luck!",
        SEEDS_CARD.replace('"]', '",]').replace('"}', '",}'),
        SEEDS_CARD.replace("open_q", "oq").replace("goal", "g").replace("lesson_context", "lc"),
    ],
)
def test_a_card_is_read_however_a_model_wraps_it(text: str) -> None:
    assert read(text) == read(SEEDS_CARD)


@pytest.mark.parametrize(
    "text",
    [
        *("", "no card", "{", "[]", '{"goal":', '{"goal": "a', "{}", '{"mood": "good"}', '{"goal": null}'),
        '{"goal": ["a"], "decisions": "b", "open_q": {"c": 1}, "techniques": [null, {"d": 1}]}',
        "{" * 100_000,
    ],
)
def test_what_is_no_card_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(text)
    assert refused.value.reason == "wrong_shape"
    assert not is_card(text)


def test_a_field_of_the_wrong_type_is_ignored_and_the_others_stand() -> None:
    text = '{"goal": 5.50, "decisions": ["one", null, {"x": 2}, 3], "open_q": "what?", "constraints": [{}]}'
    assert read(text) == {"goal": "5.50", "decisions": ("one", "3")}


def test_unseen_characters_and_line_breaks_do_not_pass() -> None:
    told = read('{"goal": "a\\n\\u202eb\\u0000 c", "decisions": ["d\\u2028e", "\\u200b"]}')
    assert told == {"goal": "a b c", "decisions": ("d e",)}


def test_a_card_over_its_tokens_is_cut_in_the_drop_order() -> None:
    told = {"decisions": [f"decision {n}:{words(20)}" for n in range(5)], "open_q": [words(20)], "goal": "g"}
    kept = read(json.dumps(told))
    assert count_tokens(json.dumps(kept, separators=(",", ":"))) <= 120
    assert kept == {"goal": "g", "open_q": (), "decisions": tuple(told["decisions"][1:])}


def test_a_card_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(Refusal):
        read(json.dumps({"techniques": [words(80), words(80)]}))


@given(objects)
def test_whatever_an_object_holds_is_read_within_its_tokens_or_refused(found: dict[str, Any]) -> None:
    try:
        told = read(json.dumps(found))
    except Refusal:
        return
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
    assert told
    assert count_tokens(json.dumps(listed, ensure_ascii=False, separators=(",", ":"))) <= 120


@given(objects)
def test_any_stored_state_gives_a_card(stored: dict[str, Any]) -> None:
    card = stored_card(stored)
    assert stored_card(card.to_json()) == card
    assert json.loads(card.wire())["g"] == card.goal


# How one card updates another


def test_fields_are_replaced_and_those_not_told_stay() -> None:
    old = Card("old goal", ("c",), ("d1", "d2"), ("q",), ("t",), "old context")
    new = updated(old, {"goal": "new goal", "decisions": ("d3",), "open_q": ()}, NUMBERS)
    assert new == Card("new goal", ("c",), ("d3",), (), ("t",), "old context")


def test_each_field_has_its_cap_and_lists_keep_their_last() -> None:
    many = tuple(f"item {number}" for number in range(20))
    card = updated(Card(words(100), many, many, many, many, words(100)), {}, CardNumbers(token_budget=1000))
    assert (count_tokens(card.goal), count_tokens(card.lesson_context)) == (40, 30)
    assert (card.decisions, card.open_q, card.constraints, card.techniques) == (
        many[-5:],
        many[-4:],
        many[-3:],
        many[-6:],
    )


def test_a_cap_of_nothing_keeps_nothing() -> None:
    assert capped(Card(decisions=("a", "b")), CardNumbers(max_decisions=0)).decisions == ()


def test_the_wire_form_is_the_seeds() -> None:
    card = Card("Master vibrato", ("c",), ("10 min é",), ("q?",), ("vibrato",), "lesson")
    assert card.wire() == (
        '{"g":"Master vibrato","c":["c"],"d":["10 min é"],"oq":["q?"],"t":["vibrato"],"lc":"lesson"}'
    )
    assert Card().wire() == '{"g":"","c":[],"d":[],"oq":[],"t":[],"lc":""}'


# What is dropped


def steps(card: Card, numbers: CardNumbers = NUMBERS) -> list[Card]:
    """The distinct cards that `fitted` returns as the budget shrinks."""
    kept: list[Card] = []
    for budget in range(wire_tokens(card), 20, -1):
        small = fitted(card, replace(numbers, token_budget=budget))
        if small is not None and (not kept or small != kept[-1]):
            kept.append(small)
    return kept


def test_the_drop_order_is_the_seeds() -> None:
    card = Card(words(40), ("c1", "c2"), ("d1", "d2"), ("q1", "q2"), ("t1", "t2", "t3", "t4", "t5"), "lesson")
    sizes = [
        (len(c.open_q), len(c.constraints), len(c.decisions), len(c.techniques), count_tokens(c.goal))
        for c in steps(card)
    ]
    assert sizes == [
        (2, 2, 2, 5, 40),
        (1, 2, 2, 5, 40),
        (0, 2, 2, 5, 40),
        (0, 1, 2, 5, 40),
        (0, 0, 2, 5, 40),
        (0, 0, 1, 5, 40),
        (0, 0, 0, 5, 40),
        (0, 0, 0, 4, 40),
        (0, 0, 0, 3, 40),
        (0, 0, 0, 3, 20),
    ]
    last = steps(card)[-1]
    assert last.techniques == ("t3", "t4", "t5"), "the oldest go first"
    assert last.lesson_context == "lesson"


def test_what_nothing_makes_small_is_given_up_for_the_seeds_last_resort() -> None:
    card = updated(Card(), {"goal": "aim", "techniques": tuple(words(200) for _ in range(3))}, NUMBERS)
    assert card == LAST_RESORT == Card(goal="Conversation")


def test_dropping_ends_after_a_hundred_steps() -> None:
    numbers = CardNumbers(max_open_q=1000)
    assert MOST_STEPS == 100
    long = tuple(words(5) for _ in range(90 + 30))
    assert fitted(Card(open_q=long[:110]), numbers) is not None
    assert fitted(Card(open_q=tuple(words(60) for _ in range(105))), numbers) is None


@given(cards, told_fields, st.integers(60, 300))
def test_no_card_is_over_its_budget(card: Card, told: CardUpdate, budget: int) -> None:
    numbers = CardNumbers(token_budget=budget)
    small = updated(card, told, numbers)
    assert wire_tokens(small) <= budget
    assert count_tokens(small.goal) <= 40
    assert count_tokens(small.lesson_context) <= 30
    assert [len(small.decisions) <= 5, len(small.open_q) <= 4] == [True, True]
    assert [len(small.constraints) <= 3, len(small.techniques) <= 6] == [True, True]
    assert updated(small, {}, numbers) == small, "the same card again changes nothing"


def test_the_last_resort_fits_the_smallest_budget() -> None:
    smallest = bounds_of(CardNumbers)["token_budget"][1].at_least
    assert wire_tokens(LAST_RESORT) <= smallest
