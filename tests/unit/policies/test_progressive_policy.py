"""The policy `progressive`: when it folds and what, what it asks, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.summarizer_input import parse_summarizer_input
from chatmemory.text.tokens import count_tokens
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import POLICIES, State, counts_of, is_due, state_tokens, turns_beyond
from memory.policies.progressive.important_data import KINDS
from memory.policies.progressive.narrative_length import summary_cap, target_words
from memory.policies.progressive.policy import (
    DATA_HEADING,
    HEADS,
    MOST_WINDOW_TURNS,
    SUMMARY_HEADING,
    ProgressiveNumbers,
)
from memory.policies.progressive.prompts import BOTH_SCHEMA, DATA_SCHEMA
from memory.policies.progressive.stored import folds_of
from memory.policies.window import window_of
from tests.unit.context.makers import chats, make_turn, turn_of, words
from tests.unit.policies.makers import (
    KNOWN,
    LIMITS,
    NARRATIVE,
    POLICY,
    TURNS,
    TWO,
    absorbed,
    both,
    data_of,
    limits_with,
    next_ask,
    said,
    texts_of,
)


def chat(turns: int, tokens: int) -> list[Turn]:
    return [turn_of(number, tokens) for number in range(turns)]


def is_over(turns: Sequence[Turn], limits: MemoryLimits = LIMITS, state: State | None = None) -> bool:
    state = state or State()
    return POLICY.over_threshold(state, counts_of(POLICY, state, turns, limits), limits)


def window(turns: Sequence[Turn], limits: MemoryLimits = LIMITS, state: State | None = None) -> list[Turn]:
    return list(turns[-window_of(POLICY, state or State(), turns, limits) :])


def tokens_of(turns: Sequence[Turn]) -> int:
    return sum(turn.tokens for turn in turns)


# When it folds, and what


def test_fifteen_pairs_of_long_messages_are_due_and_two_short_ones_are_not() -> None:
    """Seed 001, phase 3."""
    assert is_over(chat(15, 400))
    assert not is_over([make_turn(0, "Hello", "Hi!")])
    assert not is_over([])


def test_instructions_data_summary_and_unfolded_turns_count_together() -> None:
    turns = chat(10, 242)
    assert tokens_of(turns) == 2500
    fixed = state_tokens(POLICY, KNOWN)
    assert [is_over(turns, limits_with(threshold=2500 + fixed + less), KNOWN) for less in (0, -1)] == [
        False,
        True,
    ]
    spare = 3000 - 2500 - fixed
    assert [is_over(turns, limits_with(spare - 4 + more), KNOWN) for more in (0, 1)] == [False, True]


def test_the_window_is_what_fits_into_its_tokens() -> None:
    """Seed 001, phase 3: the last messages that fit 2500 tokens, here with a threshold that has room for them."""
    turns = chat(30, 292)
    kept = window(turns, limits_with(threshold=10_000))
    assert len(kept) == 8
    assert 2500 - 300 < tokens_of(kept) <= 2500
    assert kept == turns[-8:]
    assert window(turns, limits_with(threshold=10_000, window_tokens=700)) == turns[-2:]


def test_the_window_leaves_the_whole_at_two_thirds_of_the_threshold() -> None:
    turns = chat(30, 92)
    assert tokens_of(window(turns)) == 1000  # 2000 minus the expected size of the state
    full = State(words(900), {"important_data": {"important_facts": [words(50)]}, "summary_version": 9})
    beside = state_tokens(POLICY, full)
    assert 2000 - 100 < beside + tokens_of(window(turns, state=full)) <= 2000
    assert 2000 - 100 < 504 + beside + tokens_of(window(turns, limits_with(500), full)) <= 2000


def test_a_window_holds_a_turn_at_least_and_fifty_at_most() -> None:
    assert len(window(chat(3, 4000))) == 1
    assert len(window(chat(200, 4))) == MOST_WINDOW_TURNS
    assert len(window(chat(3, 10), limits_with(window_tokens=0))) == 1


def test_a_single_message_over_the_threshold_is_no_fold_of_its_own() -> None:
    giant = turn_of(3, 5000)
    assert not is_over([giant])
    assert is_over([*chat(3, 20), giant])
    assert turns_beyond(POLICY, State(), [*chat(3, 20), giant], LIMITS) == 3
    assert turns_beyond(POLICY, State(), [giant, turn_of(4, 20)], LIMITS) == 1


@pytest.mark.parametrize("instructions", [1000, 2990, 20_000])
def test_long_instructions_do_not_make_a_fold_of_each_turn(instructions: int) -> None:
    """Counted in full, they would leave room for hardly a turn under the threshold."""
    full = State(words(1000), {"important_data": {}, "summary_version": 9})
    for state in (State(), full):
        limits = limits_with(instructions)
        folds, loose = 0, list[Turn]()
        for number in range(60):
            loose.append(turn_of(number, 200))
            if is_over(loose, limits, state):
                loose = loose[turns_beyond(POLICY, state, loose, limits) :]
                folds += 1
        assert 0 < folds <= 60 * 208 // 750


def test_after_a_fold_nothing_is_due_before_a_third_of_the_threshold_was_said() -> None:
    """Seed 001, phase 6: five more messages trigger nothing, ten to fifteen do."""
    turns = chat(11, 292)
    assert is_over(turns)
    state = State(words(170), {"important_data": {"important_facts": [words(55)]}, "summary_version": 1})
    loose = turns[turns_beyond(POLICY, State(), turns, LIMITS) :]
    assert not is_over([*loose, *chat(3, 192)], state=state)
    assert is_over([*loose, *chat(10, 192)], state=state)


def test_many_tiny_turns_are_due_by_the_rule_of_the_engine() -> None:
    turns = chat(199, 4)
    assert not is_over(turns)
    assert is_due(POLICY, State(), counts_of(POLICY, State(), turns, LIMITS), LIMITS)


def test_the_room_for_headings_is_about_what_they_take() -> None:
    heads = sum(count_tokens(f"{heading}\n") + 4 for heading in (DATA_HEADING, SUMMARY_HEADING))
    assert abs(heads - HEADS) <= 5


# Targets


def test_the_targets_are_those_of_the_seed() -> None:
    assert [target_words(fold) for fold in range(1, 8)] == [
        (100, 150),
        (200, 250),
        (300, 350),
        (400, 450),
        (500, 750),
        (500, 750),
        (500, 750),
    ]


@pytest.mark.parametrize(
    ("version", "low", "high"), [(0, 100, 150), (1, 200, 250), (4, 500, 750), (90, 500, 750)]
)
@pytest.mark.parametrize("limits", [LIMITS, TWO])
def test_the_summarizer_is_told_the_target_of_this_fold(
    version: int, low: int, high: int, limits: MemoryLimits
) -> None:
    state = State(NARRATIVE, {"summary_version": version}) if version else State()
    ask = next_ask([said("{}")] if limits is TWO else (), limits, state)
    assert f"Aim at {low} to {high} words" in ask.instructions
    assert high * 4 // 3 <= ask.answer_tokens <= high * 4 // 3 + 300
    assert ask.max_output_tokens > ask.answer_tokens


def test_a_summary_far_over_its_target_is_cut_at_a_sentence() -> None:
    long = "The order 3RK2T9 was changed to Lima. " * 400
    for fold, state in ((1, State()), (2, KNOWN), (5, State("x", {"summary_version": 4}))):
        summary = absorbed([both(long)], state=state).summary
        assert summary.endswith("Lima.")
        assert target_words(fold)[1] < count_tokens(summary) <= summary_cap(fold)


def test_a_summary_a_little_over_its_target_is_left_as_it_is() -> None:
    summary = " ".join(["word"] * 160)
    assert absorbed([both(summary)], state=State()).summary == summary


def test_each_fold_is_one_version_more() -> None:
    state = State()
    for version in range(1, 8):
        state = absorbed([both()], state=state)
        assert state.data["summary_version"] == folds_of(state) == version


# What is asked


def test_one_call_asks_for_both_and_shows_what_was_known() -> None:
    ask = next_ask()
    assert ask.schema is BOTH_SCHEMA
    assert ask.schema.name == "important_data_and_summary"
    assert not ask.is_optional
    assert parse_summarizer_input(ask.input) == (
        NARRATIVE,
        [("I prefer dark mode. Read https://example.org/a.", "Noted.")],
    )
    assert POLICY.ask(KNOWN, TURNS, LIMITS, [both()]) is None


def test_two_calls_extract_from_the_turns_alone_and_then_summarize() -> None:
    first = next_ask(limits=TWO)
    assert first.schema is DATA_SCHEMA
    assert first.schema.name == "important_data"
    assert first.is_optional
    assert parse_summarizer_input(first.input)[0] == ""
    second = next_ask([said('{"entities": ["Lima"]}')], TWO)
    assert (second.schema, second.is_optional) == (None, False)
    assert parse_summarizer_input(second.input)[0] == NARRATIVE
    state = absorbed([said('{"entities": ["Lima"]}'), said("They spoke of tides.")], TWO)
    assert (data_of(state)["entities"], state.summary) == (["Lima"], "They spoke of tides.")


@pytest.mark.parametrize("kind", KINDS)
def test_instructions_and_schema_name_every_kind(kind: str) -> None:
    for ask in (next_ask(), next_ask(limits=TWO)):
        assert f"- {kind}: " in ask.instructions
    assert kind in DATA_SCHEMA.schema["required"]
    assert BOTH_SCHEMA.schema["properties"]["important_data"] == DATA_SCHEMA.schema


@pytest.mark.parametrize(
    "wanted",
    ["main topics", "what the user asked for and what the assistant answered", "how one thing led to another",
     "may matter later", "covers the summary so far and the new turns", "never orders"],
)  # fmt: skip
def test_the_instructions_want_what_the_seed_wants(wanted: str) -> None:
    assert wanted in next_ask().instructions
    assert wanted in next_ask([said("{}")], TWO).instructions


def test_a_schema_is_strict_all_the_way_down() -> None:
    def objects(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [one for part in value for one in objects(part)]
        if not isinstance(value, dict):
            return []
        inner = [one for part in value.values() for one in objects(part)]
        return [value, *inner] if value.get("type") == "object" else inner

    found = objects(BOTH_SCHEMA.schema)
    assert len(found) == 5
    for one in found:
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])


def test_nobody_is_asked_about_empty_messages() -> None:
    silent = [make_turn(0, "", "")]
    assert POLICY.ask(KNOWN, silent, LIMITS) is None
    assert POLICY.ask(KNOWN, [], LIMITS) is None
    after = POLICY.absorb(KNOWN, silent, [], LIMITS)
    assert texts_of(after) == texts_of(KNOWN)
    assert POLICY.render(POLICY.absorb(State(), silent, [], LIMITS)) == []


@given(chats(), st.integers(0, 5000))
def test_whatever_turns_come_a_fold_leaves_two_thirds_or_a_turn(turns: list[Turn], instructions: int) -> None:
    limits = limits_with(instructions)
    spoken = [turn for turn in turns if turn.tokens]
    kept = spoken[-window_of(POLICY, KNOWN, spoken, limits) :] if spoken else []
    counted = min(instructions + 4, 1000) if instructions else 0
    assert len(kept) <= 1 or counted + state_tokens(POLICY, KNOWN) + tokens_of(kept) <= 2000


def test_its_numbers_are_settings() -> None:
    assert POLICIES["progressive"].numbers is ProgressiveNumbers
    assert ProgressiveNumbers() == ProgressiveNumbers(
        threshold=3000, window_tokens=2500, data_tokens=600, calls=1
    )
    assert POLICIES["progressive"].counts_instructions
