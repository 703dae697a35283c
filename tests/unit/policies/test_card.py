"""The policy `card` (seed 002): what it asks of replies and the summarizer, what it accepts, and how it stays small."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.protocol import Completion
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.plan import outline_sections
from memory.history.turns import OUTLINE_COST, OUTLINE_TOKENS
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.card import EMPTY, CardNumbers, CardStream, read_card, state_after_reply
from memory.policies.protocol import Ask, Counts, Refusal, State, is_due
from tests.unit.context.makers import make_turn, words

LIMITS = MemoryLimits()
CARD = POLICIES["card"]
TURNS = [make_turn(0, "How do I learn vibrato?", "Ten minutes a day, see https://a.example/v.")]
FIELDS: dict[str, Any] = {
    "goal": "Learn vibrato",
    "constraints": ["wrist hurts"],
    "decisions": ["10 min daily"],
    "open_q": ["Speed?"],
    "techniques": ["vibrato"],
    "lesson_context": "lesson 2",
}
WIRE = '{"g":"Learn vibrato","c":["wrist hurts"],"d":["10 min daily"],"oq":["Speed?"],"t":["vibrato"],"lc":"lesson 2"}'
FULL = State(WIRE, {**FIELDS, "is_ahead": True})
SEEDS_CARD = (
    '{"goal":"Master vibrato technique","decisions":["Practice 10 min daily"],"open_q":["Speed vs accuracy?"],'
    '"techniques":["vibrato"],"lesson_context":"intermediate vibrato"}'
)


def limits(**numbers: Any) -> MemoryLimits:
    return replace(LIMITS, numbers={CardNumbers: CardNumbers(**numbers)})


def ask_of(state: State, **numbers: Any) -> Ask:
    ask = CARD.ask(state, TURNS, limits(**numbers))
    assert ask is not None
    return ask


def card_after(text: str, state: State = State(), **numbers: Any) -> dict[str, Any]:  # noqa: B008 - frozen
    """The card after a reply that brought `text`."""
    after = dict(state_after_reply(state, read_card(text), limits(**numbers)).data)
    assert after.pop("is_ahead") is True
    return after


def absorbed(text: str, state: State = FULL) -> State:
    return CARD.absorb(state, TURNS, Completion(text, "nano"), LIMITS)


# What is asked of replies


def test_replies_under_card_alone_are_asked_for_a_block_that_would_be_read() -> None:
    instructions = CARD.reply_instructions(LIMITS)
    assert "under 120 tokens" in instructions
    assert "under 90 tokens" in CARD.reply_instructions(limits(reply_tokens=90))
    assert count_tokens(instructions) < 200, "it is sent with every turn"
    stream = CardStream()
    seen = stream.feed(instructions)
    rest, card = stream.finish(cut_off=False)
    assert card is not None
    assert set(json.loads(card)) == set(EMPTY)
    assert "{" not in seen + rest
    assert CARD.reply_instructions(limits(in_reply=False)) == ""
    assert {name for name, policy in POLICIES.items() if policy.reply_instructions(LIMITS)} == {"card"}


# What is accepted


@pytest.mark.parametrize(
    "text",
    [
        f"Here it is:\n```json\n{SEEDS_CARD}\n```",
        SEEDS_CARD.replace("open_q", "oq").replace("goal", "g").replace("lesson_context", "lc"),
    ],
)
def test_the_seeds_card_is_read_however_a_model_wraps_it(text: str) -> None:
    assert card_after(text) == {**EMPTY, **json.loads(SEEDS_CARD)}


@pytest.mark.parametrize(
    "text",
    [
        *("", "no card", "{", "[]", '{"goal":', '{"goal": "a', "{}", '{"mood": "good"}', '{"goal": null}'),
        '{"goal": ["a"], "decisions": "b", "open_q": {"c": 1}, "techniques": [null, {}]}',
        "{" * 100_000,
    ],
)
def test_card_rejects_invalid_answers(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        card_after(text)
    assert refused.value.reason == "wrong_shape"


def test_card_replaces_given_fields_only() -> None:
    assert card_after('{"decisions": ["20 min"], "open_q": [], "goal": 5.5, "constraints": [{}]}', FULL) == {
        **FIELDS,
        "decisions": ["20 min"],
        "open_q": [],
        "goal": "5.5",
    }


def test_each_field_has_its_cap_and_lists_keep_their_last() -> None:
    many = [f"item {number}" for number in range(20)]
    fields = {name: words(100) if value == "" else many for name, value in EMPTY.items()}
    card = card_after(json.dumps(fields), token_budget=1000, reply_tokens=1000)
    assert (count_tokens(card["goal"]), count_tokens(card["lesson_context"])) == (40, 30)
    lists = [card[name] for name in ("decisions", "open_q", "constraints", "techniques")]
    assert lists == [many[-5:], many[-4:], many[-3:], many[-6:]]


def test_the_drop_order_is_the_seeds() -> None:
    fields = {
        "goal": words(40),
        "constraints": ["c1", "c2"],
        "decisions": ["d1", "d2"],
        "open_q": ["q1", "q2"],
        "techniques": ["t1", "t2", "t3", "t4", "t5"],
        "lesson_context": "lesson",
    }
    sizes: list[tuple[int, ...]] = []
    last: dict[str, Any] = {}
    for budget in range(120, 60, -1):
        card = card_after(json.dumps(fields), token_budget=budget, reply_tokens=1000)
        lists = [len(card[name]) for name in ("open_q", "constraints", "decisions", "techniques")]
        size = (*lists, count_tokens(card["goal"]))
        if card["goal"] != "Conversation" and (not sizes or size != sizes[-1]):
            sizes.append(size)
            last = card
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
    assert (last["techniques"], last["lesson_context"]) == (["t3", "t4", "t5"], "lesson")


def test_a_reply_s_card_is_cut_to_its_own_tokens_first() -> None:
    decisions = [f"decision {n}:{words(20)}" for n in range(5)]
    card = card_after(json.dumps({"decisions": decisions, "open_q": [words(20)], "goal": "g"}), FULL, token_budget=500)
    assert (card["goal"], card["open_q"], card["decisions"]) == ("g", [], decisions[1:])
    with pytest.raises(Refusal):
        card_after(json.dumps({"techniques": [words(80), words(81)]}))


def test_card_too_large_falls_back_to_seed() -> None:
    long = json.dumps({"goal": "aim", "techniques": [words(190), words(190), words(190)]})
    assert card_after(long, reply_tokens=1000) == {**EMPTY, "goal": "Conversation"}


# The summarizer


def test_the_summarizer_is_asked_for_the_card_after_the_turns() -> None:
    ask = ask_of(FULL, token_budget=300)
    assert ask.schema is not None
    assert ask.schema.name == "memory_card"
    assert set(ask.schema.schema["required"]) == set(EMPTY)
    existing = ask.input.split("=== EXISTING_SUMMARY ===\n")[1].split("\n=== END")[0]
    assert json.loads(existing) == FIELDS
    assert (ask.answer_tokens, ask.max_output_tokens) == (300, 1200)
    assert "under 300 tokens" in ask.instructions_under(LIMITS)
    assert "the card is right" in ask.instructions_under(LIMITS)
    first = ask_of(State())
    assert "=== EXISTING_SUMMARY ===\nNONE\n" in first.input
    assert "What a later turn corrects replaces" in first.instructions_under(LIMITS)


def test_the_summarizers_card_is_absorbed_like_a_replys() -> None:
    state = absorbed('```json\n{"goal": "Play", "decisions": ["see chapter 2"],}\n```')
    assert state.data == {**FIELDS, "goal": "Play", "decisions": ["see chapter 2"], "is_ahead": True}
    assert absorbed('{"goal": "Play"}', State()).data["is_ahead"] is False


# When it folds by itself


def test_card_has_no_threshold_of_its_own() -> None:
    many = Counts(75, 15_000, 3_000, window_turns=1, window_tokens=200)
    assert CARD.measure(FULL, many, LIMITS) is None
    assert is_due(CARD, FULL, many, LIMITS)
    assert not is_due(CARD, FULL, Counts(3, 900, 120, 1, 300), LIMITS)
    assert [CARD.window(FULL, [], some) for some in (LIMITS, limits(window_turns=3))] == [1, 3]


@given(st.text(min_size=1, max_size=400))
def test_no_outline_costs_more_than_the_engine_reckons(text: str) -> None:
    (section,) = outline_sections(text)
    assert (section.kind, section.role) == ("outline", "user")
    assert section.text.startswith("Previous response outline: ")
    assert count_tokens(section.text) <= OUTLINE_TOKENS
    assert count_tokens(section.text) + MESSAGE_OVERHEAD <= OUTLINE_COST


# How it is rendered


def test_a_card_that_says_nothing_is_not_shown() -> None:
    for state in (State(), State(data={**EMPTY, "is_ahead": True}), State("a summary", {"facts": []})):  # type: ignore[dict-item]
        assert CARD.render(state) == []
        assert CARD.size(state) == 0
    assert "=== EXISTING_SUMMARY ===\na summary\n=== END" in ask_of(state).input, (
        "it starts from that of another policy"
    )
