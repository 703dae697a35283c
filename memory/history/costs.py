"""Token costs of turns in a prompt: as a line, as an outline, verbatim. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

from chatmemory.text.markers import LINES_HEADING, RECENT_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens
from memory.history.turns import Turn
from memory.limits import TurnsAs

MERGED_TOKENS = 24
"""An upper bound of the merged line's tokens, for seqs of up to nine digits."""
AROUND_LINE = 2
"""Tokens around a line: its bullet and its newline."""


def line_text(turn: Turn, at_most: int = 0) -> str:
    """The turn's line without newlines, cut to `at_most` tokens if that is not 0.

    For a turn without a stored line it is a placeholder with the turn's message numbers.
    """
    stored = " ".join(turn.line.split())
    if not stored:
        return f"Messages {turn.from_seq} to {turn.through_seq} (not shown here)"
    return clip_end(stored, at_most) if at_most else stored


def line_cost(line: str) -> int:
    """Tokens of one line with its bullet and its newline. The counter of a chat's lines is the sum of these."""
    return count_tokens(f"- {line}") + 1


@cache
def lines_head_cost() -> int:
    """Tokens of the message around the lines."""
    return count_tokens(LINES_HEADING) + 1 + MESSAGE_OVERHEAD


OUTLINE_TOKENS: Final = 104
"""The longest outline with its prefix: 400 characters are about 100 tokens (seed 002), but not always."""
OUTLINE_COST: Final = OUTLINE_TOKENS + MESSAGE_OVERHEAD
"""Maximum tokens that an outline costs in a prompt."""

CUT_OFF_TOKENS = 6
"""An upper bound of the tokens of the mark of a reply that was cut off."""


def turn_cost(turn: Turn) -> int:
    """Tokens of the turn as planned. For turns sent as text, message overhead stands in for labels and newlines."""
    return turn.tokens + (CUT_OFF_TOKENS if turn.cut_off else 0)


def verbatim_head_cost(turns_as: TurnsAs) -> int:
    """Tokens of the message around turns that are sent as text; 0 if turns are sent as messages."""
    return _recent_head_cost() if turns_as == "text" else 0


@cache
def _recent_head_cost() -> int:
    return count_tokens(RECENT_HEADING) + 1 + MESSAGE_OVERHEAD
