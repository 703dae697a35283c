"""Which of a chat's unfolded turns are its window, and how the unfolded turns add up."""

from __future__ import annotations

from collections.abc import Sequence

from memory.lines import line_cost, line_text
from memory.policies.protocol import Counts
from memory.turns import Turn


def before_window(turns: Sequence[Turn], window_turns: int) -> int:
    """How many of `turns` come before the newest `window_turns` that have text."""
    missing = window_turns
    for index in range(len(turns) - 1, -1, -1):
        if missing <= 0:
            return index + 1
        missing -= turns[index].tokens > 0
    return 0


def counts_of(turns: Sequence[Turn], window_turns: int) -> Counts:
    """The counters of `turns`, all of a chat's unfolded ones. Turns without text do not count."""
    said = [turn for turn in turns if turn.tokens]
    window = said[before_window(said, window_turns) :]
    return Counts(
        turns=len(said),
        tokens=sum(turn.tokens for turn in said),
        line_tokens=sum(line_cost(line_text(turn)) for turn in said),
        window_turns=len(window),
        window_tokens=sum(turn.tokens for turn in window),
        newest_tokens=said[-1].tokens if said else 0,
    )
