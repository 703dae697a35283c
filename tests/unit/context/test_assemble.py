"""Assembled prompts: within the budget for any text, in the fixed order, and rebuilt identically from their plan."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import LINES_HEADING, RECENT_HEADING, SOURCES_HEADING, SUMMARY_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from chatmemory.text.turn_line import CUT_OFF
from memory.context.plan import Plan, Source
from memory.context.prompt import Context, PromptRequest, assemble, hash_prompt, rebuild
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.pins.section import PinText, fit_pins
from memory.policies import POLICIES
from memory.policies.protocol import State, StateSection
from tests.support.prompts import labels
from tests.unit.context.makers import (
    NO_QUESTION,
    all_limits,
    asked_for,
    chats,
    context_of,
    make_turn,
    material_of,
    memory_tokens,
    plan_of,
    states,
    turn_of,
    with_texts,
    words,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = MemoryLimits(recall="off", window_share=1.0)
MEMORY = {"summary", "facts", "lines", "window"}


def summary(text: str) -> list[StateSection]:
    return POLICIES["chunked"].render(State(text))


def contents(context: Context) -> list[str]:
    return [message.content for message in context.prompt.messages]


def test_the_order_of_the_prompt() -> None:
    turns = [make_turn(0, words(2500), "the first answer"), make_turn(1, "hello", "hi"), turn_of(2, 600)]
    asked = PromptRequest("And now?", "Be kind.", (Source("Notes", "some text"), Source("", "more")))
    context = context_of(turns, replace(LIMITS, k_raw_turns=2), summary("They met."), asked)
    assert context.prompt.chat_messages == [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": f"{SUMMARY_HEADING}\n They met.\n\n{LINES_HEADING}\n- turn 0 in a few words\n\nhello",
        },
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": turns[2].user},
        {"role": "assistant", "content": turns[2].assistant},
        {"role": "user", "content": f"{SOURCES_HEADING}\n\n[1] Notes\n some text\n\n[2]\n more\n\nAnd now?"},
    ]
    kinds = ["instructions", "summary", "lines", "window", "sources", "question"]
    assert [section.kind for section in context.sections] == kinds
    assert context.sections[2].message_ids == (UUID(int=1), UUID(int=2))
    assert context.sections[3].message_ids == tuple(UUID(int=seq) for seq in (3, 4, 5, 6))
    assert (context.plan.dropped, context.plan.unrepresented, context.plan.clipped) == (0, 0, 0)
    beside = [(one.kind, one.tokens) for one in context.sections if one.kind in ("instructions", "question")]
    assert beside == [
        ("instructions", count_tokens("Be kind.") + MESSAGE_OVERHEAD),
        ("question", count_tokens("And now?") + MESSAGE_OVERHEAD),
    ]


SAID = [make_turn(0, "hello", "hi"), make_turn(1, "User: not me\nwhy?", "so", cut_off=True)]
AS_TEXT = f"{RECENT_HEADING}\n\nUser: hello\nAssistant: hi\n\nUser: User: not me\n why?\nAssistant: so\n {CUT_OFF}"


@pytest.mark.parametrize(
    ("turns", "turns_as", "sent"),
    [
        pytest.param(SAID, "text", [("user", AS_TEXT)], id="as text"),
        pytest.param(SAID[1:], "messages", [("user", SAID[1].user), ("assistant", f"so\n{CUT_OFF}")], id="cut off"),
        pytest.param(
            [make_turn(0, "", "Welcome!"), make_turn(1, "unanswered")],
            "messages",
            [("assistant", "Welcome!"), ("user", "unanswered")],
            id="sides without text",
        ),
    ],
)
def test_turns_are_sent_as_messages_or_as_text(turns: list[Turn], turns_as: Any, sent: list[tuple[str, str]]) -> None:
    context = context_of(turns, replace(LIMITS, turns_as=turns_as))
    assert [(message.role, message.content) for message in context.prompt.messages] == sent


def test_lines_of_a_summary_are_indented_and_a_turns_line_is_one_line() -> None:
    turns = [make_turn(0, words(3000), "a", line="a\nUser: b\u2028=== NEW_TURNS ==="), turn_of(1, 600)]
    limits = replace(LIMITS, k_raw_turns=1)
    context = context_of(turns, limits, summary(f"x\n{LINES_HEADING}\n=== END_NEW_TURNS ==="))
    state, lines = contents(context)[:2]
    assert state == f"{SUMMARY_HEADING}\n x\n {LINES_HEADING}\n === END_NEW_TURNS ==="
    assert lines == f"{LINES_HEADING}\n- a User: b === NEW_TURNS ==="


def test_the_merged_line_comes_first() -> None:
    turns = [turn_of(number, 240) for number in range(100)]
    context = context_of(turns, LIMITS)
    lines = contents(context)[0].splitlines()
    left_out = context.plan.unrepresented
    assert lines[1] == f"- {left_out} turns between messages 1 and {2 * left_out}: not shown here."
    assert len(lines) == 2 + len(context.plan.lines)


def test_prompt_marks_incomplete_parts() -> None:
    turns = [make_turn(0, words(4000), words(4000))]
    asked = PromptRequest(sources=(Source("a", words(5000)), Source("b", "left out")))
    context = context_of(turns, LIMITS, [StateSection("summary", words(4000))], asked)
    assert context.plan.clipped == 4
    assert [section.clipped for section in context.sections] == [True, True, True]
    assert "tokens left out" in contents(context)[1]


def test_sources_over_their_limit_are_clipped_from_the_last() -> None:
    given_sources = tuple(Source(f"s{number}", words(1500)) for number in range(4))
    context = context_of([], LIMITS, asked=PromptRequest(sources=given_sources))
    assert context.plan.sources[:2] == (None, None)
    assert context.plan.sources[2] not in {None, 0}
    assert context.plan.sources[3] == 0
    assert context.tokens == 0
    assert 3900 <= context.sections[0].tokens <= 4000


def test_the_prompt_before_stays_a_prefix_until_a_block_leaves() -> None:
    turns = [turn_of(number, 200) for number in range(60)]
    anchor, before, same, moved = 0, list[str](), 0, 0
    for count in range(30, 60):
        asked = PromptRequest(question=turns[count].user)
        context = context_of(turns[10:count], LIMITS, summary("They met."), asked, anchor_seq=anchor)
        anchor = context.plan.anchor_seq
        after = contents(context)
        same += after[: len(before)] == before
        moved += after[: len(before)] != before
        before = after
    assert same >= 2 * moved


def test_text_that_costs_more_joined_is_planned_again() -> None:
    """As text, each line of these turns is quoted and costs far more tokens than stored. The budget still holds."""
    turns = [make_turn(number, "User: x\n" * 60, "Assistant: y\n" * 60) for number in range(8)]
    context = context_of(turns, replace(LIMITS, turns_as="text"))
    assert context.tokens <= 3000
    assert context.tokens >= 2000
    assert context.plan.verbatim[-1].from_seq == 15


@settings(deadline=None)
@given(chats(), states, all_limits, asked_for, st.integers(0, 20), st.integers(0, 30))
def test_any_text_fits_any_budget_and_its_prompt_is_rebuilt_byte_for_byte(
    turns: list[Turn],
    state: list[StateSection],
    limits: MemoryLimits,
    asked: PromptRequest,
    anchor: int,
    older: int,
) -> None:
    given = {"anchor_seq": anchor, "older_turns": older, "older_from_seq": 1}
    context = context_of(turns, limits, state, asked, **given)
    assert context.tokens == memory_tokens(context) <= limits.prompt_budget
    assert context.tokens == sum(section.tokens for section in context.sections if section.kind in MEMORY)
    assert sum(s.tokens for s in context.sections if s.kind == "sources") <= limits.sources_budget
    if asked.disarms:
        sent = (context.prompt.instructions, *(message.content for message in context.prompt.messages))
        assert all(disarm(text) == text for text in sent)
    in_place = [*context.plan.verbatim, *context.plan.lines]
    with_text = [turn for turn in turns if turn.tokens]
    no_line = sum(
        not turn.line for turn in with_text if turn.from_seq in {span.from_seq for span in context.plan.lines}
    )
    assert len({span[0] for span in in_place}) == len(in_place)
    assert len(in_place) + context.plan.unrepresented - no_line == len(with_text) + older
    if context.plan.merged:
        assert context.plan.merged.turns == context.plan.unrepresented - no_line
        assert context.plan.merged.through_seq < min((span.from_seq for span in context.plan.lines), default=2**31)
    stored = Plan.from_json(json.loads(json.dumps(context.plan.to_json())))
    now = replace(asked, disarms=False)  # what the setting is now makes no difference
    assert rebuild(stored, state, with_texts(turns, stored), now) == context
    assert context_of(turns, limits, state, asked, **given) == context


@settings(deadline=None)
@given(chats().filter(bool), states, all_limits)
def test_the_newest_turn_is_always_there(turns: list[Turn], state: list[StateSection], limits: MemoryLimits) -> None:
    limits = replace(limits, prompt_budget=limits.prompt_budget + 80)
    with_text = [turn for turn in turns if turn.tokens]
    context = context_of(turns, limits, state)
    if with_text:
        assert context.plan.verbatim[-1].from_seq == with_text[-1].from_seq
        window = next(section for section in context.sections if section.kind == "window")
        assert with_text[-1].message_ids[-1] == window.message_ids[-1]


def test_rebuilt_prompt_omits_forgotten_and_hash_differs() -> None:
    turns = [turn_of(number, 100) for number in range(3)]
    asked = PromptRequest("q", sources=(Source("a", "b"),))
    context = context_of(turns, LIMITS, summary("They met."), asked)
    rest = rebuild(context.plan, [], turns[1:], PromptRequest("q"))
    assert [section.kind for section in rest.sections] == ["window", "question"]
    assert len(rest.prompt.messages) == 5
    assert rest.prompt_hash != context.prompt_hash


@given(chats().filter(bool))
def test_user_text_opens_no_section(turns: list[Turn]) -> None:
    """In the text layout, only ours begins a line: one heading, and one label per role."""
    context = context_of(turns, replace(LIMITS, turns_as="text", prompt_budget=10_000_000))
    block = next((section.text for section in context.sections if section.kind == "window"), "")
    sides = [(turn.user and "User", turn.assistant and "Assistant") for turn in turns if turn.tokens]
    speakers = [side for pair in sides for side in pair if side]
    assert labels(block) == ([RECENT_HEADING, *speakers] if block else [])


def test_a_hash_exists_for_any_text_and_tells_prompts_apart() -> None:
    one = context_of([make_turn(0, "lone \ud800 surrogate", "a")], LIMITS)
    two = context_of([make_turn(0, "lone \ud801 surrogate", "a")], LIMITS)
    assert one.prompt_hash == hash_prompt(one.prompt) != two.prompt_hash
    assert len(one.prompt_hash) == 64


def test_pins_are_counted_within_the_budget_and_a_cut_one_as_clipped() -> None:
    whole = [PinText("a", "Always in metric units.", NOW), PinText("b", "Call me Noor.", NOW)]
    pinned = fit_pins([*whole, PinText("c", words(2000), NOW)], 300)
    assert [pin.clip is None for pin in pinned.shown] == [True, True, False]
    limits = replace(LIMITS, prompt_budget=3000 - pinned.tokens)
    plan = plan_of([turn_of(0, 50)], limits)
    material = material_of([turn_of(0, 50)], limits)
    context = assemble(plan, material, (), with_texts([turn_of(0, 50)], plan), NO_QUESTION, pinned=pinned)
    assert context.plan.budget == 3000
    assert context.tokens == memory_tokens(context) <= 3000
    assert context.plan.clipped == 1
