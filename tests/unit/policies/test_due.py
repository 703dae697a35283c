"""How much of a chat a fold covers that is due: what `chunked` leaves for the next one, and when it leaves nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.context.plan import outline_sections
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import POLICIES
from memory.policies.chunked import ChunkedNumbers
from memory.policies.protocol import (
    Counts,
    Policy,
    State,
    StateSection,
    count_before_window,
    count_to_fold,
    counts_of,
    is_due,
)
from tests.unit.context.makers import plan_of, turns_of, words

LIMITS = MemoryLimits()
CHUNKED = POLICIES["chunked"]
FULL = State(summary=words(500))
MANY = 1_000_000


def remaining(turns: Sequence[Turn], limits: MemoryLimits = LIMITS, state: State = FULL) -> list[int]:
    """The sizes of the turns beyond the window that a fold leaves."""
    folds, beyond = (
        count_to_fold(CHUNKED, state, turns, limits, MANY),
        count_before_window(CHUNKED, state, turns, limits),
    )
    return [turn.user_tokens + turn.assistant_tokens for turn in turns[folds:beyond]]


def test_a_fold_leaves_the_newest_turns_beyond_the_window() -> None:
    turns = turns_of(*[240] * 25)
    assert is_due(CHUNKED, FULL, counts_of(CHUNKED, FULL, turns, LIMITS), LIMITS)
    assert remaining(turns) == [240] * 4
    assert count_to_fold(CHUNKED, FULL, turns, LIMITS, MANY) == 25 - 3 - 4


@pytest.mark.parametrize(
    ("limits", "sizes", "left"),
    [
        (replace(LIMITS, numbers={ChunkedNumbers: ChunkedNumbers(left_unfolded_tokens=0)}), [240] * 25, 0),
        (replace(LIMITS, numbers={ChunkedNumbers: ChunkedNumbers(left_unfolded_tokens=500)}), [240] * 25, 2),
        (replace(LIMITS, prompt_budget=1500), [240] * 25, 2),
        (replace(LIMITS, threshold=3000), [240] * 25, 1),
        (replace(LIMITS, threshold=1000), [240] * 25, 0),
        # A turn that is too long to be verbatim is folded, and so is all before it.
        (LIMITS, [*[240] * 20, 700, 200, 200, 240, 240, 240], 2),
        (LIMITS, [900] * 8, 0),
        # At least half of the turns beyond the window are folded.
        (LIMITS, [300] * 8, 2),
        (LIMITS, [300] * 4, 0),
    ],
)
def test_a_fold_leaves_at_most_so_many_turns(limits: MemoryLimits, sizes: list[int], left: int) -> None:
    assert remaining(turns_of(*sizes), limits) == sizes[len(sizes) - 3 - left : -3]
    assert remaining(turns_of(*sizes), limits, State(summary=words(5200))) == [], "it would still be due"


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"chunked"}))
def test_the_other_policies_leave_nothing(name: str) -> None:
    policy, turns = POLICIES[name], turns_of(*[240] * 40)
    assert count_to_fold(policy, State(), turns, LIMITS, MANY) == count_before_window(policy, State(), turns, LIMITS)


@given(st.lists(st.integers(2, 2000), max_size=40), st.integers(200, 9000), st.integers(200, 9000))
def test_due_chat_always_folds_something(sizes: list[int], budget: int, threshold: int) -> None:
    limits = replace(LIMITS, prompt_budget=budget, threshold=threshold, summary_cap=min(500, budget - 1))
    turns = turns_of(*sizes)
    if is_due(CHUNKED, FULL, counts_of(CHUNKED, FULL, turns, limits), limits):
        folds = count_to_fold(CHUNKED, FULL, turns, limits, MANY)
        assert 0 < folds <= count_before_window(CHUNKED, FULL, turns, limits)
        assert sum(remaining(turns, limits)) <= min(1000, budget * 2 // 5)


CARD = State(words(150), {"goal": words(30), "techniques": [words(30)] * 4})
SHOWN = [
    *((CHUNKED, State(words(tokens)), []) for tokens in (0, 20, 450)),
    (POLICIES["card"], CARD, outline_sections("語 " * 200)),
]
"""States, with the longest outline of a reply that may be shown beside."""


@given(
    st.lists(st.sampled_from([2, 8, 20, 60, 240, 800, 1500, 3000]), min_size=1, max_size=60),
    st.sampled_from(SHOWN),
    st.sampled_from([300, 1000, 3000]),
    st.sampled_from(["messages", "text"]),
)
@example([8] * 18, SHOWN[-1], 400, "messages")  # due only because of the outline
def test_due_when_plan_cannot_hold_turns(
    sizes: list[int], shown: tuple[Policy, State, list[StateSection]], budget: int, turns_as: Any
) -> None:
    policy, state, outline = shown
    limits = replace(LIMITS, prompt_budget=budget, turns_as=turns_as, min_fold_tokens=1)
    turns = turns_of(*sizes)
    counts, window = counts_of(policy, state, turns, limits), policy.window(state, [], limits)
    plan = plan_of(turns, limits, [*policy.render(state), *outline], window_turns=window)
    if (plan.merged or plan.unrepresented) and counts.tokens - counts.window_tokens >= limits.min_fold_tokens:
        assert is_due(policy, state, counts, limits)
    if is_due(policy, state, counts, limits):
        assert count_before_window(policy, state, turns, limits) == len(turns) - window


def test_without_memory_no_chat_is_due() -> None:
    many = Counts(turns=500, tokens=100_000, line_tokens=20_000, window_turns=3, window_tokens=600)
    assert is_due(CHUNKED, State(), many, LIMITS)
    assert not is_due(CHUNKED, State(), many, MemoryLimits(enabled=False))
