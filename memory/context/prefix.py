"""Where the verbatim part of a prompt begins, so that its beginning is the same for several replies.

Providers cache a prompt by its prefix. If the oldest verbatim turn left with every new one, no prefix would
ever stand twice. So the start stays while everything from it fits; then a block leaves, a third of the room
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Room:
    """What there is to give out, in tokens: `left` for lines and turns together, `window` already given to
    it."""

    left: int
    window: int
    lines: int
    """Of all lines, when none of the turns in question is verbatim."""


def first_verbatim(costs: Sequence[int], line_costs: Sequence[int], room: Room, anchor: int | None) -> int:
    """Index of the oldest of the turns before the window that is verbatim; `len(costs)` if none is.

    A turn that is verbatim costs `costs` and saves its line. `anchor` is the start before, as an index (one
    that is out of range stands for a start that cannot be kept); None: there was none, so as many turns as
    fit.
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
    """The oldest start that leaves the verbatim part, window included, at two thirds of its room."""
    most = (room.window + room.left - room.lines) * 2 // 3 - room.window
    return min((index for index in fits if sum(costs[index:]) <= most), default=len(costs))
