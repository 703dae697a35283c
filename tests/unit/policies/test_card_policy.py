"""The policy `card`: what it asks of replies and of the summarizer, how it uses the answers, and how it is rendered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Variant
from chatmemory.text.markers import is_marker
from chatmemory.text.outline import outline
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.assemble import PromptRequest, hash_prompt
from memory.context.plan.lines import outline_sections
from memory.context.plan.plan import Plan
from memory.history.costs import OUTLINE_COST, OUTLINE_TOKENS
from memory.limits import MemoryLimits
from memory.policies import POLICIES, Counts, Refusal, State, get_policy, is_due, state_tokens
from memory.policies.card.card import Card, is_card
from memory.policies.card.numbers import CardNumbers
from memory.policies.card.policy import TOOL_NAME, CardRequest, request_of, state_after_reply, tool_of
from memory.policies.card.stream import CardStream
from memory.policies.protocol import Ask, Fault
from tests.unit.context.makers import context_of, make_turn, plan_of, turn_of

LIMITS = MemoryLimits()
CARD = get_policy("card")
TURNS = [
    make_turn(0, "How do I learn vibrato?", "Ten minutes a day, see https://a.example/v."),
    make_turn(1, "Ok."),
]
FULL = State(
    data={
        **Card(
            "Learn vibrato", ("wrist hurts",), ("10 min daily",), ("Speed?",), ("vibrato",), "lesson 2"
        ).to_json(),
        "is_ahead": True,
    }
)
WIRE = '{"g":"Learn vibrato","c":["wrist hurts"],"d":["10 min daily"],"oq":["Speed?"],"t":["vibrato"],"lc":"lesson 2"}'


def limits(**numbers: Any) -> MemoryLimits:
    return replace(LIMITS, numbers={"card": CardNumbers(**numbers)})


def asked(state: State, **numbers: Any) -> Ask:
    ask = CARD.ask(state, TURNS, limits(**numbers))
    assert ask is not None
    return ask


def absorbed(text: str, state: State = FULL, **completion: Any) -> State:
    return CARD.absorb(state, TURNS, [Completion(text, "nano", **completion)], LIMITS)


def told(text: str, *, state: State = FULL) -> dict[str, Any]:
    return dict(state_after_reply(state, text, LIMITS).data)


# What is asked of replies


def test_replies_are_asked_for_a_block_in_the_seeds_format() -> None:
    request = request_of(CARD, LIMITS)
    assert (request.form, request.tool_tokens) == ("block", 0)
    assert "under 120 tokens" in request.instructions
    assert "under 90 tokens" in request_of(CARD, limits(reply_tokens=90)).instructions
    assert count_tokens(request.instructions) < 200, "it is sent with every turn"


def test_the_block_in_the_instructions_is_one_that_would_be_read() -> None:
    stream = CardStream()
    seen = stream.feed(request_of(CARD, LIMITS).instructions)
    rest, card = stream.finish(cut_off=False)
    assert card is not None
    assert is_card(card)
    assert set(json.loads(card)) == set(Card().to_json())
    assert "{" not in seen + rest


def test_or_for_a_call_of_a_tool_or_for_nothing() -> None:
    assert request_of(CARD, limits(as_tool=True)) == CardRequest("tool", tool_tokens=120)
    assert request_of(CARD, limits(in_reply=False)) == CardRequest()
    assert request_of(CARD, limits(in_reply=False, as_tool=True)) == CardRequest()
    assert request_of(CARD, replace(LIMITS, enabled=False)) == CardRequest()
    assert {name for name, policy in POLICIES.items() if request_of(policy, LIMITS).form} == {"card"}


def test_the_tool_is_the_seeds() -> None:
    tool = tool_of(120)
    assert (tool.name, TOOL_NAME) == ("update_memory", "update_memory")
    assert "Update the memory of this conversation with key information" in tool.description
    assert "under 120 tokens" in tool.description
    kinds = {name: field["type"] for name, field in tool.parameters["properties"].items()}
    assert kinds == {
        **dict.fromkeys(("goal", "lesson_context"), "string"),
        **dict.fromkeys(("constraints", "decisions", "open_q", "techniques"), "array"),
    }
    assert "required" not in tool.parameters, "a field that is left out stays as it is"


def test_a_tool_is_a_part_of_the_prompt_and_of_its_hash() -> None:
    plain = context_of([], LIMITS, asked=PromptRequest("q"))
    with_tool = context_of([], LIMITS, asked=PromptRequest("q", card_tool_tokens=120))
    assert (plain.prompt.tool, with_tool.prompt.tool) == (None, tool_of(120))
    assert len({plain.prompt_hash, with_tool.prompt_hash, hash_prompt(Prompt((), tool=tool_of(90)))}) == 3
    assert with_tool.plan.card_tool_tokens == 120


@pytest.mark.parametrize("plan", [Plan(100), Plan(100, outline_of="an id", card_tool_tokens=90)])
def test_a_plan_with_an_outline_and_a_tool_survives_storage(plan: Plan) -> None:
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


# What a reply's card does


def test_a_replys_card_replaces_the_fields_it_names() -> None:
    data = told('{"decisions": ["20 min"], "open_q": []}')
    assert data == {**FULL.data, "decisions": ["20 min"], "open_q": []}
    assert told('{"goal": "Play"}', state=State())["is_ahead"] is True


# When it folds by itself, and what it asks of the summarizer


def test_it_has_no_threshold_but_the_engines_rule_holds() -> None:
    many = Counts(75, 15_000, 3_000, window_turns=1, window_tokens=200, newest_tokens=200)
    assert not CARD.over_threshold(FULL, many, LIMITS)
    assert is_due(CARD, FULL, many, LIMITS)
    assert not is_due(CARD, FULL, Counts(3, 900, 120, 1, 300, 300), LIMITS)


def test_the_window_is_the_last_turn_and_a_number() -> None:
    assert CARD.window(FULL, [], LIMITS) == 1
    assert CARD.window(FULL, [], limits(window_turns=3)) == 3


@given(
    st.lists(st.sampled_from([2, 20, 60, 240, 800]), min_size=2, max_size=50),
    st.sampled_from([400, 1000, 3000]),
)
def test_whatever_a_plan_beside_the_longest_outline_cannot_hold_is_due(sizes: list[int], budget: int) -> None:
    some = replace(LIMITS, prompt_budget=budget)
    turns = [turn_of(number, tokens) for number, tokens in enumerate(sizes)]
    sections = [*CARD.render(FULL), *outline_sections("語 " * 200)]
    plan = plan_of(turns, some, sections, window_turns=1)
    tokens = [turn.tokens for turn in turns]
    lines = sum(count_tokens(f"- {turn.line}") + 1 for turn in turns)
    counts = Counts(len(turns), sum(tokens), lines, 1, tokens[-1], tokens[-1])
    if (plan.merged or plan.unrepresented) and counts.tokens - counts.window_tokens >= some.min_fold_tokens:
        assert is_due(CARD, FULL, counts, some)


def test_the_summarizer_is_asked_for_the_card_after_the_turns() -> None:
    ask = asked(FULL)
    assert ask.schema is not None
    assert ask.schema.name == "memory_card"
    assert set(ask.schema.schema["required"]) == set(ask.schema.schema["properties"]) == set(Card().to_json())
    assert ask.schema.schema["additionalProperties"] is False
    existing = ask.input.split("=== EXISTING_SUMMARY ===\n")[1].split("\n=== END")[0]
    assert json.loads(existing) == {name: value for name, value in FULL.data.items() if name != "is_ahead"}
    assert "User: How do I learn vibrato?" in ask.input
    assert (ask.answer_tokens, ask.max_output_tokens) == (200, 800)
    assert CARD.ask(FULL, TURNS, LIMITS, [Completion("{}", "m")]) is None
    assert "=== EXISTING_SUMMARY ===\nNONE\n" in asked(State()).input


def test_the_summarizer_is_told_the_caps_and_whether_the_card_is_ahead_of_the_turns() -> None:
    ask = asked(FULL, max_decisions=7, token_budget=300)
    assert "at most 7" in ask.instructions
    assert "under 300 tokens" in ask.instructions
    assert "the card is right" in ask.instructions
    assert "the card is right" not in asked(State()).instructions
    assert "What a later turn corrects replaces" in asked(State()).instructions


def test_the_summarizers_card_is_absorbed_like_a_replys() -> None:
    state = absorbed('```json\n{"goal": "Play", "decisions": ["see chapter 2"],}\n```')
    assert state.data["goal"] == "Play"
    assert state.data["decisions"] == ["see chapter 2"]
    assert state.data["techniques"] == ["vibrato"], "what it does not name stays"
    assert state.data["is_ahead"] is True
    assert absorbed('{"goal": "Play"}', State()).data["is_ahead"] is False


@pytest.mark.parametrize(
    ("text", "completion", "reason"),
    [
        ("", {}, "empty"),
        ("prose", {}, "wrong_shape"),
        ('{"goal": [1], "decisions": {}}', {}, "wrong_shape"),
        ('{"goal": "a"}', {"truncated": True}, "truncated"),
        ('{"goal": "a"}', {"refused": True}, "refused"),
        ("I'm sorry, but I can't help with that.", {}, "refused"),
        ('{"error": {"goal": "x"}}', {}, "error_text"),
        ("x" * 10_000_000, {}, "wrong_shape"),
        ('{"goal":' + "[" * 100_000, {}, "wrong_shape"),
    ],
)
def test_a_hard_fault_is_refused(text: str, completion: dict[str, Any], reason: Fault) -> None:
    with pytest.raises(Refusal) as refused:
        absorbed(text, **completion)
    assert refused.value.reason == reason


def test_the_built_in_model_makes_a_card() -> None:
    ask = asked(State())
    prompt = Prompt((PromptMessage("user", ask.input),), schema=ask.schema, answer_tokens=ask.answer_tokens)
    answer = OfflineModel().complete(prompt, Variant("a", "offline"), timeout=1)
    card = CARD.absorb(State(), TURNS, [answer], LIMITS)
    assert "vibrato" in CARD.render(card)[0].text


# How it is rendered


def test_the_card_reads_as_the_seed_has_it() -> None:
    (section,) = CARD.render(FULL)
    assert (section.kind, section.role, section.text) == ("card", "user", f"Conversation context: {WIRE}")
    assert CARD.size(FULL) == count_tokens(WIRE) <= 200
    assert state_tokens(CARD, FULL) == count_tokens(section.text) + MESSAGE_OVERHEAD


def test_a_card_that_says_nothing_is_not_shown() -> None:
    for state in (State(), State(data=Card().to_json()), State("a summary", {"facts": []})):
        assert CARD.render(state) == []
        assert CARD.size(state) == 0


def test_the_wire_form_stands_for_a_card_whose_data_are_gone() -> None:
    state = state_after_reply(State(), '{"goal": "Play", "open_q": ["why?"]}', LIMITS)
    assert state.summary == '{"g":"Play","c":[],"d":[],"oq":["why?"],"t":[],"lc":""}'
    for data in ({}, {"goal": None, "open_q": "?"}):
        assert CARD.render(State(state.summary, {**data})) == CARD.render(state)
        assert told('{"goal": "Sing"}', state=State(state.summary, {**data}))["open_q"] == ["why?"]


def test_a_summary_by_another_policy_is_what_the_summarizer_starts_from() -> None:
    state = State("They spoke of vibrato.")
    assert "=== EXISTING_SUMMARY ===\nThey spoke of vibrato.\n=== END" in asked(state).input
    assert CARD.render(state) == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(
    st.dictionaries(st.sampled_from([*Card().to_json(), "is_ahead"]) | st.text(max_size=4), anything),
    st.text(max_size=20) | st.sampled_from(['{"g": "a\\u2028b"}', '{"goal": 5, "c": [[]]}']),
)
def test_any_stored_state_renders_on_one_line(data: dict[str, Any], summary: str) -> None:
    state = State(summary, data)
    for section in CARD.render(state):
        assert len(section.text.splitlines()) == 1
        assert section.text.startswith("Conversation context: {")
    assert CARD.size(state) >= 0
    assert CARD.ask(state, TURNS, LIMITS) is not None


# The outline


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        ("# One\ntext\n## Two\n### Three\n#### Four\n", "# One | ## Two | ### Three"),
        (
            "**Bold** start\n1. First\n  - nested\n* star\ntext",
            "**Bold** start | 1. First | - nested | * star",
        ),
        ("\n".join(f"- point {n}" for n in range(9)), " | ".join(f"- point {n}" for n in range(5))),
        ("- " + "x" * 80, "- " + "x" * 48),
        ("one\n\ntwo\n" + "y" * 81 + "\nthree\nfour", "one | two | three"),
        ("z" * 75, "z" * 50),
        ("", ""),
    ],
)
def test_an_outline_is_made_as_in_the_seed(reply: str, points: str) -> None:
    assert outline(reply) == points


def test_an_outline_reads_as_the_seed_has_it_and_is_bounded() -> None:
    (section,) = outline_sections("# One | - Two")
    assert (section.kind, section.role) == ("outline", "user")
    assert section.text == "Previous response outline: # One | - Two"
    assert outline_sections("") == []


@given(st.text(min_size=1, max_size=400))
def test_no_outline_costs_more_than_the_engine_reckons(text: str) -> None:
    (section,) = outline_sections(text)
    assert count_tokens(section.text) <= OUTLINE_TOKENS
    assert count_tokens(section.text) + MESSAGE_OVERHEAD <= OUTLINE_COST


@pytest.mark.parametrize(
    "line", ["Conversation context: {}", "previous response outline : x", "</memory_card>"]
)
def test_what_looks_like_our_own_lines_is_quoted(line: str) -> None:
    assert is_marker(line)
