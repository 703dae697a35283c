"""Render turns as lines, and the outline of the last reply, and count what they cost in a prompt. Pure.

`memory.context.plan.planner` decides which turns become lines. The outline follows the state (seed 002); it is made by
`chatmemory.text.salience`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from chatmemory.text.markers import LINES_HEADING, quote_markers
from chatmemory.text.tokens import clip_end
from memory.history.costs import (
    AROUND_LINE,
    MERGED_TOKENS,
    OUTLINE_TOKENS,
    line_cost,
    line_text,
    lines_head_cost,
)
from memory.history.turns import Turn
from memory.policies.protocol import StateSection


def merged_text(from_seq: int, through_seq: int, turns: int) -> str:
    """The single line that replaces all turns whose own lines have no room."""
    noun = "turn" if turns == 1 else "turns"
    return f"{turns} {noun} between messages {from_seq} and {through_seq}: not shown here."


def render_lines(lines: Iterable[str]) -> str:
    """The message that contains `lines`, oldest first."""
    return LINES_HEADING + "\n" + quote_markers("\n".join(f"- {line}" for line in lines))


class LineCosts:
    """Token costs of the lines of some turns, counted only when needed: most plans need few of them."""

    def __init__(self, turns: Sequence[Turn], *, older: bool) -> None:
        self._turns = turns
        self._older = older
        self._known: dict[int, int] = {}

    def of(self, index: int) -> int:
        """Cost of the line of turn `index`."""
        if index not in self._known:
            self._known[index] = line_cost(line_text(self._turns[index]))
        return self._known[index]

    def cut(self, at_most: int) -> None:
        """Limit every line to `at_most` tokens from now on."""
        self._known = {index: min(self.of(index), at_most + AROUND_LINE) for index in range(len(self._turns))}

    def all_of(self, indexes: Sequence[int], *, at_most: int) -> int:
        """Tokens of the whole message if each of `indexes` has a line.

        Counting stops once the total exceeds `at_most`; the result is then some number above it.
        """
        if not indexes and not self._older:
            return 0
        total = lines_head_cost() + (MERGED_TOKENS if self._older else 0)
        for index in reversed(indexes):
            if total > at_most:
                break
            total += self.of(index)
        return total

    def reserve(self, indexes: Sequence[int], budget: int) -> int:
        """Tokens of `budget` to reserve for lines before the window gets its share.

        That is what the lines need, but at most a tenth of `budget`.
        """
        tenth = budget // 10
        full = self.all_of(indexes, at_most=tenth)
        if full <= tenth:
            return full
        return tenth if tenth >= lines_head_cost() + MERGED_TOKENS else 0


OUTLINE: Final = "Previous response outline: "
"""Prefix of the outline, exactly as in seed 002."""


def outline_sections(outline: str) -> list[StateSection]:
    """The section that shows `outline`; none for an empty one."""
    if not outline:
        return []
    return [StateSection("outline", clip_end(OUTLINE + quote_markers(outline), OUTLINE_TOKENS))]
