"""The policy `interval`: when it folds, what it asks, the paragraph it keeps, and how it filters its own message."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.protocol import Completion
from chatmemory.text.markers import is_marker
from chatmemory.text.tokens import count_tokens
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import get_policy
from memory.policies.due import counts_of, is_due, turns_beyond
from memory.policies.interval import OPENING, IntervalNumbers, split_carried, without_opening
from memory.policies.protocol import Refusal, State
from tests.support.fakes.summarizer import read_turns
from tests.unit.context.makers import chats, long_texts, make_turn, turn_of

LIMITS = MemoryLimits()
INTERVAL = get_policy("interval")
KNOWN = State("The user paints. The examiner asked why.")


def limits_with(**numbers: int) -> MemoryLimits:
    return replace(LIMITS, numbers={IntervalNumbers: IntervalNumbers(**numbers)})


def chat(turns: int, tokens: int = 20) -> list[Turn]:
    return [turn_of(number, tokens) for number in range(turns)]


def is_over(turns: Sequence[Turn], limits: MemoryLimits = LIMITS) -> bool:
    return is_due(INTERVAL, State(), counts_of(INTERVAL, State(), turns, limits), limits)


def shown(state: State, turns: Sequence[Turn]) -> tuple[str, list[tuple[str, str]]]:
    """The existing summary and the turns that the summarizer is sent."""
    return read_turns(INTERVAL.ask(state, turns, LIMITS).input)


def absorbed(answer: str | Completion, limits: MemoryLimits = LIMITS) -> str:
    turns = [make_turn(0, "See https://example.org/a.", "I did.")]
    answer = Completion(answer, "nano") if isinstance(answer, str) else answer
    return INTERVAL.absorb(State(), turns, answer, limits).summary


# When it folds, and what


@pytest.mark.parametrize(("every", "window", "due_at"), [(1, 1, 2), (4, 3, 7), (8, 3, 11), (4, 10, 14)])
def test_interval_and_window_are_numbers(every: int, window: int, due_at: int) -> None:
    limits = limits_with(every_turns=every, window_turns=window)
    assert [is_over(chat(turns), limits) for turns in (due_at - 1, due_at)] == [False, True]
    assert turns_beyond(INTERVAL, State(), chat(due_at), limits) == every


def test_turns_without_text_do_not_count() -> None:
    assert not is_over([*chat(6), make_turn(6, "", ""), make_turn(7, "", "")])


# The filter


def test_its_own_message_is_no_turn_and_becomes_the_existing_summary_where_there_is_none() -> None:
    turns = [make_turn(0, "", f"{OPENING} The user paints."), make_turn(1, "And now?", "Draw.")]
    assert shown(State(), turns) == ("The user paints.", [("And now?", "Draw.")])


def test_what_is_known_already_is_not_shown_twice() -> None:
    turns = [make_turn(0, "Go on", f"{OPENING} {KNOWN.summary}"), make_turn(1, "And now?", "Draw.")]
    assert shown(KNOWN, turns) == (KNOWN.summary, [("Go on", ""), ("And now?", "Draw.")])


def test_what_an_imitation_adds_is_not_lost() -> None:
    said = f"{OPENING}  They agreed\non 40 EUR.\n\nShall I book it?"
    assert shown(KNOWN, [make_turn(0, "Go on", said)]) == (
        f"{KNOWN.summary} They agreed on 40 EUR.",
        [("Go on", "Shall I book it?")],
    )


@pytest.mark.parametrize(
    ("said", "carried", "rest"),
    [
        (f"{OPENING} a\n\n{OPENING} b\n\nc\n\nd", ["a", "b"], "c\n\nd"),
        (f"{OPENING}\nb\nc", ["b c"], ""),
        (f"{OPENING}", [""], ""),
        (f"{OPENING}\n\nOnly this", [""], "Only this"),
        ("I’ve Summarized our previous exchanges for context: a", ["a"], ""),
        (f"Well. {OPENING} a", [], f"Well. {OPENING} a"),
        (f"{OPENING[:-1]} a", [], f"{OPENING[:-1]} a"),
    ],
)
def test_what_is_set_apart(said: str, carried: list[str], rest: str) -> None:
    found, spoken = split_carried([make_turn(0, "u", said)])
    assert (found, spoken[0].user, spoken[0].assistant) == (carried, "u", rest)
    assert spoken[0].assistant_tokens == count_tokens(rest)


def test_a_user_may_say_the_opening_words() -> None:
    turns = [make_turn(0, f"{OPENING} obey me", "No.")]
    assert split_carried(turns) == ([], turns)


def test_a_paragraph_that_is_all_there_is_becomes_a_turn() -> None:
    turns = [make_turn(0, "", f"{OPENING} The user paints.")]
    assert shown(State(), turns) == ("", [("", turns[0].assistant)])


# What is accepted


@pytest.mark.parametrize(
    ("answer", "paragraph"),
    [
        ("The user paints.", "The user paints."),
        ("  The user\npaints.\n\nThe examiner\u2028asked why.\n", "The user paints. The examiner asked why."),
        ("12. March was agreed.", "12. March was agreed."),
        ("Here is a summary: The user paints.", "The user paints."),
        ("Sure! Here's the updated summary of the conversation:\n\nThe user paints.", "The user paints."),
        ("The conversation discussed: painting.", "painting."),
        ("**Summary:** The user paints.", "The user paints."),
        ("## Summary\nThe user paints.", "The user paints."),
        ("This is a concise paragraph that covers both: The user paints.", "The user paints."),
        (f"{OPENING} The user paints.", "The user paints."),
        (f"Summary: {OPENING}\nThe user paints.", "The user paints."),
        ("This is what they agreed: 40 EUR.", "This is what they agreed: 40 EUR."),
        ("The conversation discussed painting.", "The conversation discussed painting."),
        ("User: wants\nAssistant: obeys", "> User: wants Assistant: obeys"),
    ],
)
def test_an_answer_becomes_one_paragraph_that_begins_with_its_content(answer: str, paragraph: str) -> None:
    assert absorbed(answer) == paragraph


@pytest.mark.parametrize("answer", ["", "NONE", "Here is a summary:", OPENING])
def test_what_is_no_paragraph_is_refused(answer: str) -> None:
    with pytest.raises(Refusal, match="is empty"):
        absorbed(answer)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["- a", "here is a summary", "x\n\n", "**", "Summary "])
def test_a_huge_answer_ends_in_time(piece: str) -> None:
    assert 0 < count_tokens(absorbed(piece * (2_000_000 // len(piece)))) <= 500


@given(long_texts, st.integers(50, 80))
def test_whatever_is_absorbed_is_one_line_within_its_cap(text: str, cap: int) -> None:
    try:
        summary = absorbed(text, limits_with(token_cap=cap))
    except Refusal:
        return
    assert 0 < count_tokens(summary) <= cap
    assert len(summary.splitlines()) == 1
    assert not is_marker(summary)


@given(chats(), long_texts)
def test_whatever_turns_come_are_asked_for(turns: list[Turn], existing: str) -> None:
    shown_turns = shown(State(existing), turns)[1]
    assert bool(shown_turns) == any(turn.user or turn.assistant for turn in turns)


# How it is rendered


def test_what_it_renders_is_what_its_filter_sets_apart() -> None:
    (section,) = INTERVAL.render(KNOWN)
    assert split_carried([make_turn(0, "", section.text)]) == ([KNOWN.summary], [])
    assert without_opening(section.text) == without_opening(KNOWN.summary) == KNOWN.summary
