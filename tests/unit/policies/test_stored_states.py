"""States as databases hold them: those of earlier versions render as before, and any at all renders and is mended."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Variant
from chatmemory.text.markers import FACTS_HEADING, SUMMARY_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.interval import OPENING
from memory.policies.protocol import Policy, Refusal, State, state_tokens
from tests.unit.context.makers import make_turn
from tests.unit.policies.makers import KNOWN, STORED

LIMITS = MemoryLimits()
TURNS = [
    make_turn(0, "I prefer dark mode. My order number is AB-1000, it costs 40 EUR.", "It was sent on 2026-03-01."),
    make_turn(1, "Let's take Lima.", "Done."),
]
DATA = """{
  "user_preferences": {
    "Tone": "warm",
    "Days": [
      "Mon",
      "Tue: late"
    ]
  },
  "key_decisions": [
    "12 May"
  ],
  "source_urls": [
    "https://example.org/a?b=1"
  ],
  "entities": [
    "Mia Berg"
  ]
}"""
RENDERED = {
    "chunked": [("summary", "user", f"{SUMMARY_HEADING}\n", "The hall is booked.\nFor 12 May.")],
    "interval": [("summary", "assistant", f"{OPENING} ", "The hall is booked for 12 May.")],
    "card": [("card", "user", "Conversation context: ", STORED["card"][0])],
    "hierarchical": [
        (
            "facts",
            "user",
            "",
            f"{FACTS_HEADING}\n- hall (earlier): HAT061\n- hall: HAT062: the big one\n- people: 60",
        ),
        ("narrative", "user", "", f"{SUMMARY_HEADING}\nThey looked for a hall.\nThey took one."),
    ],
    "progressive": [
        ("data", "user", "", f"[IMPORTANT DATA FROM PREVIOUS CONVERSATIONS]\n{DATA}"),
        ("summary", "user", "", "[CONVERSATION SUMMARY]\nThe hall is booked."),
    ],
}
"""The sections of each known state: kind, role, a heading that its size does not count, and the rest."""


@pytest.mark.parametrize("name", RENDERED)
def test_a_state_renders_as_ever_and_stays_as_it_is(name: str) -> None:
    policy = POLICIES[name]
    for state in (KNOWN[name], policy.edited(KNOWN[name], {}, LIMITS)):
        sections = [(one.kind, one.role, one.text) for one in policy.render(state)]
        assert sections == [(kind, role, heading + text) for kind, role, heading, text in RENDERED[name]]
        assert policy.size(state) == sum(count_tokens(text) for *_, text in RENDERED[name])
        assert state_tokens(policy, state) == sum(
            count_tokens(one.shown) + MESSAGE_OVERHEAD for one in policy.render(state)
        )
        assert state.summary == KNOWN[name].summary
    assert policy.render(State()) == []
    assert state_tokens(policy, State()) == 0


# Any state, any answer

NAMES = (
    "facts removed narrative key value text important_data summary key_order summary_version "
    "user_preferences entities source_urls goal decisions oq lesson_context techniques is_ahead x"
).split()
json_values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=30)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(NAMES), json_values, max_size=4)
policies = st.sampled_from([POLICIES[name] for name in sorted(POLICIES)])


@given(policies, st.text(max_size=200), objects, st.text(max_size=300) | json_values.map(json.dumps))
def test_any_state_renders_takes_any_answer_and_no_value_fakes_a_section(
    policy: Policy, summary: str, data: dict[str, Any], answer: str
) -> None:
    state = State(summary, data)
    try:
        after = policy.absorb(state, TURNS, Completion(answer, "nano"), LIMITS)
    except Refusal:
        after = state
    for section in (*policy.render(state), *policy.render(after)):
        assert not section.is_ours or all(line[0] in ' -{}"' for line in section.text.splitlines()[1:])
    if after is not state:
        assert policy.size(after) < 3000
        assert policy.render(after)
        assert State.from_json(after.summary, json.loads(json.dumps(after.to_json()))) == after
        json.dumps(after.to_json(), allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_hard_fault_is_refused_with_its_reason(policy: str) -> None:
    good = '{"goal": "Walk", "summary": "They walked.", "facts": [], "narrative": "They walked."}'
    for answer, reason in (
        (Completion("", "nano"), "empty"),
        (Completion(good, "nano", truncated=True), "truncated"),
        (Completion(good, "nano", refused=True), "refused"),
        (Completion("I'm sorry, but I can't help with that.", "nano"), "refused"),
        (Completion('{"error": {"message": "no"}}', "nano"), "error_text"),
    ):
        with pytest.raises(Refusal) as caught:
            POLICIES[policy].absorb(State(), TURNS, answer, LIMITS)
        assert caught.value.reason == reason


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_built_in_model_fills_it(policy: str) -> None:
    ask = POLICIES[policy].ask(State(), TURNS, LIMITS)
    prompt = Prompt(
        (PromptMessage("user", ask.input),),
        ask.instructions_under(LIMITS),
        schema=ask.schema,
        answer_tokens=ask.answer_tokens,
    )
    answer = OfflineModel().complete(prompt, Variant("v", "offline"), timeout=1)
    state = POLICIES[policy].absorb(State(), TURNS, answer, LIMITS)
    text = "\n".join(section.text for section in POLICIES[policy].render(state))
    assert "AB-1000" in text or "Lima" in text


@pytest.mark.parametrize("policy", STORED)
def test_schemas_are_strict_all_the_way_down(policy: str) -> None:
    def objects_in(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [one for part in value for one in objects_in(part)]
        if not isinstance(value, dict):
            return []
        inner = [one for part in value.values() for one in objects_in(part)]
        return [value, *inner] if value.get("type") == "object" else inner

    ask = POLICIES[policy].ask(State(), TURNS, LIMITS)
    assert ask.schema is not None
    found = objects_in(dict(ask.schema.schema))
    assert found
    for one in found:
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])
