"""Determine which of a chat's unfolded turns are its window, and count the unfolded turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory.history.turns import Turn, line_cost, line_text
from memory.limits import MemoryLimits
from memory.policies.protocol import Counts, Policy, State


def before_window(turns: Sequence[Turn], window_turns: int) -> int:
    """The number of `turns` before the newest `window_turns` that have text."""
    missing = window_turns
    for index in range(len(turns) - 1, -1, -1):
        if missing <= 0:
            return index + 1
        missing -= turns[index].tokens > 0
    return 0


def window_of(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the newest of `turns` (the newest unfolded ones, oldest first) the policy keeps verbatim."""
    newest = [turn for turn in turns if turn.tokens][-policy.window_reach(limits) :]
    return max(1, policy.window(state, newest, limits))


def turns_beyond(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the oldest of `turns` (all unfolded ones) are beyond the window, so that a fold covers them."""
    return before_window(turns, window_of(policy, state, turns, limits))


def totals_of(turns: Iterable[Turn]) -> Counts:
    """Sum the counts of `turns`, without a window. Turns without text do not count. Consumes an iterator once."""
    number = tokens = line_tokens = 0
    for turn in turns:
        if turn.tokens:
            number += 1
            tokens += turn.tokens
            line_tokens += line_cost(line_text(turn))
    return Counts(number, tokens, line_tokens, window_turns=0, window_tokens=0)


def counts_of(policy: Policy, state: State, turns: Iterable[Turn], limits: MemoryLimits) -> Counts:
    """The counters of `turns`, all unfolded ones of a chat, oldest first. Consumes an iterator once."""
    newest: deque[Turn] = deque(maxlen=policy.window_reach(limits))

    def passing() -> Iterable[Turn]:
        for turn in turns:
            if turn.tokens:
                newest.append(turn)
            yield turn

    return with_window(totals_of(passing()), policy, state, tuple(newest), limits)


def with_window(
    totals: Counts, policy: Policy, state: State, newest: Sequence[Turn], limits: MemoryLimits
) -> Counts:
    """Return `totals` of all unfolded turns with the counts of the window, which is determined from `newest`."""
    said = [turn for turn in newest if turn.tokens]
    window = said[before_window(said, window_of(policy, state, said, limits)) :]
    return replace(
        totals,
        window_turns=len(window),
        window_tokens=sum(turn.tokens for turn in window),
        newest_tokens=said[-1].tokens if said else 0,
    )
