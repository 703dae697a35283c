"""Decide where the verbatim part of a prompt begins, so that its beginning is the same for several replies.

Providers cache a prompt by its prefix. If every new turn displaced the oldest verbatim one, no prefix would ever be
repeated. So the start stays as long as everything from it fits; then most of the room is freed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

KEPT_SHARE = 0.4
"""Share of the verbatim part's room that stays filled, window included, when the start moves.

On the long chats of docs/lab.md, `chunked` has 85.2 % of its tokens cacheable with 0.4, 84.6 % with 0.5 and 83.7 %
with two thirds, and 82.4, 82.2 and 82.0 % of the facts after 20 turns. On the shorter ones, where more turns have only
a line, it is 80.4, 80.4 and 81.8 % of the facts.
"""


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that can be spent: `left` for lines and turns together; `window` are already spent on the window."""

    left: int
    window: int
    lines: int
    """Tokens of all lines if none of the turns in question is verbatim."""


def first_verbatim(costs: Sequence[int], line_costs: Sequence[int], room: Room, anchor: int | None) -> int:
    """Index of the oldest verbatim turn among those before the window; `len(costs)` if none is verbatim.

    A verbatim turn costs `costs` and saves its line. `anchor` is the index of the previous start (one out of range is
    a start that cannot be kept). None: there was none, so as many turns as fit are verbatim.
    """
    end = len(costs)
    saved = [cost - line for cost, line in zip(costs, line_costs, strict=True)]
    spent = list(accumulate(reversed(saved), initial=room.lines))[::-1]
    fits = [index for index in range(end + 1) if spent[index] <= room.left]
    if anchor is None:
        return _contiguous(fits, end)
    return anchor if anchor in fits else _after_block(fits, costs, room)


def _contiguous(fits: Sequence[int], end: int) -> int:
    """The oldest start that is reached from the window without a step that does not fit."""
    start = end
    while start - 1 in fits:
        start -= 1
    return start


def _after_block(fits: Sequence[int], costs: Sequence[int], room: Room) -> int:
    """The oldest start with which the verbatim part, window included, fills at most `KEPT_SHARE` of its room."""
    most = int((room.window + room.left - room.lines) * KEPT_SHARE) - room.window
    return min((index for index in fits if sum(costs[index:]) <= most), default=len(costs))
