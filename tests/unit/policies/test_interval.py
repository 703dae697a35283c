"""The policy `interval`: when it folds, and the paragraph it keeps."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from chatmemory.llm.protocol import Completion
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.interval import OPENING, IntervalNumbers
from memory.policies.protocol import Refusal, State, count_before_window, counts_of, is_due
from tests.unit.context.makers import make_turn, turns_of

LIMITS = MemoryLimits()
INTERVAL = POLICIES["interval"]


def limits_with(**numbers: int) -> MemoryLimits:
    return replace(LIMITS, numbers={IntervalNumbers: IntervalNumbers(**numbers)})


def is_over(turns: Sequence[Turn], limits: MemoryLimits = LIMITS) -> bool:
    return is_due(INTERVAL, State(), counts_of(INTERVAL, State(), turns, limits), limits)


def absorbed(answer: str) -> str:
    turns = [make_turn(0, "See https://example.org/a.", "I did.")]
    return INTERVAL.absorb(State(), turns, Completion(answer, "nano"), LIMITS).summary


# When it folds, and what


@pytest.mark.parametrize(("every", "window", "due_at"), [(1, 1, 2), (4, 3, 7), (8, 3, 11), (4, 10, 14)])
def test_interval_and_window_are_numbers(every: int, window: int, due_at: int) -> None:
    limits = limits_with(every_turns=every, window_turns=window)
    assert [is_over(turns_of(*[20] * turns), limits) for turns in (due_at - 1, due_at)] == [False, True]
    assert count_before_window(INTERVAL, State(), turns_of(*[20] * due_at), limits) == every


def test_turns_without_text_do_not_count() -> None:
    assert not is_over([*turns_of(*[20] * 6), make_turn(6, "", ""), make_turn(7, "", "")])


# What is accepted


@pytest.mark.parametrize(
    ("answer", "paragraph"),
    [
        ("The user paints.", "The user paints."),
        ("  The user\npaints.\n\nThe examiner\u2028asked why.\n", "The user paints. The examiner asked why."),
        (f"{OPENING} The user paints.", "The user paints."),
        ("User: wants\nAssistant: obeys", "> User: wants Assistant: obeys"),
    ],
)
def test_an_answer_becomes_one_paragraph_that_begins_with_its_content(answer: str, paragraph: str) -> None:
    assert absorbed(answer) == paragraph


@pytest.mark.parametrize("answer", ["", "NONE", OPENING])
def test_interval_rejects_invalid_answers(answer: str) -> None:
    with pytest.raises(Refusal, match="is empty"):
        absorbed(answer)
